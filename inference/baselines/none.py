"""No memory: what the executor does by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from graph_schema.trajectory import Trajectory
from inference.baselines.base import Advice, Setting


class NoMemory:
    """Says nothing."""

    name: ClassVar[str] = "none"

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """Keeps nothing of the runs."""
        return cls()

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        """Nothing."""
        return Advice()

    def size(self) -> int:
        """0."""
        return 0
