"""The summariser that needs no model: statements drawn from the experiences, each with its counts.

Counts are over all experiences of the tool after the filter; the selection of Algorithm 1 decides what is worth a
statement. Values are shown only as :class:`fresh.expg.scrub.Scrubber` allows.
"""

from __future__ import annotations

import re
from collections import Counter

from fresh.expg.classes import EquivalenceClass
from fresh.expg.evidence import Evidence
from fresh.expg.experience import ASPECTS, Aspect, Experience
from fresh.expg.guidance import Advice, Constraint, shorten
from fresh.expg.shapes import EMPTY, kind_of
from fresh.traces.structure import parse_observation

MAX_LINES = 5
"""Most success patterns, and most common issues, of a tool."""
MIN_SUPPORT = 2
"""Calls that a piece of best practice needs behind it."""
MOSTLY = 0.6
"""Share of calls from which on something is usual."""
_MAX_FIELDS = 8
_ORIGINS = {"user": "what the user said", "result": "an earlier result"}


class ExtractiveSummariser:
    """Writes guidance from counts alone: deterministic, offline."""

    def __repr__(self) -> str:
        return "ExtractiveSummariser()"

    def summarise(self, evidence: Evidence) -> Advice:
        """Returns core function, success patterns, common issues and best practices."""
        return Advice(
            core_function=core_function(evidence),
            success_patterns=tuple(success_patterns(evidence)),
            common_issues=tuple(common_issues(evidence)),
            best_practices=shorten(" ".join(best_practices(evidence))),
        )


def core_function(evidence: Evidence) -> str:
    """The owner's first sentence, what the tool was given and what it answered."""
    n = len(evidence.experiences)
    answered = n - len(evidence.failed)
    parts = [_first_sentence(evidence.spec.description)] if evidence.spec.description.strip() else []
    parts.append(f"Answered without an error in {answered} of {n} calls.")
    fields = Counter(key for e in evidence.experiences if e.invocation.success for key in _fields(e))
    usual = sorted(key for key, count in fields.items() if answered >= MIN_SUPPORT and count >= MOSTLY * answered)
    if usual:
        low = min(fields[key] for key in usual[:_MAX_FIELDS])
        parts.append(f"Returns {', '.join(usual[:_MAX_FIELDS])} (each in {low} of {answered} calls or more).")
    return " ".join(parts)


def _first_sentence(text: str) -> str:
    first = re.split(r"(?<=[.!?])\s|\n\s*\n", text.strip(), maxsplit=1)[0]
    return " ".join(first.split()).rstrip(".") + "."


def _fields(experience: Experience) -> list[str]:
    value = parse_observation(experience.invocation.response)
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return []
    # A field's name is code; with blanks or leading capitals it may be data that serves as a key.
    return [key for key in map(str, value) if re.fullmatch(r"[a-z][A-Za-z_]{0,30}", key)]


def success_patterns(evidence: Evidence) -> list[str]:
    """The forms of calls without a fault that the selection holds, with how often each was right."""
    selected = {e.key for e in evidence.selection.experiences}
    good = Counter(evidence.pattern(e) for e in evidence.good)
    all_calls = Counter(evidence.pattern(e) for e in evidence.experiences)
    chosen = {evidence.pattern(e) for e in evidence.good if e.key in selected}
    ordered = sorted(chosen, key=lambda pattern: (-good[pattern], pattern))[:MAX_LINES]
    return [f"{pattern} ({_of(good[pattern], all_calls[pattern])} without a fault)" for pattern in ordered]


def common_issues(evidence: Evidence) -> list[str]:
    """The faulty classes that the selection holds, largest first, then the error answers seen in several tasks."""
    selected = {e.scores for e in evidence.selection.experiences}
    n = len(evidence.experiences)
    faulty = [c for c in evidence.classes if not c.perfect and c.scores in selected]
    lines = [f"{_class_faults(c)} ({_of(len(c.members), n)})" for c in faulty[:MAX_LINES]]
    for text, found in evidence.messages[:MAX_LINES]:
        line = f'the tool answered "{text}" ({_of(len(found), n)})'
        repair = evidence.repair(found)
        if repair is not None and repair[1] >= MIN_SUPPORT:
            line += f"; a next call with another {repair[0]} succeeded ({_of(repair[1], len(found))})"
        lines.append(line)
    return lines


def _class_faults(group: EquivalenceClass) -> str:
    faults = [aspect for aspect, score in zip(ASPECTS, group.scores, strict=True) if not score]
    response = [a for a in faults if a.place >= Aspect.MEANINGFUL.place]
    said = [a.fault for a in faults if a not in response]
    if len(response) == len(ASPECTS) - Aspect.MEANINGFUL.place:
        said.append("the tool answered with an error")
    else:
        said.extend(a.fault for a in response)
    return "; ".join(said)


def best_practices(evidence: Evidence) -> list[str]:
    """Sentences on parameters, origins, order and repeats, the best supported first."""
    found = [
        *_forbidden_inventions(evidence),
        *_needed_parameters(evidence),
        *_repeats(evidence),
        *_predecessor(evidence),
        *_sources(evidence),
        *_empty_answers(evidence),
    ]
    return [sentence for support, sentence in sorted(found, key=lambda item: (-item[0], item[1])) if support]


def _forbidden_inventions(evidence: Evidence) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    names = sorted({name for e in evidence.faulty(Aspect.MATCHES_CONTEXT) for name in e.invocation.origins})
    for name in names:
        calls = evidence.faulty(Aspect.MATCHES_CONTEXT, name)
        errors = sum(not e.invocation.success for e in calls)
        if len(calls) >= MIN_SUPPORT:
            said = f"Never make up {name}: {_of(errors, len(calls))} whose {name} stood nowhere before got an error."
            found.append((len(calls), said))
    return found


def _needed_parameters(evidence: Evidence) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for name in evidence.parameters:
        with_it = evidence.given(name, evidence.good)
        without = len(evidence.failed) - evidence.given(name, evidence.failed)
        if with_it == len(evidence.good) and without >= MIN_SUPPORT:
            said = f"Give {name}: all {_calls(with_it)} without a fault did, {_of(without, len(evidence.failed))}"
            found.append((without, said + " with an error did not."))
    return found


def _repeats(evidence: Evidence) -> list[tuple[int, str]]:
    calls = [e for e in evidence.faulty(Aspect.NEEDED_NOW) if "made before" in e.judgement.explanation]
    if len(calls) < MIN_SUPPORT:
        return []
    n = len(evidence.experiences)
    return [(len(calls), f"Do not repeat the same call when nothing has changed: {_of(len(calls), n)} did so.")]


def _predecessor(evidence: Evidence) -> list[tuple[int, str]]:
    before = Counter(e.invocation.previous for e in evidence.good if e.invocation.previous)
    before.pop(evidence.spec.name, None)
    if not before:
        return []
    tool, count = min(before.items(), key=lambda item: (-item[1], str(item[0])))
    if count < MIN_SUPPORT or count < MOSTLY * len(evidence.good):
        return []
    return [(count, f"It usually follows {tool} ({_of(count, len(evidence.good))} without a fault).")]


def _sources(evidence: Evidence) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for name in evidence.parameters:
        said, support = source_note(evidence, name)
        if said:
            found.append((support, f"{said}."))
    return found


def source_note(evidence: Evidence, name: str) -> tuple[str, int]:
    """``Take order_id from an earlier result (30 of 42 calls without a fault)`` and the count, or nothing."""
    origins = evidence.origins(name)
    given = evidence.given(name, evidence.good)
    parts: list[str] = []
    support = 0
    for origin, count in sorted(origins.items(), key=lambda item: (-item[1], item[0])):
        if count >= MIN_SUPPORT and 4 * count >= given:
            parts.append(f"{_ORIGINS[origin]} ({_of(count, given)} without a fault)")
            support += count
    return (f"Take {name} from {' or '.join(parts)}", support) if parts else ("", 0)


def _empty_answers(evidence: Evidence) -> list[tuple[int, str]]:
    answered = [e for e in evidence.experiences if e.invocation.success]
    empty = [e for e in answered if _is_empty(e) and not e.scores[Aspect.MEANINGFUL.place]]
    if len(empty) < MIN_SUPPORT:
        return []
    return [(len(empty), f"Be ready for an empty answer: {_of(len(empty), len(answered))} got one.")]


def _is_empty(experience: Experience) -> bool:
    text = experience.invocation.response
    return kind_of(text, parse_observation(text)) == EMPTY


def constrain(evidence: Evidence, advice: Advice) -> Constraint:
    """What stable guidance puts into the schema: the dominant fault, best practices, and notes by parameter."""
    n = len(evidence.experiences)
    largest = next(c for c in evidence.classes if not c.perfect)
    text = f"In {_of(len(largest.members), n)}: {_class_faults(largest)}. {advice.best_practices}".strip()
    optional = [name for name in evidence.parameters if name not in evidence.spec.parameters.get("required", ())]
    failed = len(evidence.failed)
    required = tuple(
        name
        for name in optional
        if evidence.given(name, evidence.good) == len(evidence.good) >= MIN_SUPPORT
        and failed - evidence.given(name, evidence.failed) > MIN_SUPPORT
    )
    sources = {name: source_note(evidence, name)[0] for name in evidence.parameters}
    notes = {name: f"{said}." for name, said in sources.items() if said}
    patterns = {name: f"^{form}$" for name in evidence.parameters if (form := evidence.form(name)) is not None}
    return Constraint(text=text, parameters=notes, required=required, patterns=patterns)


def _calls(count: int) -> str:
    return f"{count} call" if count == 1 else f"{count} calls"


def _of(part: int, whole: int) -> str:
    return f"{part} of {_calls(whole)}"
