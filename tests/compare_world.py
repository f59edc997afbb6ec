"""Runs and memories made by hand for the tests of the comparison."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from fresh.traces import load
from graph_schema.trajectory import (
    Feedback,
    GoldAction,
    Observation,
    Outcome,
    Role,
    Source,
    ToolCall,
    Trajectory,
    Turn,
)
from inference.baselines.base import Advice, Setting
from inference.baselines.none import NoMemory

DESKS = Path(__file__).parent / "data" / "desks"
_NUMBERS = itertools.count()


def desk_runs() -> list[Trajectory]:
    runs, _ = load([DESKS / "garden.jsonl", DESKS / "library.jsonl"])
    return runs


def call(
    tool: str, result: str | None = "ok", *, error: bool = False, by_user: bool = False, **arguments: Any
) -> ToolCall:
    import orjson

    return ToolCall(
        id=f"c{next(_NUMBERS)}",
        tool=tool,
        arguments=arguments,
        raw_arguments=orjson.dumps(arguments).decode(),
        by_user=by_user,
        observation=None if result is None else Observation(text=result, is_error=error),
    )


def user(text: str, *calls: ToolCall) -> Turn:
    return Turn(role=Role.USER, text=text, calls=calls)


def agent(*calls: ToolCall, text: str = "") -> Turn:
    return Turn(role=Role.ASSISTANT, text=text, calls=calls)


def run(
    *turns: Turn,
    task: str = "1",
    gold: Sequence[GoldAction] | None = None,
    outcome: Outcome = Outcome.UNKNOWN,
    **more: Any,
) -> Trajectory:
    fields: dict[str, Any] = {
        "id": f"run{next(_NUMBERS)}",
        "source": Source(file="x/some-agent-airline.json.gz", record=0),
        "format": "messages",
        "domain": "desk",
        "task_id": task,
        "turns": turns,
        "feedback": Feedback(outcome=outcome),
        "gold": None if gold is None else tuple(gold),
    }
    return Trajectory(**(fields | more))


class Frequent(NoMemory):
    """Names the tools that were called most, and every error."""

    name: ClassVar[str] = "frequent"

    def __init__(self, text: str = "") -> None:
        self._text = text

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        from collections import Counter

        made = [made for trajectory in trajectories for _, made in trajectory.calls()]
        often = Counter(one.tool for one in made).most_common(8)
        failed = {(m.tool, m.observation.text) for m in made if m.observation and m.observation.is_error}
        lines = [f"call {tool}" for tool, _ in often]
        lines += [f'Avoid: {tool} can fail with "{message}"' for tool, message in sorted(failed)]
        return cls("\n".join(lines))

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        return Advice(self._text)

    def size(self) -> int:
        return len(self._text.encode())
