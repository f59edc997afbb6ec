"""From a recorded run to the ``m`` of its experiences: what each call knew, gave and got."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from fresh.expg.experience import Invocation, digest
from fresh.expg.history import History, schema_words
from fresh.expg.observed import is_identifier, leaves, value_words
from graph_schema.trajectory import CallStatus, ToolCall, ToolSpec, Trajectory, Turn

CONTEXT_CHARACTERS = 1200
"""Stored length of a context: the request and the latest exchange; the hash covers the whole."""
RESPONSE_CHARACTERS = 2000
"""Stored length of a response: its beginning and its end; the hash covers the whole."""

NOWHERE = "nowhere"
"""Origin of a value that stood nowhere before the call."""


class RecordedCall(NamedTuple):
    """One answered call of a run with its invocation."""

    turn: int
    call: ToolCall
    invocation: Invocation


def record_calls(
    trajectory: Trajectory,
    tools: Mapping[str, ToolSpec] | None = None,
    *,
    history: History | None = None,
    time: float | None = None,
) -> list[RecordedCall]:
    """The agent's answered calls in order. A call without a recorded answer is no experience and is left out.

    Args:
        trajectory: The run.
        tools: Tools by name, used before the run's own list.
        history: The run's history, if the caller has it.
        time: When the run was learnt; by default its first recorded timestamp.
    """
    history = history or History(trajectory)
    specs = tool_table(trajectory, tools)
    time = _started(trajectory) if time is None else time
    recorded: list[RecordedCall] = []
    previous: str | None = None
    context = _Context(trajectory.request, trajectory.policy)
    for index, turn in enumerate(trajectory.turns):
        for call in turn.calls:
            if call.by_user or call.status is CallStatus.UNANSWERED or call.observation is None:
                continue
            spec = specs.setdefault(call.tool, ToolSpec(name=call.tool))
            invocation = Invocation(
                tool=spec,
                context=context.shown(),
                context_hash=context.hash(),
                input=call.arguments,
                raw_input=call.raw_arguments if call.arguments is None else "",
                response=cut(call.observation.text, RESPONSE_CHARACTERS),
                response_hash=digest(call.observation.text),
                success=call.status is CallStatus.OK,
                seconds=call.seconds,
                tokens=call.tokens,
                origins=_origins(call, spec, history, index),
                previous=previous,
                call=call.id,
                run=trajectory.id,
                domain=trajectory.domain,
                task=trajectory.task_key,
                time=time,
            )
            recorded.append(RecordedCall(index, call, invocation))
        agents = [call for call in turn.calls if not call.by_user]
        previous = agents[-1].tool if agents else previous
        context.add(turn)
    return recorded


def tool_table(trajectory: Trajectory, tools: Mapping[str, ToolSpec] | None) -> dict[str, ToolSpec]:
    """Tools by name: the caller's first, then the run's own."""
    table = {spec.name: spec for spec in trajectory.tools or ()}
    table.update(tools or {})
    return table


def cut(text: str, limit: int) -> str:
    """The beginning and the end of a text with the number of characters left out between them."""
    if len(text) <= limit:
        return text
    mark = f" [... {len(text) - limit} characters ...] "
    head = limit * 2 // 3
    return text[:head] + mark + text[len(text) - (limit - head) :]


class _Context:
    """The history so far: hashed as it grows, shown as the request and the latest lines."""

    def __init__(self, request: str, policy: str) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._request = cut(request, CONTEXT_CHARACTERS // 3)
        self._lines: list[str] = []
        self._feed(policy)
        self._feed(request)

    def _feed(self, text: str) -> None:
        self._hash.update(text.encode("utf-8", "surrogatepass") + b"\0")

    def add(self, turn: Turn) -> None:
        if turn.text:
            self._line(f"{turn.role}: {turn.text}")
        for call in turn.calls:
            answer = call.observation.text if call.observation else "(no answer)"
            self._line(f"{call.tool}({call.raw_arguments}) -> {answer}")

    def _line(self, line: str) -> None:
        self._feed(line)
        self._lines.append(cut(line, CONTEXT_CHARACTERS // 3))

    def hash(self) -> str:
        return self._hash.hexdigest()

    def shown(self) -> str:
        room = CONTEXT_CHARACTERS - len(self._request)
        latest: list[str] = []
        for line in reversed(self._lines):
            room -= len(line) + 1
            if room < 0:
                break
            latest.append(line)
        return "\n".join([self._request, *reversed(latest)])


def _started(trajectory: Trajectory) -> float | None:
    return next((turn.timestamp for turn in trajectory.turns if turn.timestamp is not None), None)


def _origins(call: ToolCall, spec: ToolSpec, history: History, turn: int) -> dict[str, str]:
    """Origin of each argument; ``nowhere`` only for an identifier, other values may have been composed."""
    origins: dict[str, str] = {}
    untold: set[str] = set()
    offered: frozenset[str] | None = None
    for name, value in leaves(call.arguments or {}):
        parts = value_words(value)
        if not parts or origins.get(name) == NOWHERE:
            continue
        origin = history.origin(value, turn)
        if origin is None:
            offered = schema_words(spec) if offered is None else offered
            if all(part in offered for part in parts):
                origin = "schema"
            elif is_identifier(value):
                origin = NOWHERE
            else:
                untold.add(name)
                continue
        origins[name] = origin
    return {name: origin for name, origin in origins.items() if origin == NOWHERE or name not in untold}
