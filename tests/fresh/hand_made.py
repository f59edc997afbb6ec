"""Small runs written by hand."""

from __future__ import annotations

import json
from typing import Any

from graph_schema import (
    Effect,
    Feedback,
    GoldAction,
    Observation,
    Outcome,
    Role,
    Source,
    ToolCall,
    ToolSpec,
    Trajectory,
    Turn,
)

EFFECTS = {
    "look": Effect.READ,
    "list_all": Effect.READ,
    "lend": Effect.WRITE,
    "end": Effect.WRITE,
    "ask_person": Effect.OTHER,
}


class Refused(str):
    """A result that is an error."""


def user(text: str) -> Turn:
    return Turn(role=Role.USER, text=text)


def says(text: str) -> Turn:
    return Turn(role=Role.ASSISTANT, text=text)


def call(tool: str, arguments: dict[str, Any] | None, result: Any = "done") -> ToolCall:
    """A call; a result of None means that it was never answered."""
    observation = None
    if result is not None:
        text = result if isinstance(result, str) else json.dumps(result)
        observation = Observation(text=text, is_error=isinstance(result, Refused))
    raw = "{" if arguments is None else json.dumps(arguments)
    problem = "cut" if arguments is None else None
    return ToolCall(
        id="?", tool=tool, arguments=arguments, raw_arguments=raw, parse_error=problem, observation=observation
    )


def calls(*made: ToolCall) -> Turn:
    return Turn(role=Role.ASSISTANT, calls=made)


def step(tool: str, arguments: dict[str, Any] | None, result: Any = "done") -> Turn:
    return calls(call(tool, arguments, result))


def run(
    *turns: Turn,
    outcome: Outcome = Outcome.SUCCESS,
    gold: list[tuple[str, dict[str, Any]]] | None = None,
    name: str = "r",
    task: str = "t",
    tools: tuple[ToolSpec, ...] | None = None,
    times: tuple[float, ...] = (),
) -> Trajectory:
    placed = []
    for i, turn in enumerate(turns):
        named = tuple(c.model_copy(update={"id": f"{name}/{i}/{k}"}) for k, c in enumerate(turn.calls))
        placed.append(turn.model_copy(update={"calls": named, "timestamp": times[i] if times else None}))
    return Trajectory(
        id=name,
        source=Source(file="hand", record=0),
        format="hand",
        domain="desk",
        task_id=task,
        request=next((t.text for t in turns if t.role is Role.USER), ""),
        turns=tuple(placed),
        feedback=Feedback(outcome=outcome),
        gold=None if gold is None else tuple(GoldAction(tool=t, arguments=a) for t, a in gold),
        tools=tools,
    )


def effect_of(tool: str) -> Effect:
    return EFFECTS[tool]
