"""What is wrong with a write, and whether anything in the history told so.

Both are worked out from the task's solution and the run alone, after the fact: nothing here is ever shown to the gate.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from fresh.history import History
from fresh.values import argument_leaves, is_reference, normalise, same_arguments, same_value
from graph_schema.trajectory import CallStatus, GoldAction, ToolCall

UNUSUAL = 0.2
"""Share of right writes up to which a sign counts as telling."""
_ENOUGH = 5
"""Right writes of a tool needed to say what is usual for it; below, its domain is asked."""

_SHORTEST, _LONGEST = 3, 80
"""Characters of a value that is looked for in running text."""


class Kind(StrEnum):
    """What is wrong with a write; the first that fits, in this order."""

    DUPLICATE = "duplicate of a done write"
    OUT_OF_ORDER = "the solution's call, refused at that moment"
    FROM_NOWHERE = "arguments from nowhere"
    INJECTED = "asked for by a tool's result"
    NOT_ASKED = "tool not in the solution"
    ONE_MORE = "one more of a tool whose writes are done"
    OTHER_OBJECT = "argument from another object than the one named"
    WRONG_OBJECT = "wrong object"
    PREMATURE = "premature"
    WRONG_VALUE = "wrong argument value"


class Sign(StrEnum):
    """Structural evidence against a write, as far as its history shows it."""

    UNGROUNDED = "an identifier that was neither said nor seen"
    UNREAD = "an object that no result has shown"
    FROM_RESULT = "a value that only a result gave"
    FROM_PROSE = "a value that only the running text of a result gave"
    NO_YES = "no yes of the user"
    MIXED = "identifiers of two objects"
    FAILED_BEFORE = "the same call failed before"
    DONE_BEFORE = "the same call is done"
    KNOWN_REFUSAL = "refused for a reason that memory knows"


class Mark(NamedTuple):
    """A sign, and the argument that bears it; empty where the call as a whole does."""

    sign: Sign
    argument: str = ""


@dataclass(frozen=True)
class Mistake:
    """What is wrong with a write.

    Attributes:
        kind: In one word.
        arguments: Paths of the arguments that differ from the solution, sorted; empty where none was compared.
    """

    kind: Kind
    arguments: tuple[str, ...] = ()


def identifiers(arguments: dict[str, Any] | None) -> frozenset[tuple[str, str]]:
    """``(path, comparable value)`` of the arguments that name objects."""
    found = ((path, normalise(value)) for path, value in argument_leaves(arguments) if is_reference(path, value))
    return frozenset((path, value) for path, value in found if value is not None)


def classify(call: ToolCall, history: History, due: Sequence[GoldAction], solution: Sequence[GoldAction]) -> Mistake:
    """What is wrong with a write that is not right.

    Args:
        call: The write, with its result.
        history: The view from before it.
        due: Actions of the solution that the run has not made yet.
        solution: All of them.
    """
    if _same_before(call, history, CallStatus.OK):
        return Mistake(Kind.DUPLICATE)
    if any(matches(call, action) for action in due):
        return Mistake(Kind.OUT_OF_ORDER)
    nowhere = _ungrounded(call, history)
    if nowhere:
        return Mistake(Kind.FROM_NOWHERE, nowhere)
    if not any(action.tool == call.tool for action in solution):
        return Mistake(Kind.NOT_ASKED)
    candidates = [action for action in due if action.tool == call.tool]
    if not candidates:
        return Mistake(Kind.ONE_MORE)
    own = identifiers(call.arguments)
    nearest = min(candidates, key=lambda action: len(own ^ identifiers(action.arguments)))
    wanted = identifiers(nearest.arguments)
    if own != wanted:
        differing = tuple(sorted({path for path, _ in own ^ wanted}))
        strays = {argument for argument, _ in _strays(call, history)}
        return Mistake(Kind.OTHER_OBJECT if strays & set(differing) else Kind.WRONG_OBJECT, differing)
    differing = tuple(_differing(call.arguments or {}, nearest.arguments))
    if not history.confirmed() or _unread(call, history):
        return Mistake(Kind.PREMATURE, differing)
    return Mistake(Kind.WRONG_VALUE, differing)


def matches(call: ToolCall, action: GoldAction) -> bool:
    """Whether a call is the solution's action, whoever was meant to make it; extra arguments may be null."""
    if call.tool != action.tool or call.arguments is None:
        return False
    if any(value is not None for name, value in call.arguments.items() if name not in action.arguments):
        return False
    return all(same_value(call.arguments.get(name), value) for name, value in action.arguments.items())


def marks(call: ToolCall, history: History, *, known_refusal: bool = False) -> frozenset[Mark]:
    """Every sign that the history bears against a write, telling or not (see `telling`).

    Args:
        call: The write.
        history: The view from before it.
        known_refusal: The environment refused it with a message that memory has seen.
    """
    found = {Mark(Sign.UNGROUNDED, path) for path in _ungrounded(call, history)}
    found |= {Mark(Sign.UNREAD, path) for path in _unread(call, history)}
    found |= {Mark(Sign.MIXED, f"{path} in {anchor}") for path, anchor in _strays(call, history)}
    for path, value in argument_leaves(call.arguments):
        if not isinstance(value, str) or history.said(value):
            continue
        if history.sightings(value):
            found.add(Mark(Sign.FROM_RESULT, path))
        elif _in_prose(value, history):
            found.add(Mark(Sign.FROM_PROSE, path))
    if not history.confirmed():
        found.add(Mark(Sign.NO_YES))
    if _same_before(call, history, CallStatus.ERROR):
        found.add(Mark(Sign.FAILED_BEFORE))
    if _same_before(call, history, CallStatus.OK):
        found.add(Mark(Sign.DONE_BEFORE))
    if known_refusal:
        found.add(Mark(Sign.KNOWN_REFUSAL))
    return frozenset(found)


class Usual:
    """What right writes bear too, and what therefore tells nothing.

    A domain in which nobody is asked for a yes has no missing yes, and where recipients are usually named by the user
    alone, one that no result shows is no unread object.

    Args:
        right: ``(domain, tool, marks)`` of every right write.
    """

    def __init__(self, right: Iterable[tuple[str, str, frozenset[Mark]]]) -> None:
        self._by_tool: dict[tuple[str, str], list[frozenset[Mark]]] = defaultdict(list)
        self._by_domain: dict[str, list[frozenset[Sign]]] = defaultdict(list)
        for domain, tool, found in right:
            self._by_tool[domain, tool].append(found)
            self._by_domain[domain].append(frozenset(mark.sign for mark in found))

    def telling(self, domain: str, tool: str, found: frozenset[Mark]) -> frozenset[Mark]:
        """Those signs of a write that at most `UNUSUAL` of the right writes of its tool bear."""
        return frozenset(mark for mark in found if self._share(domain, tool, mark) <= UNUSUAL)

    def _share(self, domain: str, tool: str, mark: Mark) -> float:
        same_tool = self._by_tool.get((domain, tool), [])
        if len(same_tool) >= _ENOUGH:
            return sum(mark in found for found in same_tool) / len(same_tool)
        others = self._by_domain.get(domain, [])
        return sum(mark.sign in found for found in others) / len(others) if others else 0.0


def _same_before(call: ToolCall, history: History, status: CallStatus) -> bool:
    return any(
        earlier.tool == call.tool
        and earlier.status is status
        and not earlier.by_user
        and same_arguments(earlier.arguments, call.arguments)
        for _, earlier in history.calls
    )


def _ungrounded(call: ToolCall, history: History) -> tuple[str, ...]:
    return tuple(sorted({path for path, value in _named(call) if history.origin(value).kind == "nowhere"}))


def _unread(call: ToolCall, history: History) -> tuple[str, ...]:
    unseen = ((path, value) for path, value in _named(call) if not history.sightings(value))
    return tuple(sorted({path for path, value in unseen if history.origin(value).kind != "nowhere"}))


def _in_prose(value: str, history: History) -> bool:
    """Whether a value that is no result's own stands inside what a result says."""
    key = normalise(value)
    if key is None or not _SHORTEST <= len(key) <= _LONGEST:
        return False
    word = re.compile(rf"(?<!\w){re.escape(key)}(?!\w)")
    results = (call.observation.text for _, call in history.calls if call.observation is not None)
    return any(word.search(text.lower()) for text in results)


def _named(call: ToolCall) -> list[tuple[str, Any]]:
    return [(path, value) for path, value in argument_leaves(call.arguments) if is_reference(path, value)]


def _strays(call: ToolCall, history: History) -> set[tuple[str, str]]:
    """``(argument, anchor)``: an identifier of another object than the one of its kind that the anchor names."""
    named = _named(call)
    found: set[tuple[str, str]] = set()
    for anchor, name in named:
        shown = history.object_of(name) if "[]" not in anchor else None
        if shown is None:
            continue
        inside = history.index.references_in(shown[1])
        for path, value in named:
            key = normalise(value)
            if path == anchor or key in inside:
                continue
            if any(key in history.index.references_in(other) for other in _alike(history, shown)):
                found.add((path, anchor))
    return found


def _alike(history: History, shown: tuple[ToolCall, dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Other whole objects that the same tool has shown."""
    call, fields = shown
    for entry in itertools.chain.from_iterable(history.index.objects.values()):
        if entry.whole and entry.turn < history.now and entry.call.tool == call.tool and entry.fields != fields:
            yield entry.fields


def _differing(own: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    return sorted(name for name in own.keys() | wanted.keys() if not same_value(own.get(name), wanted.get(name)))
