"""Argument values from the live history: which values could stand there, and where such values usually come from.

Memory says *where* an argument's values came from in verified uses (the request, a field of some tool's result), the
live history says *what* stands there now. No value of an old run takes part.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fresh.knowledge import ToolMemory
from fresh.live import Live, last_name
from fresh.values import argument_name, identifiers_in, is_identifier, is_reference, normalise

REQUEST = "request"
OWN_WORDS = "your own words"
_NO_PLACE = ("nowhere", "argument")
_SURE = 1.0
"""Score from which a value is taken for the right one; below it, it is only offered."""
MAX_CANDIDATES = 16
"""Values that are kept for an argument."""
_MAX_CHOICE = 8
_MAX_TOLD = 100
"""Values that fit equally, of which the one that the user has named is looked for."""
_BESIDE, _NEAR = 0.6, 0.3
"""How much the words just before an identifier, and those around it, say for an argument of that name."""
_GENERIC = frozenset({"id", "ids", "number", "code", "name", "value", "key", "no"})
_WORDS = re.compile(r"[A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Filled:
    """What is known of an argument's value now.

    Attributes:
        argument: Name of the argument.
        value: The one value that fits; None when there is none or several fit equally.
        candidates: Values that could stand there, best first.
        source: Where the value stands or would come from, in words for a model.
        certain: The value is the only candidate, or clearly the best.
    """

    argument: str
    value: Any
    candidates: tuple[Any, ...]
    source: str
    certain: bool


def fill(argument: str, tool: ToolMemory | None, live: Live, schema: Mapping[str, Any] | None = None) -> Filled:
    """Finds an argument's value in the live history.

    Args:
        argument: Name or path, such as ``order_id`` or ``item_ids[]``.
        tool: What memory knows of the tool; None for a tool it has never seen.
        live: The history.
        schema: JSON Schema of the argument, if the caller described it.
    """
    options = schema.get("enum") if isinstance(schema, Mapping) else None
    if isinstance(options, list) and options:
        said = [option for option in options if live.history.said(option)]
        chosen = said[0] if len(said) == 1 else None
        return Filled(argument, chosen, tuple(said or options)[:MAX_CANDIDATES], "the request", chosen is not None)
    sources = argument_sources(argument, tool)
    ranked = _ranked(argument, sources, live, _examples(schema))
    words = " or ".join(map(source_in_words, sources[:1])) or (OWN_WORDS if _is_composed(argument, tool) else "")
    if not ranked:
        return Filled(argument, None, (), words, False)
    found = _distinct(value for value, _, _ in ranked)
    best = _distinct(value for value, score, _ in ranked if score == ranked[0][1])
    if 1 < len(best) <= _MAX_TOLD:  # of several that fit equally, the one that the user has named
        best = [value for value in best if live.history.said(value)]
    sure = len(best) == 1 and not _is_list(argument, schema) and ranked[0][1] >= _SURE
    source = ranked[0][2] or words
    if sure and REQUEST in sources and not (is_reference(argument, best[0]) or live.history.said(best[0])):
        # words, not an identifier: the user may have asked for others than those that stand in a result
        sure, source = False, f"{source_in_words(REQUEST)} or {source}"
    chosen = best[0] if sure else None
    return Filled(argument, chosen, tuple(found[:MAX_CANDIDATES]), source, sure)


def argument_sources(argument: str, tool: ToolMemory | None) -> list[str]:
    """Where an argument's values came from in verified uses, most frequent first; rare accidents left out.

    A list or an object has the sources of the values inside it.
    """
    counts = _source_counts(argument, tool)
    total = counts.total()
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [source for source, count in ranked if count >= 0.1 * total and source not in _NO_PLACE]


def _source_counts(argument: str, tool: ToolMemory | None) -> Counter[str]:
    counts: Counter[str] = Counter()
    if tool is not None:
        for path, entry in tool.sources.items():
            if path == argument or (argument_name(path) == argument and argument not in tool.sources):
                counts.update(dict(entry))
    return counts


def _is_composed(argument: str, tool: ToolMemory | None) -> bool:
    """Whether verified uses mostly had a value that stood nowhere: a sum, a summary, a sentence."""
    counts = _source_counts(argument, tool)
    return counts["nowhere"] > counts.total() / 2


def source_in_words(source: str) -> str:
    """``get_order:items[].id`` as ``field items[].id of get_order's result``."""
    if source == REQUEST:
        return "the request"
    tool, _, path = source.partition(":")
    if not path or path == "text":
        return f"the result of {tool}"
    return f"field {path} of {tool}'s result"


def source_tool(source: str) -> str:
    """The tool whose result a source names; empty for the request."""
    return "" if source == REQUEST else source.partition(":")[0]


def _examples(schema: Mapping[str, Any] | None) -> list[str]:
    """The identifiers that an argument's schema gives as examples, in its description or by themselves."""
    if not isinstance(schema, Mapping):
        return []
    told = [match.group() for match in identifiers_in(str(schema.get("description") or ""))]
    given = schema.get("examples")
    return told + [str(value) for value in (given if isinstance(given, list) else ()) if is_identifier(value)]


def _outline(value: Any) -> tuple[str, bool, bool]:
    """The sign that an identifier begins with, and whether it has letters and digits: enough to tell kinds apart."""
    text = str(value)
    sign = "" if text[:1].isalnum() else text[:1]
    return sign, any(c.isalpha() for c in text), any(c.isdigit() for c in text)


def _said(name: str, live: Live, examples: Sequence[str]) -> list[tuple[Any, float]]:
    """As `told_values`, of what is written like the examples, if there are some; of the same shape, it fits better."""
    told = told_values(name, live)
    if not examples:
        return told
    kinds, shapes = set(map(_outline, examples)), set(map(shape, examples))
    fitting = [(value, bonus) for value, bonus in told if _outline(value) in kinds]
    return [(value, max(bonus, _NEAR) if shape(value) in shapes else bonus) for value, bonus in fitting]


def _ranked(
    argument: str, sources: list[str], live: Live, examples: Sequence[str] = ()
) -> list[tuple[Any, float, str]]:
    """``(value, score, source in words)``, best first; each place has its own score, so that ties mean real doubt."""
    found: list[tuple[Any, float, str]] = []
    name = last_name(argument)
    said = _said(name, live, examples)
    for rank, source in enumerate(sources):
        score = 10.0 - rank
        if source == REQUEST:
            found += [(value, score + bonus if bonus else 0.5, "the request") for value, bonus in said]
        else:
            tool, _, path = source.partition(":")
            found += [(value, score, source_in_words(source)) for value in live.places.get((tool, path), ())]
    # A value that an earlier call of this run took under the same name needs no guess about its kind.
    found += [(value, 9.5, "an earlier call") for value in live.passed.get(name, ())[:1] if not _is_list(argument)]
    if not found:
        singular = name.removesuffix("s")
        values = live.fields.get(name) or live.fields.get(singular) or []
        found += [(value, 1.0, f"field {name} seen in a result") for value in values]
        told = [(value, bonus) for value, bonus in said if bonus > 0]
        found += [(value, (_SURE if bonus >= _NEAR else 0.5) + bonus / 10, "the request") for value, bonus in told]
    return sorted(found, key=lambda item: -item[1])


def told_values(name: str, live: Live) -> list[tuple[Any, float]]:
    """Identifiers in the user's words that could be this argument, with how well the words around them fit its name.

    An e-mail address goes to an argument whose name speaks of mail and to no other, and such an argument takes
    nothing else.
    """
    words = {word.lower().removesuffix("s") for word in _WORDS.findall(name)} - _GENERIC
    wants_mail = any("mail" in word for word in words)
    names_object = is_reference(name, "letters")
    found = []
    for token, before, after in live.told:
        if ("@" in token) != wants_mail:
            continue
        near = any(word in before[-25:] for word in words)
        bonus = _BESIDE if near else _NEAR if any(word in before + after for word in words) else 0.0
        bonus += 0.2 if any(word in token.lower() for word in words) else 0.0
        if bonus or (names_object and not token.isdigit()) or wants_mail:  # a bare number may be anything
            found.append((token, bonus or (_NEAR if wants_mail else 0.0)))
    return sorted(found, key=lambda item: -item[1])


def alternatives(argument: str, current: Any, tool: ToolMemory | None, live: Live, used: Iterable[Any]) -> list[Any]:
    """Identifiers that could stand in place of a doubtful one, best first.

    Only values of the argument's own kind: those at its usual places in results, those that earlier calls passed or
    results showed under its name, and those that the user's words give that name. Values the call already uses are
    left out. Too many to choose from are none: then it is better to go back to where the value comes from.
    """
    taken = {normalise(value) for value in used} | {normalise(current)}
    ranked = _ranked(argument, argument_sources(argument, tool), live)
    pool = _distinct(value for value, score, _ in ranked if score >= _SURE and is_reference(argument, value))
    found = [value for value in pool if normalise(value) not in taken]
    found.sort(key=lambda value: shape(value) != shape(current))
    return found if len(found) <= _MAX_CHOICE else []


def unread_source(argument: str, tool: ToolMemory | None, live: Live) -> str | None:
    """The argument's most usual source, if it is the result of a call that has not been made in this run."""
    for source in argument_sources(argument, tool)[:1]:
        reader = source_tool(source)
        if reader and live.history.answered(reader) is None:
            return source
    return None


def rewritten(value: Any, live: Live) -> list[Any]:
    """The same value as the history writes it, where the call writes it otherwise, without its sign, say."""
    key = _bare(value)
    seen = [sighting for values in live.places.values() for sighting in values if _bare(sighting) == key]
    seen += [token for token, _, _ in live.told if _bare(token) == key]
    return [] if value in seen else [v for v in _distinct(seen) if v != value and type(v) is type(value)]


def _bare(value: Any) -> str | None:
    """What is left of an identifier without its signs, to compare it by; other values as they are compared anywhere."""
    key = normalise(value)
    if key is None or not is_identifier(value):
        return key
    return "".join(filter(str.isalnum, key))


def shape(value: Any) -> str:
    """How an identifier is written: ``#W12`` as ``#a9``; runs of one kind count once."""
    text = re.sub(r"[A-Za-z]+", "a", str(value))
    return re.sub(r"\d+", "9", text)


def required_arguments(tool: ToolMemory | None, parameters: Mapping[str, Any] | None) -> list[str]:
    """Arguments a call must have: the schema's required ones, else those that nearly every verified use gave."""
    if parameters and isinstance(parameters.get("properties"), Mapping):
        required = parameters.get("required")
        return [str(name) for name in required] if isinstance(required, list) else []
    if tool is None:
        return []
    return [name for name, share in tool.given.items() if share >= 0.9 and "[" not in name and "." not in name]


def fill_call(
    tool: ToolMemory | None,
    live: Live,
    parameters: Mapping[str, Any] | None,
    known: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], list[Filled]]:
    """Arguments for a call: those that are certain, and what is known of the others.

    Args:
        tool: What memory knows of the tool.
        live: The history.
        parameters: JSON Schema of its arguments object, if the caller described it.
        known: Arguments already decided.
    """
    arguments = dict(known or {})
    missing = []
    properties = (parameters or {}).get("properties") or {}
    for name in required_arguments(tool, parameters):
        if name in arguments:
            continue
        filled = fill(name, tool, live, properties.get(name))
        if filled.certain:
            arguments[name] = filled.value
        else:
            missing.append(filled)
    return arguments, missing


def _is_list(argument: str, schema: Mapping[str, Any] | None = None) -> bool:
    return "[]" in argument or (isinstance(schema, Mapping) and schema.get("type") == "array")


def _distinct(values: Iterable[Any]) -> list[Any]:
    kept: dict[str, Any] = {}
    for value in values:
        kept.setdefault(str(normalise(value)), value)
    return list(kept.values())
