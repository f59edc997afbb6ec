"""Small runs and experiences written by hand."""

from __future__ import annotations

import json
from typing import Any

from fresh.expg import Experience, Invocation, Judgement
from graph_schema.trajectory import (
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

PERFECT = "1111111111"
GET_PARCEL = ToolSpec(
    name="get_parcel",
    description="Looks a parcel up. Use it first.",
    parameters={
        "type": "object",
        "properties": {"parcel_id": {"type": "string"}, "detail": {"type": "string", "enum": ["short", "full"]}},
        "required": ["parcel_id"],
    },
    effect=Effect.READ,
)
SEND_PARCEL = ToolSpec(
    name="send_parcel",
    description="Sends a parcel.",
    parameters={
        "type": "object",
        "properties": {"parcel_id": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["parcel_id", "days"],
    },
    effect=Effect.WRITE,
)
TOOLS = (GET_PARCEL, SEND_PARCEL)


def call(
    tool: str,
    arguments: dict[str, Any] | str | None,
    answer: Any,
    *,
    error: bool = False,
    by_user: bool = False,
    place: str = "",
    seconds: float | None = None,
) -> ToolCall:
    """A call; text arguments are unreadable ones, answer None is no answer."""
    readable = isinstance(arguments, dict)
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return ToolCall(
        id=place,
        tool=tool,
        arguments=arguments if readable else None,
        raw_arguments=json.dumps(arguments) if readable else str(arguments),
        parse_error=None if readable else "not an object",
        by_user=by_user,
        observation=None if answer is None else Observation(text=text, is_error=error),
        seconds=seconds,
    )


def user(text: str, *calls: ToolCall, time: float | None = None) -> Turn:
    return Turn(role=Role.USER, text=text, calls=calls, timestamp=time)


def agent(*calls: ToolCall, text: str = "") -> Turn:
    return Turn(role=Role.ASSISTANT, text=text, calls=calls)


def run(
    *turns: Turn,
    id: str = "run-1",
    task: str = "t1",
    domain: str = "post",
    request: str | None = None,
    tools: tuple[ToolSpec, ...] | None = TOOLS,
    gold: tuple[GoldAction, ...] | None = None,
    outcome: Outcome = Outcome.UNKNOWN,
    policy: str = "",
) -> Trajectory:
    """A run whose call ids are filled in as the readers do."""
    numbered = tuple(
        turn.model_copy(
            update={"calls": tuple(c.model_copy(update={"id": f"{id}/{t}/{p}"}) for p, c in enumerate(turn.calls))}
        )
        for t, turn in enumerate(turns)
    )
    asked = next((turn.text for turn in turns if turn.role is Role.USER), "") if request is None else request
    return Trajectory(
        id=id,
        source=Source(file="x.json", record=0),
        format="test",
        domain=domain,
        task_id=task,
        request=asked,
        policy=policy,
        turns=numbered,
        feedback=Feedback(outcome=outcome),
        gold=gold,
        tools=tools,
    )


def experience(
    bits: str = PERFECT,
    *,
    tool: ToolSpec = GET_PARCEL,
    number: int = 0,
    input: dict[str, Any] | None = None,
    response: str = "",
    context: str = "",
    success: bool | None = None,
    time: float | None = None,
    run: str = "",
    task: str = "",
    seconds: float | None = None,
    tokens: int | None = None,
    **more: Any,
) -> Experience:
    """An experience with given scores; ``number`` makes its input, run and task its own."""
    ok = bits[6:] != "0000" if success is None else success
    invocation = Invocation(
        tool=tool,
        context=context,
        input={"parcel_id": f"P{number:05d}"} if input is None else input,
        response=response or f'{{"parcel_id": "P{number:05d}", "state": "waiting"}}',
        success=ok,
        time=time,
        run=run or f"run-{number}",
        call=f"{run or f'run-{number}'}/1/0",
        task=task or f"task-{number}",
        seconds=seconds,
        tokens=tokens,
        **more,
    )
    return Experience.of(invocation, Judgement(scores=tuple(map(int, bits))))  # type: ignore[arg-type]


def many(sizes: dict[str, int], **more: Any) -> list[Experience]:
    """Experiences with given class sizes, all different."""
    found: list[Experience] = []
    for bits, size in sizes.items():
        found += [experience(bits, number=number, **more) for number in range(len(found), len(found) + size)]
    return found
