"""What one use of a write leaves behind: everything that conditions are counted on, taken out of its run once."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
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
    Never,
    ReadBefore,
    SameCount,
    SingledOut,
    Together,
    Within,
)
from fresh.conditions.fields import unless_all
from fresh.conditions.parts import scalar_text
from fresh.conditions.values import is_grounded, is_singled_out, value_places
from fresh.conditions.words import stems
from fresh.history import History
from fresh.mining.patterns import choice_at, error_message, in_words
from fresh.redact import is_secret_name
from fresh.values import argument_leaves, is_data_key, is_reference, normalise
from graph_schema.trajectory import CallStatus, ToolCall

_MAX_FIELDS = 40
_MAX_PAIRED = 8
PARTICULAR = "<particular>"
"""Stands for a value that names something, a text or a secret: it is there, and equals no value of a condition."""


@dataclass(frozen=True)
class Use:
    """Evidence from one use of a write.

    Attributes:
        run: Run id.
        task: Whose request it was, else the task; what is seen with one customer only says nothing of the tool.
        tool: The write.
        pattern: Its action pattern.
        sign: +1 verified, -1 failed, 0 unknown.
        arguments: Paths of the arguments given, each with whether it holds identifiers.
        reads: ``(tool, parameter, argument)`` of earlier successful calls that took an argument's value.
        seen_whole: Arguments whose objects have all been shown for their own sake.
        called: Tools with an earlier successful call.
        confirmed: The user's latest words agree.
        grounded: For each identifier argument, whether all its values were said or seen.
        firm: As ``grounded``, where running text does not count.
        within: For ``(argument, anchor, via)`` whose object was seen, whether the values stand inside it.
        fields: For ``(argument, path)``, the choice-like values and numbers in the objects that the argument names, as
            compared texts, one an object: empty where it lacks the field. With an empty path, those of the argument
            itself.
        shown: For each identifier argument whose objects were all seen, the paths that at least one of them has.
        places: For each identifier argument, where each of its values was said or seen.
        singled: For each identifier argument whose objects were seen, whether the user spoke of them all.
        together: For ``(argument, other, whole_result)``, whether each pair was seen together; see `Together`.
        counts: For ``(list, other, path)``, whether the lists are equally long; see `SameCount`.
        at_most: For ``(argument, anchor, path)``, whether the numbers are within the field; see `AtMost`.
        words: Stems of what the user has said.
        error: The environment's message where it refused the call, particulars replaced.
    """

    run: str
    task: str
    tool: str
    pattern: str
    sign: int
    arguments: dict[str, bool]
    reads: frozenset[tuple[str, str, str]]
    called: frozenset[str]
    confirmed: bool
    seen_whole: frozenset[str] = frozenset()
    grounded: dict[str, bool] = field(default_factory=dict)
    firm: dict[str, bool] = field(default_factory=dict)
    within: dict[tuple[str, str, str], bool] = field(default_factory=dict)
    fields: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    shown: dict[str, frozenset[str]] = field(default_factory=dict)
    places: dict[str, tuple[frozenset[str], ...]] = field(default_factory=dict)
    singled: dict[str, bool] = field(default_factory=dict)
    together: dict[tuple[str, str, bool], bool] = field(default_factory=dict)
    counts: dict[tuple[str, str, str], bool] = field(default_factory=dict)
    at_most: dict[tuple[str, str, str], bool] = field(default_factory=dict)
    words: frozenset[str] = frozenset()
    error: str = ""


def use_evidence(run: str, task: str, call: ToolCall, pattern: str, sign: int, history: History) -> Use:
    """What the history before a write says of it."""
    arguments = call.arguments or {}
    values: dict[str, list[Any]] = defaultdict(list)
    for path, value in argument_leaves(arguments):
        if value not in (None, ""):
            values[path].append(value)
    answered = [c for _, c in history.calls if c.status is CallStatus.OK]
    named = {path: [v for v in found if is_reference(path, v)] for path, found in values.items()}
    named = {path: found for path, found in named.items() if found}
    objects = _objects(named, history)
    refused = call.status is CallStatus.ERROR and call.observation is not None
    return Use(
        run=run,
        task=task,
        tool=call.tool,
        pattern=pattern,
        sign=sign,
        arguments={path: path in named for path in values},
        reads=frozenset(_reads(values, answered)),
        seen_whole=frozenset(path for path, ids in named.items() if all(map(history.seen_whole, ids))),
        called=frozenset(c.tool for c in answered if c.tool != call.tool),
        confirmed=history.confirmed(),
        grounded={p: all(is_grounded(v, history) for v in ids) for p, ids in named.items()},
        firm={p: all(is_grounded(v, history, firm=True) for v in ids) for p, ids in named.items()},
        within=_within(named, history),
        fields=_fields(objects) | _own_values(values),
        shown={path: frozenset(p for data in found for p, _ in _plain_fields(data)) for path, found in objects.items()},
        places={path: tuple(value_places(value, history) for value in ids) for path, ids in named.items()},
        singled=dict(_singled(named, history)),
        together=dict(_together(arguments, history)),
        counts=dict(_counts(arguments, objects)),
        at_most=dict(_at_most(arguments, history)),
        words=frozenset().union(*map(stems, history.user_texts())),
        error=error_message(call.observation.text, call.arguments) if refused and call.observation else "",
    )


def _reads(values: dict[str, list[Any]], answered: list[ToolCall]) -> Iterable[tuple[str, str, str]]:
    taken: dict[tuple[str, str], set[str]] = defaultdict(set)
    for call in answered:
        for parameter, value in (call.arguments or {}).items():
            key = normalise(value)
            if key is not None and len(key) > 1:
                taken[call.tool, parameter].add(key)
    for path, wanted in values.items():
        keys = {normalise(value) for value in wanted if is_reference(path, value)}
        if not keys:
            continue
        for (tool, parameter), known in taken.items():
            if keys <= known:
                yield tool, parameter, path


def _within(named: dict[str, list[Any]], history: History) -> dict[tuple[str, str, str], bool]:
    result = {}
    for anchor, anchors in named.items():
        if len(anchors) != 1 or "[]" in anchor:
            continue
        for via, found in _owners(anchors[0], history):
            inside = history.index.references_in(found)
            if len(inside) < 2:
                continue  # only the name itself
            for argument, values in named.items():
                if argument != anchor:
                    result[argument, anchor, via] = all(normalise(value) in inside for value in values)
    return result


def _owners(name: Any, history: History) -> Iterable[tuple[str, dict[str, Any]]]:
    """The object an identifier names, and the objects that its own fields name."""
    found = history.object_of(name)
    if found is None:
        return
    yield "", found[1]
    for path, value in found[1].items():
        if is_reference(str(path), value) and normalise(value) != normalise(name):
            other = history.object_of(value)
            if other is not None and other[1] is not found[1]:
                yield path, other[1]


def _objects(named: dict[str, list[Any]], history: History) -> dict[str, list[dict[str, Any]]]:
    """The objects that each argument names, for arguments whose objects have all been seen."""
    result = {}
    for argument, values in named.items():
        found = [history.object_of(value) for value in values]
        if all(item is not None for item in found):
            result[argument] = [item[1] for item in found if item is not None]
    return result


def _fields(objects: dict[str, list[dict[str, Any]]]) -> dict[tuple[str, str], tuple[str, ...]]:
    result: dict[tuple[str, str], tuple[str, ...]] = {}
    for argument, found in objects.items():
        rows = [dict(itertools.islice(_plain_fields(data), _MAX_FIELDS)) for data in found]
        for path in dict.fromkeys(path for row in rows for path in row):
            texts = tuple("" if row.get(path) is None else _compared(path, row[path]) for row in rows)
            if any(text not in ("", PARTICULAR) for text in texts):
                result[argument, path] = texts
    return result


def _own_values(values: dict[str, list[Any]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Choices and numbers among the call's own arguments."""
    texts = {path: tuple(_compared(path, value) for value in found) for path, found in values.items()}
    return {(path, ""): found for path, found in texts.items() if PARTICULAR not in found}


def _compared(path: str, value: Any) -> str:
    """A value as a condition may hold it: a choice or a number; never what names something or is secret."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        hidden = is_secret_name(path) or is_reference(path, value)
        return PARTICULAR if hidden else scalar_text(value) or PARTICULAR
    return choice_at(path, value) or PARTICULAR


def _plain_fields(data: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if is_data_key(str(key)):
            continue
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", v) for inner, v in value.items() if not isinstance(v, (dict, list)))
        elif not isinstance(value, list):
            yield key, value


def _singled(named: dict[str, list[Any]], history: History) -> Iterator[tuple[str, bool]]:
    for path, ids in named.items():
        found = [is_singled_out(value, history) for value in ids]
        if False in found or None not in found:
            yield path, False not in found


def _together(arguments: dict[str, Any], history: History) -> Iterator[tuple[tuple[str, str, bool], bool]]:
    """Pairs that can belong together: beside each other in an element or in the call, and in two lists in step."""
    # What is called an identifier is for `Within` to judge: it knows which of two names the object.
    own = [n for n, value in sorted(arguments.items()) if _can_pair(value) and not is_reference(n, "letters")]
    pairs = [(first, second, False) for first, second in itertools.combinations(own[:_MAX_PAIRED], 2)]
    for root, names in _element_names(arguments):
        paths = [f"{root}[].{name}" for name in names if all(_can_pair(e[name]) for e in arguments[root])]
        pairs += [(first, second, False) for first, second in itertools.combinations(paths[:_MAX_PAIRED], 2)]
    lists = [n for n, v in sorted(arguments.items()) if isinstance(v, list) and v and all(map(_can_pair, v))]
    pairs += [(f"{a}[]", f"{b}[]", True) for a, b in itertools.combinations(lists, 2)]
    for first, second, whole_result in pairs:
        held = Together(argument=first, other=second, whole_result=whole_result).holds(arguments, history)
        if held is not None:
            yield (first, second, whole_result), held


def _can_pair(value: Any) -> bool:
    """A text that is more than a short code or a plain choice: those stand in too many objects to say anything."""
    return isinstance(value, str) and len(value) > 3 and (value.lower() != value or any(map(str.isdigit, value)))


def _element_names(arguments: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """For each list of objects in the call, the scalar fields that all its elements have."""
    for root, elements in arguments.items():
        if not isinstance(elements, list) or not elements or not all(isinstance(e, dict) for e in elements):
            continue
        names = [n for n in elements[0] if all(n in e and not isinstance(e[n], dict | list) for e in elements)]
        yield root, sorted(names)


def _counts(
    arguments: dict[str, Any], objects: dict[str, list[dict[str, Any]]]
) -> Iterator[tuple[tuple[str, str, str], bool]]:
    lists = {name: len(value) for name, value in arguments.items() if isinstance(value, list)}
    for first, second in itertools.combinations(sorted(lists), 2):
        yield (first, second, ""), lists[first] == lists[second]
    for anchor, found in objects.items():
        if anchor not in arguments or len(found) != 1:
            continue
        for name, length in lists.items():  # lists of other things have the same length by accident only
            if isinstance(found[0].get(name), list):
                yield (name, anchor, name), length == len(found[0][name])


def _at_most(arguments: dict[str, Any], history: History) -> Iterator[tuple[tuple[str, str, str], bool]]:
    for root, names in [("", sorted(arguments)), *_element_names(arguments)]:
        elements = arguments[root] if root else [arguments]
        prefix = f"{root}[]." if root else ""
        for number, name in itertools.permutations(names, 2):
            if not all(_is_number(e[number]) and is_reference(name, e[name]) for e in elements):
                continue
            found = [history.object_of(e[name]) for e in elements]
            fields = {p for f in found if f for p, v in _plain_fields(f[1]) if _is_number(v)}
            for path in sorted(p for p in fields if _same_thing(number, p)):
                condition = AtMost(argument=prefix + number, anchor=prefix + name, path=path)
                held = condition.holds(arguments, history)
                if held is not None:
                    yield (condition.argument, condition.anchor, path), held


def _same_thing(name: str, path: str) -> bool:
    """Whether an argument and a field are called alike: only then can one bound the other."""
    return bool(set(in_words(name).split()) & set(in_words(path.rsplit(".", 1)[-1]).split()))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def held_in(condition: Condition, use: Use) -> bool | None:
    """Whether a condition held in a use, from its evidence; agrees with `Condition.holds` on the history itself."""
    match condition:
        case Confirmed():
            return use.confirmed
        case Asked():
            return bool(use.words & set(condition.words)) if use.words else None
        case ReadBefore():
            if not use.arguments.get(condition.argument):
                return None
            read = (condition.tool, condition.parameter, condition.argument) in use.reads
            return read or condition.argument in use.seen_whole
        case CalledBefore():
            return condition.tool in use.called
        case Grounded():
            return (use.firm if condition.firm else use.grounded).get(condition.argument)
        case ComesFrom():
            places = use.places.get(condition.argument, ())
            if not places or not all(places):
                return None
            return all(found & set(condition.places) for found in places)
        case Within():
            return use.within.get((condition.argument, condition.anchor, condition.via))
        case Together():
            return use.together.get((condition.argument, condition.other, condition.whole_result))
        case SingledOut():
            return use.singled.get(condition.argument)
        case SameCount():
            return use.counts.get((condition.argument, condition.other, condition.path))
        case AtMost():
            return use.at_most.get((condition.argument, condition.anchor, condition.path))
        case FieldIs():
            values = use.fields.get((condition.argument, condition.path))
            return None if not values or "" in values else all(value in condition.values for value in values)
        case Never():
            return unless_all(test.fits(observed(use, test.argument, test.path)) for test in condition.tests)


def observed(use: Use, argument: str, path: str) -> tuple[str, ...] | None:
    """What a field test sees in a use: texts, empty where the field is missing; None where nothing was seen."""
    found = use.fields.get((argument, path))
    if found is not None:
        return tuple(text for text in found if text)
    shown = use.shown.get(argument)
    if not path or shown is None:
        return None
    return (PARTICULAR,) if path in shown else ()
