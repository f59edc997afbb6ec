"""What is known at one moment of a run: who said what, which values were seen where, what was confirmed.

The miner looks back from every call of a recorded run, the gate and the guidance from the end of a live one; all
three use this one view, so that a condition means the same when it is mined and when it is enforced.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fresh.observations import SHORT_TEXT, named_objects, paths_by_value, values_by_object
from fresh.traces.structure import parse_observation
from fresh.values import (
    argument_leaves,
    is_reference,
    leaves,
    normalise,
    same_arguments,
    same_value,
    scalars,
)
from graph_schema.trajectory import CallStatus, Role, ToolCall, Turn

_AFFIRMATIVE = re.compile(
    r"\b(?:yes|yep|yeah|yup|sure|confirm(?:ed|o)?|go ahead|proceed|correct|absolutely|definitely|do it|please do"
    r"|sounds? good|that works|that's right|that is right|looks good|agree[d]?|okay|ok|fine|perfect"
    r"|s[ií]|claro|adelante|de acuerdo|correcto|procede|vale|oui|d'accord|ja|genau|bitte)\b",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(
    r"^\W*(?:no\b|nope|not yet|don't|do not|stop|wait|cancel that|hold on|actually,? no)"
    r"|(?:\bnot|n't) (?:\w+ )?(?:sure|yet|agree|correct|okay|ok|fine)\b|\bunsure\b",
    re.IGNORECASE,
)
_PROSE_WORDS = 4
"""Words from which a text is running text and no value."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """Where a value was seen in a successful observation."""

    turn: int
    call: ToolCall
    path: str


@dataclass(frozen=True, slots=True)
class NamedObject:
    """An object in an observation that an identifier names.

    Attributes:
        whole: Shown for its own sake (the answer to a look-up, or an entry under its own key), not in passing.
    """

    turn: int
    call: ToolCall
    fields: dict[str, Any]
    whole: bool


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an argument's value came from.

    Attributes:
        kind: ``request`` (said by the user), ``observation``, ``argument`` (of an earlier successful call, so still
            only the agent's word) or ``nowhere``.
        tool: For an observation, the tool that returned it.
        path: For an observation, the path inside it.
        in_text: For an observation, whether only its running text speaks of the value.
    """

    kind: str
    tool: str = ""
    path: str = ""
    in_text: bool = False

    def __str__(self) -> str:
        return f"{self.tool}:{self.path}" if self.kind == "observation" else self.kind


class RunIndex:
    """Everything a run shows, indexed once; `at` gives the view from any of its turns.

    Args:
        turns: The run.
        base: The index of a run that this one goes on from. What it holds moves here and is added to, so that a step
            of a running agent costs what is new in it; the base indexes its turns again if it is asked again.
    """

    def __init__(self, turns: Sequence[Turn], base: RunIndex | None = None) -> None:
        self.turns = tuple(turns)
        self.calls: list[tuple[int, ToolCall]] = [(i, c) for i, turn in enumerate(self.turns) for c in turn.calls]
        self._references: dict[int, tuple[dict[str, Any], frozenset[str]]] = {}
        if base is not None:
            self._take_over(base)

    def _take_over(self, base: RunIndex) -> None:
        """Moves here what the base has indexed, unless it holds something of a turn that has changed since."""
        pairs = zip(self.turns, base.turns, strict=False)
        start = next((i for i, (own, old) in enumerate(pairs) if own is not old), min(len(self.turns), len(base.turns)))
        if any(_has_shown(turn) for turn in base.turns[start:]):
            return
        self._references = base._references
        known, own = base.__dict__, self.__dict__  # what has been asked of it; the rest is indexed when asked for
        if "shown" in known:
            own["shown"] = known.pop("shown")
            self.shown.extend(self._shown(start))
        if "objects" in known:
            own["objects"] = known.pop("objects")
            self._add_objects(self.objects, start)
        if "speech" in known:
            own["speech"] = known.pop("speech")
            self.speech.extend(self._speech(start))
        if "prose" in known:
            own["prose"] = known.pop("prose")
            self.prose.extend(self._prose(start))
        if "raw_observations" in known:
            own["raw_observations"] = known.pop("raw_observations")
            self.raw_observations.extend(self._raw_observations(start))

    def _successes(self, start: int) -> Iterator[tuple[int, ToolCall, str]]:
        """``(turn, call, text)`` of successful observations from a turn on."""
        for turn, call in self.calls:
            if turn >= start and call.status is CallStatus.OK and call.observation is not None:
                yield turn, call, call.observation.text

    def at(self, turn: int) -> History:
        """The view from just before a turn: calls of that turn and later ones are unknown."""
        return History(self, turn)

    @cached_property
    def shown(self) -> list[tuple[int, ToolCall, Mapping[str, tuple[str, ...]]]]:
        """``(turn, call, {value: paths})`` of successful observations, oldest first."""
        return list(self._shown(0))

    def _shown(self, start: int) -> Iterator[tuple[int, ToolCall, Mapping[str, tuple[str, ...]]]]:
        return ((turn, call, paths_by_value(text)) for turn, call, text in self._successes(start))

    def references_in(self, data: dict[str, Any]) -> frozenset[str]:
        """Comparable identifiers inside an object of this run's observations; worked out once for each object."""
        known = self._references.get(id(data))
        if known is None or known[0] is not data:
            inside = (normalise(value) for path, value in leaves(data) if is_reference(path, value))
            known = data, frozenset(key for key in inside if key is not None)
            self._references[id(data)] = known
        return known[1]

    @cached_property
    def objects(self) -> dict[str, list[NamedObject]]:
        """For every identifier, the objects it names, oldest first."""
        index: dict[str, list[NamedObject]] = {}
        self._add_objects(index, 0)
        return index

    def _add_objects(self, index: dict[str, list[NamedObject]], start: int) -> None:
        for turn, call, text in self._successes(start):
            for key, found, whole in named_objects(text, call.arguments or {}):
                index.setdefault(key, []).append(NamedObject(turn, call, found, whole))

    @cached_property
    def first_shown(self) -> dict[tuple[str, str], list[int]]:
        """For every ``(tool, path)``, the turns at which it showed a value for the first time, in order."""
        known: set[tuple[str, str, str]] = set()
        turns: dict[tuple[str, str], list[int]] = {}
        for turn, call, paths in self.shown:
            for value, where in paths.items():
                for path in where:
                    if (call.tool, path, value) not in known:
                        known.add((call.tool, path, value))
                        turns.setdefault((call.tool, path), []).append(turn)
        return turns

    @cached_property
    def speech(self) -> list[tuple[int, str]]:
        """What the user said: ``(turn, lower-cased text)``."""
        return list(self._speech(0))

    def _speech(self, start: int) -> Iterator[tuple[int, str]]:
        said = ((i, self.turns[i]) for i in range(start, len(self.turns)))
        return ((i, turn.text.lower()) for i, turn in said if turn.role is Role.USER and turn.text)

    @cached_property
    def prose(self) -> list[tuple[int, ToolCall, str]]:
        """Lower-cased running texts inside successful observations, each on its own."""
        return list(self._prose(0))

    def _prose(self, start: int) -> Iterator[tuple[int, ToolCall, str]]:
        for turn, call, text in self._successes(start):
            data = parse_observation(text)
            for value in [text] if data is None else [value for _, value in leaves(data)]:
                if isinstance(value, str) and len(value.split(maxsplit=_PROSE_WORDS)) >= _PROSE_WORDS:
                    yield turn, call, value.lower()

    @cached_property
    def raw_observations(self) -> list[tuple[int, ToolCall, str]]:
        """Lower-cased texts of successful observations that have no structure and are too long for one value."""
        return list(self._raw_observations(0))

    def _raw_observations(self, start: int) -> Iterator[tuple[int, ToolCall, str]]:
        for turn, call, text in self._successes(start):
            if len(text) > SHORT_TEXT and parse_observation(text) is None:
                yield turn, call, text.lower()


def _has_shown(turn: Turn) -> bool:
    """Whether a turn holds anything that an index of its run holds."""
    return (turn.role is Role.USER and bool(turn.text)) or any(call.observation is not None for call in turn.calls)


class History:
    """The view of a run from just before one of its turns.

    Args:
        index: The run.
        now: Turn number; what happened in turns before it is known.
    """

    def __init__(self, index: RunIndex, now: int) -> None:
        self.index = index
        self.now = now

    @classmethod
    def live(cls, turns: Sequence[Turn], base: History | None = None) -> History:
        """The view from the end of a run in progress, which may go on from an earlier view."""
        index = RunIndex(turns, base.index if base is not None else None)
        return index.at(len(index.turns))

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns already taken."""
        return self.index.turns[: self.now]

    @cached_property
    def calls(self) -> list[tuple[int, ToolCall]]:
        """``(turn, call)`` of every earlier call, the user's own included."""
        return [(turn, call) for turn, call in self.index.calls if turn < self.now]

    @cached_property
    def agent_calls(self) -> list[ToolCall]:
        """The agent's own earlier calls."""
        return [call for _, call in self.calls if not call.by_user]

    @cached_property
    def request(self) -> str:
        """The first thing the user said."""
        return next((t.text for t in self.turns if t.role is Role.USER and t.text), "")

    def user_texts(self, last: int | None = None) -> list[str]:
        """What the user said, oldest first; only the last few if asked."""
        texts = [t.text for t in self.turns if t.role is Role.USER and t.text]
        return texts if last is None else texts[-last:]

    def named_by_user(self, call: ToolCall) -> bool:
        """Whether the user named what a call looked at: what is written there may be meant to be done."""
        given = (value for _, value in argument_leaves(call.arguments))
        return any(not isinstance(value, bool) and len(str(value)) > 1 and self.said(value) for value in given)

    @property
    def prose(self) -> Iterator[tuple[ToolCall, str]]:
        """Running texts that successful calls have shown, lower-cased, with the call."""
        return ((call, text) for turn, call, text in self.index.prose if turn < self.now)

    def sightings(self, value: Any) -> list[Sighting]:
        """Where a value was seen in observations, oldest first."""
        key = normalise(value)
        if key is None:
            return []
        return [
            Sighting(turn, call, path)
            for turn, call, paths in self.index.shown
            if turn < self.now
            for path in paths.get(key, ())
        ]

    def said(self, value: Any) -> bool:
        """Whether the user has said the value, as a whole word."""
        key = normalise(value)
        if key is None:
            return False
        return any(turn < self.now and stands_in(key, text) for turn, text in self.index.speech)

    def origin(self, value: Any) -> Origin:
        """Where a value came from; the newest sighting wins, then the user's words."""
        seen = self.sightings(value)
        if seen:
            return Origin("observation", seen[-1].call.tool, seen[-1].path)
        if self.said(value):
            return Origin("request")
        key = normalise(value)
        if key is not None and len(key) > 2:
            for turn, call, text in reversed(self.index.raw_observations):
                if turn < self.now and stands_in(key, text):
                    return Origin("observation", call.tool, "text", in_text=True)
        return Origin("nowhere")

    def source(self, value: Any) -> Origin:
        """Where a value was most likely taken from: of the places that showed it, the one with the fewest values.

        An identifier of an order's line stands in the catalogue too, among many: the order is what says which one is
        meant. Of equally narrow places the newest counts, and in it the first. A value that no place or only one showed
        is from where `origin` says.
        """
        newest = {(seen.call.tool, seen.path): seen.turn for seen in self.sightings(value)}
        if len(newest) < 2:
            return self.origin(value)
        tool, path = min(newest, key=lambda place: (self._values_at(place), -newest[place]))
        return Origin("observation", tool, path)

    def _values_at(self, place: tuple[str, str]) -> int:
        """How many different values a ``(tool, path)`` has shown."""
        return bisect.bisect_left(self.index.first_shown.get(place, ()), self.now)

    def shown_together(self, first: Any, second: Any, *, whole_result: bool = False) -> bool:
        """Whether one successful call showed both values: in one object, with the call's own arguments beside it.

        Args:
            first: A scalar.
            second: Another.
            whole_result: Anywhere in one result is enough.
        """
        wanted = {normalise(first), normalise(second)}
        for turn, call, paths in self.index.shown:
            if turn >= self.now:
                break
            given = {normalise(value) for value in scalars(call.arguments or {})}
            missing = wanted - given
            if not missing <= paths.keys():
                continue
            if whole_result or len(missing) < 2 or call.observation is None:
                return True
            if any(missing <= found for found in values_by_object(call.observation.text)):
                return True
        return False

    def seen_whole(self, value: Any) -> bool:
        """Whether the object that an identifier names has been shown for its own sake, by whatever call."""
        found = self.index.objects.get(normalise(value) or "", ())
        return any(entry.whole and entry.turn < self.now for entry in found)

    def object_of(self, value: Any) -> tuple[ToolCall, dict[str, Any]] | None:
        """The newest object that an identifier names, with the call that showed it; a whole one before a mention."""
        found = [entry for entry in self.index.objects.get(normalise(value) or "", ()) if entry.turn < self.now]
        if not found:
            return None
        best = max(found, key=lambda entry: (entry.whole, entry.turn))
        return best.call, best.fields

    def answered(self, tool: str, arguments: dict[str, Any] | None = None) -> ToolCall | None:
        """The newest successful call of a tool, with these arguments among its own if given."""
        for _, call in reversed(self.calls):
            if call.tool != tool or call.status is not CallStatus.OK:
                continue
            if arguments is None or _has_arguments(call, arguments):
                return call
        return None

    def last_same(self, tool: str, arguments: dict[str, Any] | None) -> ToolCall | None:
        """The newest earlier call of the same tool with the same arguments."""
        for _, call in reversed(self.calls):
            if call.tool == tool and not call.by_user and same_arguments(call.arguments, arguments):
                return call
        return None

    def confirmed(self) -> bool:
        """Whether the user's latest words agree to something the agent had said before.

        Only words since the last write could be meant, but which calls write is not known here; the newest user turn
        is taken. The user's first words are a request, whatever the agent said to greet them.
        """
        answer = self.answer
        return answer is not None and agrees(answer)

    @cached_property
    def answer(self) -> str | None:
        """The user's latest words, if they answer the agent; None before the user's second turn."""
        latest = self._spoken[-1] if len(self._spoken) > 1 else None
        return self.index.turns[latest].text if latest is not None and self.put_to_user else None

    @cached_property
    def put_to_user(self) -> str:
        """What the agent said right before the user's latest words, in small letters."""
        latest = self._spoken[-1] if self._spoken else 0
        before = self.index.turns[max(0, latest - 2) : latest]
        return "\n".join(turn.text for turn in before if turn.role is Role.ASSISTANT and turn.text).lower()

    @cached_property
    def _spoken(self) -> list[int]:
        """The turns in which the user said something."""
        return [i for i in range(self.now) if self.index.turns[i].role is Role.USER and self.index.turns[i].text]


def agrees(text: str) -> bool:
    """Whether a user's words say yes."""
    return bool(_AFFIRMATIVE.search(text)) and not refuses(text)


def refuses(text: str) -> bool:
    """Whether a user's words say no, or not yet."""
    return bool(_NEGATIVE.search(text))


def _has_arguments(call: ToolCall, wanted: dict[str, Any]) -> bool:
    own = call.arguments or {}
    return all(name in own and same_value(own[name], value) for name, value in wanted.items())


def stands_in(key: str, text: str) -> bool:
    """Whether a text holds a key as a whole word; both in small letters."""
    step = len(key) if key.isalnum() else 1  # an occurrence inside another one has a letter or digit beside it
    start = text.find(key)
    while start >= 0:
        end = start + len(key)
        before = text[start - 1] if start else " "
        after = text[end] if end < len(text) else " "
        if not (before.isalnum() or after.isalnum()):
            return True
        start = text.find(key, start + step)
    return False
