"""Decision points of held-out runs: what the agent saw before it acted, and what the run then went on to do.

A decision point lies right before a round of calls. What the memory is asked with is rebuilt from the run; what it is
judged by lies after it, and no memory ever sees it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fresh.mining.credit import Credit
from fresh.mining.miner import EffectResolver
from fresh.traces.structure import looks_like_error
from graph_schema.trajectory import CallStatus, Effect, Outcome, Role, ToolCall, ToolSpec, Trajectory, Turn


@dataclass(frozen=True, slots=True)
class Failure:
    """A call of the agent that failed.

    Attributes:
        turn: The turn that made it.
        tool: The tool.
        kind: The error's normalised message (`fresh.mining.patterns.error_message`).
        arguments: Names of the arguments passed; with the tool, the action pattern.
    """

    turn: int
    tool: str
    kind: str
    arguments: frozenset[str]


@dataclass(frozen=True)
class Point:
    """A moment at which the agent was about to call tools.

    Attributes:
        turn: The turn it was about to take.
        needed: Tools of the right actions still to come; None where nothing tells, or nothing is left to do.
    """

    turn: int
    needed: frozenset[str] | None


@dataclass(frozen=True)
class HeldOut:
    """A held-out run with its decision points.

    Attributes:
        run: The run.
        group: Its group of tasks, see `fresh.splits.task_groups`: what is resampled together.
        points: The decision points that are judged, in order.
        failures: Every failed call, in order.
        wrong: ``(turn, tool)`` of writes that went through and were not right (`Credit.WRONG`, `Credit.PREMATURE`).
    """

    run: Trajectory
    group: int
    points: tuple[Point, ...]
    failures: tuple[Failure, ...]
    wrong: tuple[tuple[int, str], ...]

    @property
    def task(self) -> str:
        """The task, the unit of every mean."""
        return self.run.task_key

    @cached_property
    def first_failures(self) -> tuple[Failure, ...]:
        """The first failure of each tool and kind."""
        found: dict[tuple[str, str], Failure] = {}
        for failure in self.failures:
            found.setdefault((failure.tool, failure.kind), failure)
        return tuple(found.values())

    @cached_property
    def first_failing_actions(self) -> tuple[Failure, ...]:
        """The first failure of each action pattern."""
        found: dict[tuple[str, frozenset[str]], Failure] = {}
        for failure in self.failures:
            found.setdefault((failure.tool, failure.arguments), failure)
        return tuple(found.values())


def held_out(
    trajectory: Trajectory,
    group: int,
    *,
    count: int,
    seed: int = 0,
    effects: Mapping[str, Effect] | None = None,
) -> HeldOut:
    """Takes out of a run what a memory is asked and judged by.

    The point before the first round is always among those drawn, so that each failure has one before it. The others
    are drawn at random: the same ones whatever else is drawn.

    What is needed at a point are the tools of the gold actions that have not been carried out yet. Where the trace has
    no solution they are the tools of the verified calls that a run which succeeded goes on to make.

    Args:
        trajectory: The run.
        group: Its group of tasks.
        count: Decision points at most; 0 for all.
        seed: Of the drawing.
        effects: What the caller says of tools.
    """
    from fresh.retrieval.relevance import gold_to_come

    made = [turn for turn, said in enumerate(trajectory.turns) if any(not call.by_user for call in said.calls)]
    evidence = EffectResolver(effects).evidence(trajectory)
    calls = [(turn, call, entry) for (turn, call), entry in zip(trajectory.calls(), evidence.calls, strict=True)]

    def needed(turn: int) -> frozenset[str] | None:
        if trajectory.gold is not None:
            earlier = [call for when, call, _ in calls if when < turn]
            tools = frozenset(action.tool for action in gold_to_come(trajectory.gold, earlier))
        elif trajectory.feedback.outcome is Outcome.SUCCESS:
            tools = frozenset(entry.tool for when, _, entry in calls if when >= turn and entry.credit.sign > 0)
        else:
            return None
        return tools or None

    return HeldOut(
        run=trajectory,
        group=group,
        points=tuple(Point(turn, needed(turn)) for turn in _draw(made, count, seed, trajectory.id)),
        failures=tuple(
            Failure(turn, call.tool, entry.error, frozenset(call.arguments or ()))
            for turn, call, entry in calls
            if entry.error is not None
        ),
        wrong=tuple(
            (turn, call.tool) for turn, call, entry in calls if entry.credit in (Credit.WRONG, Credit.PREMATURE)
        ),
    )


def _draw(turns: Sequence[int], count: int, seed: int, run_id: str) -> list[int]:
    if not count or len(turns) <= count:
        return list(turns)
    rng = np.random.default_rng([seed, zlib.crc32(run_id.encode())])
    return sorted([turns[0], *rng.permutation(turns[1:])[: count - 1].tolist()])


# -- what the agent saw ----------------------------------------------------------------------------------------------


def chat_before(trajectory: Trajectory, turn: int) -> list[dict[str, Any]]:
    """The OpenAI-style chat that the agent held before a turn.

    Calls that the user made with tools of their own are left out, as are turns of roles that a format invented: the
    agent saw neither. A failed result carries ``is_error``, since some formats keep the error out of the text.
    """
    messages: list[dict[str, Any]] = []
    if trajectory.policy and not any(said.role is Role.SYSTEM for said in trajectory.turns[:turn]):
        messages.append({"role": "system", "content": trajectory.policy})
    for said in trajectory.turns[:turn]:
        messages += _messages(said)
    return messages


def _messages(said: Turn) -> list[dict[str, Any]]:
    calls = [call for call in said.calls if not call.by_user]
    if said.role is Role.OTHER or not (said.text or calls):
        return []
    message: dict[str, Any] = {"role": said.role.value, "content": said.text or None}
    if calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.raw_arguments}}
            for call in calls
        ]
    return [message, *(_result(call) for call in calls if call.observation is not None)]


def _result(call: ToolCall) -> dict[str, Any]:
    text = call.observation.text if call.observation else ""
    message: dict[str, Any] = {"role": "tool", "tool_call_id": call.id, "name": call.tool, "content": text}
    if call.status is CallStatus.ERROR and not looks_like_error(text):
        message["is_error"] = True
    return message


# -- what the agent could call ---------------------------------------------------------------------------------------


def tools_by_domain(
    trajectories: Sequence[Trajectory], described: Mapping[str, ToolSpec] | None = None
) -> dict[str, dict[str, ToolSpec]]:
    """The tools of each domain, as far as recorded runs show them.

    A tool counts if an agent has called it with success, so that names which a model made up stay out. Its description
    is the run's own list's, else the caller's, else what the calls show: the arguments passed, those always passed
    being required.

    Args:
        trajectories: The runs that are mined, none of them held out.
        described: Descriptions by name.
    """
    seen: dict[str, dict[str, list[ToolCall]]] = {}
    listed: dict[str, dict[str, ToolSpec]] = {}
    for run in trajectories:
        own = seen.setdefault(run.domain, {})
        listed.setdefault(run.domain, {}).update({spec.name: spec for spec in run.tools or ()})
        for _, call in run.calls():
            if call.status is CallStatus.OK and call.arguments is not None:
                own.setdefault(call.tool, []).append(call)
    return {
        domain: {name: (described or {}).get(name) or _spec(name, own[name]) for name in sorted(own)} | listed[domain]
        for domain, own in seen.items()
    }


def _spec(name: str, calls: Sequence[ToolCall]) -> ToolSpec:
    """A description made of calls that went well."""
    passed = [call.arguments or {} for call in calls]
    names = sorted({argument for arguments in passed for argument in arguments})
    properties = {}
    for argument in names:
        types = {_json_type(arguments[argument]) for arguments in passed if argument in arguments}
        properties[argument] = {"type": types.pop()} if len(types) == 1 else {}
    required = [argument for argument in names if all(argument in arguments for arguments in passed)]
    return ToolSpec(name=name, parameters={"type": "object", "properties": properties, "required": required})


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    kinds = {str: "string", list: "array", dict: "object", type(None): "null"}
    return kinds.get(type(value), "string")


def openai_tools(specs: Mapping[str, ToolSpec]) -> list[dict[str, Any]]:
    """Tool descriptions as the chat-completions protocol has them."""
    return [
        {
            "type": "function",
            "function": {"name": spec.name, "description": spec.description, "parameters": spec.parameters},
        }
        for spec in specs.values()
    ]
