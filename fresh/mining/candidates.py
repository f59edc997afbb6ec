"""Conditions that may be preconditions of a write: whatever held in enough of its verified uses."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from fresh.conditions import (
    Asked,
    AtMost,
    CalledBefore,
    ComesFrom,
    Condition,
    Confirmed,
    FieldIs,
    Grounded,
    ReadBefore,
    SameCount,
    SingledOut,
    Together,
    Within,
)
from fresh.conditions.words import stems
from fresh.mining.patterns import in_words
from fresh.mining.use import PARTICULAR, Use

FieldTasks = dict[str, dict[str, set[str]]]
"""For a field's path and value, the tasks in which a write's object had it."""

_MAX_USUAL = 2
_CHANCE = 0.05
"""A state is required only if so much agreement by chance, over all fields and values tried, is less likely: the usual
level, Bonferroni-corrected."""
_MAX_WORDS = 8
_MIN_WORD_SHARE = 0.1
_MAX_PLACES = 4


def candidates(
    verified: Sequence[Use],
    others: Sequence[Use],
    reads: frozenset[str],
    errors: Collection[str],
    anywhere: FieldTasks,
    support: int,
) -> list[Condition]:
    """Conditions that held in enough verified uses of a tool, requirements by nature first.

    Args:
        verified: Verified uses of the tool.
        others: Uses of all other writes.
        reads: Tools that only read.
        errors: What the environment says when it refuses the tool.
        anywhere: Values of fields in all writes' objects.
        support: Verified uses in which a condition held, at least.
    """

    def frequent(items: Iterator[Any]) -> list[Any]:
        return sorted(item for item, count in Counter(items).items() if count >= support)

    found: list[Condition] = [Confirmed()]
    seen_reads = frequent(item for use in verified for item in use.reads if item[0] in reads)
    found += [ReadBefore(tool=t, parameter=p, argument=a) for t, p, a in seen_reads]
    arguments = frequent(path for use in verified for path, named in use.arguments.items() if named)
    found += [Grounded(argument=path, firm=firm) for path in arguments for firm in (False, True)]
    found += [
        Within(argument=a, anchor=b, via=v)
        for a, b, v in frequent(key for use in verified for key, held in use.within.items() if held)
    ]
    found += [
        Together(argument=a, other=b, whole_result=w)
        for a, b, w in frequent(key for use in verified for key, held in use.together.items() if held)
    ]
    singled = frequent(key for use in verified for key, held in use.singled.items() if held)
    found += [SingledOut(argument=path) for path in singled]
    found += [
        SameCount(argument=a, other=b, path=p)
        for a, b, p in frequent(key for use in verified for key, held in use.counts.items() if held)
    ]
    found += [
        AtMost(argument=a, anchor=b, path=p)
        for a, b, p in frequent(key for use in verified for key, held in use.at_most.items() if held)
    ]
    found += [c for path in arguments if (c := _comes_from(path, verified)) is not None]
    found += _field_conditions(verified, anywhere, errors)
    found += [c for c in [_asked(verified, others)] if c is not None]
    found += [Asked(words=tuple(sorted(stems(in_words(verified[0].tool)))), by_name=True)]
    called = frequent(name for use in verified for name in use.called if name in reads)
    found += [CalledBefore(tool=name) for name in called]
    return found


def _comes_from(argument: str, verified: Sequence[Use]) -> ComesFrom | None:
    """The places that hold the values of verified uses of several tasks; the user's words always do."""
    tasks: dict[str, set[str]] = defaultdict(set)
    for use in verified:
        for places in use.places.get(argument, ()):
            for place in places:
                tasks[place].add(use.task)
    usual = sorted(place for place, seen in tasks.items() if len(seen) >= 2 and place != "request")
    if not usual or len(usual) > _MAX_PLACES:
        return None  # what comes from anywhere comes from nowhere in particular
    return ComesFrom(argument=argument, places=("request", *usual))


def _field_conditions(verified: Sequence[Use], anywhere: FieldTasks, errors: Collection[str]) -> list[Condition]:
    """Fields on which the verified uses of many tasks agree, more than the same field's spread elsewhere explains.

    Where the environment's own refusal speaks of the field or of its value, agreement needs no further proof.
    """
    by_field: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for use in verified:
        for where, values in use.fields.items():
            for value in set(values) if where[1] else ():
                by_field[where][value].add(use.task)
    found: list[Condition] = []
    for (argument, path), by_value in sorted(by_field.items()):
        usual = sorted(value for value, seen in by_value.items() if len(seen) >= 2)
        if not 1 <= len(usual) <= _MAX_USUAL or not _is_state(usual):
            continue
        error = _speaks_of(usual, errors)
        if error or _beyond_chance(usual, by_value, anywhere[path], len(by_field)):
            found.append(FieldIs(argument=argument, path=path, values=tuple(usual), error=error))
    return found


def _speaks_of(values: Sequence[str], errors: Collection[str]) -> str:
    """The first refusal that has all words of one of the values; empty where none has."""
    wanted = [words for words in map(stems, values) if words]
    return next((error for error in sorted(errors) if any(words <= stems(error) for words in wanted)), "")


def _is_state(values: Sequence[str]) -> bool:
    """Whether these can be states of an object: words, not numbers, and nothing that only names it."""
    return not any(value in ("", PARTICULAR) or value.replace(".", "").isdigit() for value in values)


def _beyond_chance(
    usual: Sequence[str], by_value: dict[str, set[str]], known: dict[str, set[str]], fields: int
) -> bool:
    share = sum(len(known[value]) for value in usual) / sum(len(seen) for seen in known.values())
    tries = fields * math.comb(len(known), len(usual))
    return tries * share ** len(set().union(*by_value.values())) < _CHANCE


def _asked(verified: Sequence[Use], others: Sequence[Use]) -> Asked | None:
    """Words that users say when they want this and seldom otherwise; between them, nearly every user says one."""
    own = _words_by_task(verified)
    elsewhere = _words_by_task([use for use in others if use.task not in own])
    if not own or not elsewhere:
        return None
    share = {word: sum(word in said for said in own.values()) / len(own) for word in set().union(*own.values())}
    usual = Counter(word for said in elsewhere.values() for word in said)
    telling = {
        word: share[word] - usual[word] / len(elsewhere)
        for word in share
        if share[word] >= _MIN_WORD_SHARE and share[word] > 2 * usual[word] / len(elsewhere)
    }
    left, chosen = dict(own), list[str]()
    while left and len(chosen) < _MAX_WORDS:
        gain = {w: sum(w in said for said in left.values()) * telling[w] for w in telling if w not in chosen}
        best = min(gain, key=lambda word: (-gain[word], word), default=None)
        if best is None or not gain[best]:
            break
        chosen.append(best)
        left = {task: said for task, said in left.items() if best not in said}
    return Asked(words=tuple(chosen)) if chosen else None


def _words_by_task(uses: Sequence[Use]) -> dict[str, frozenset[str]]:
    """Words that the user of each task said before every one of these uses."""
    found: dict[str, frozenset[str]] = {}
    for use in uses:
        found[use.task] = found[use.task] & use.words if use.task in found else use.words
    return found
