"""Few-shot: the same few successful runs before every step, whatever is asked.

Hand-picked demonstrations are chosen to show the range of a job. Here they are picked by rule: one after another the
run that adds most of what successful runs call, a tool counting by how many of them call it, the shorter one of equals.

Source: Brown et al., "Language Models are Few-Shot Learners" (arXiv 2005.14165).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import orjson

from graph_schema.trajectory import Trajectory
from inference.baselines.base import Advice, Setting
from inference.baselines.recorded import Recorded, read
from inference.baselines.wording import Statement, Writer, head, steps_after_each_other

_RUNS = 3


class FewShot:
    """Shows a fixed set of successful runs."""

    name: ClassVar[str] = "few-shot"

    def __init__(self, runs: Sequence[Recorded], writer: Writer) -> None:
        self._runs = list(runs)
        self._writer = writer

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """Picks the runs."""
        runs = read(trajectories, setting.effects)
        return cls(_picked([run for run in runs if run.succeeded and run.good_steps]), Writer.of(runs))

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        """The same runs as ever."""
        return self._writer.advice((line for run in self._runs for line in _shown(run)), budget)

    def size(self) -> int:
        """Bytes of the runs in words."""
        return len(orjson.dumps([run.plain() for run in self._runs]))


def _picked(runs: Sequence[Recorded]) -> list[Recorded]:
    tools = [frozenset(step.tool for step in run.good_steps) for run in runs]
    weight = Counter(tool for used in tools for tool in used)
    chosen: list[int] = []
    while len(chosen) < min(_RUNS, len(runs)):
        shown = frozenset[str]().union(*(tools[i] for i in chosen))
        left = [i for i in range(len(runs)) if i not in chosen]
        gain = {i: sum(weight[tool] for tool in tools[i] - shown) for i in left}
        chosen.append(min(left, key=lambda i: (-gain[i], len(runs[i].steps), i)))
    return [runs[i] for i in chosen]


def _shown(run: Recorded) -> Iterator[Statement]:
    yield f"Example: {head(run.request)}"
    yield from steps_after_each_other(run.good_steps)
