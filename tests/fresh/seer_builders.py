"""Small runs and an encoder whose vectors a test chooses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graph_schema.trajectory import (
    Feedback,
    Observation,
    Outcome,
    Role,
    Source,
    ToolCall,
    Trajectory,
    Turn,
)


class ChosenEncoder:
    """Vectors by text; a text without one points the other way from everything."""

    name = "chosen"

    def __init__(self, vectors: Mapping[str, Sequence[float]], dim: int = 2) -> None:
        self.vectors = vectors
        self.dim = dim

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        other = [0.0] * (self.dim - 1) + [-1.0]
        return np.array([self.vectors.get(text, other) for text in texts], np.float32).reshape(len(texts), self.dim)

    def encode_query(self, text: str) -> NDArray[np.float32]:
        return self.encode([text])[0]


def made(tool: str, arguments: dict[str, Any] | None = None, result: str | None = "done", **more: Any) -> ToolCall:
    """A call; a result that starts with "Error" is one."""
    observation = None if result is None else Observation(text=result, is_error=result.startswith("Error"))
    return ToolCall(
        id="?",
        tool=tool,
        arguments=arguments or {},
        raw_arguments=json.dumps(arguments or {}),
        observation=observation,
        **more,
    )


def run(
    name: str,
    request: str,
    calls: Sequence[str | ToolCall] = (),
    outcome: Outcome = Outcome.SUCCESS,
    task: str | None = None,
    attack_succeeded: bool | None = None,
) -> Trajectory:
    whole = tuple(made(call) if isinstance(call, str) else call for call in calls)
    return Trajectory(
        id=name,
        source=Source(file="here", record=0),
        format="messages",
        task_id=task or name,
        request=request,
        turns=(Turn(role=Role.USER, text=request), *(Turn(role=Role.ASSISTANT, calls=(call,)) for call in whole)),
        feedback=Feedback(outcome=outcome, attack_succeeded=attack_succeeded),
    )
