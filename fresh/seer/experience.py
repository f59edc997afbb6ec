"""What a pool keeps of a run, and all that a pool holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fresh.history import RunIndex
from fresh.mining.patterns import action_pattern, request_text
from fresh.values import is_data_key
from graph_schema.trajectory import CallStatus, ToolCall, Trajectory


@dataclass(frozen=True, slots=True)
class Step:
    """One successful call of a stored run, without its values.

    Attributes:
        tool: The tool.
        arguments: Names of the arguments given, sorted.
    """

    tool: str
    arguments: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The call with each value replaced by its argument's name."""
        return action_pattern(self.tool, dict.fromkeys(self.arguments))


@dataclass(frozen=True, slots=True)
class Experience:
    """What a pool keeps of a run: enough to show it as an example, and none of its particulars.

    Attributes:
        run_id: The run.
        task_key: Its task.
        request: What was asked, particulars replaced by placeholders.
        steps: The calls that worked.
        tools: U, every tool the agent called, failed calls included.
        intent: I; None where none could be told.
    """

    run_id: str
    task_key: str
    request: str
    steps: tuple[Step, ...]
    tools: frozenset[str]
    intent: str | None = None

    @classmethod
    def of(cls, run: Trajectory, tools: Iterable[str], intent: str | None) -> Experience:
        """What is kept of a run."""
        calls = [call for _, call in run.calls()]
        shown = (paths for _, _, paths in RunIndex(run.turns).shown)
        return cls(
            run_id=run.id,
            task_key=run.task_key,
            request=request_text(run.request, calls, shown),
            steps=tuple(Step(call.tool, _names(call)) for call in calls if call.status is CallStatus.OK),
            tools=frozenset(tools),
            intent=intent,
        )


def _names(call: ToolCall) -> tuple[str, ...]:
    """Names of the arguments; one that is itself an identifier is a particular."""
    return tuple(sorted(name for name in call.arguments or () if not is_data_key(name)))


@dataclass
class Counters:
    """What a pool has seen of one run."""

    entered: int = 0
    """Recalls of the pool before the run came."""
    recalled: int = 0
    helped: int = 0
    judged: int = 0


@dataclass
class Contents:
    """All that a pool holds, oldest run first.

    Attributes:
        experiences: The runs.
        counters: What was seen of each.
        runs: E_tau of each, ``[n, d]``.
        requests: E_q of each, ``[n, d]``.
        recalls: How often the pool was asked.
    """

    experiences: list[Experience]
    counters: list[Counters]
    runs: NDArray[np.float32]
    requests: NDArray[np.float32]
    recalls: int = 0

    def check(self, width: int, capacity: int) -> None:
        """Checks contents that were stored.

        Raises:
            ValueError: The parts do not fit together, or into a pool of this capacity and width of embeddings.
        """
        count = len(self.experiences)
        if count > capacity or len({experience.run_id for experience in self.experiences}) < count:
            raise ValueError(f"{count} runs in a pool of {capacity}, or one of them twice")
        for vectors in (self.runs, self.requests):
            if vectors.shape != (count, width) or vectors.dtype != np.float32 or not np.isfinite(vectors).all():
                raise ValueError(f"its embeddings are not {count} vectors of {width} finite numbers")
