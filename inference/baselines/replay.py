"""Trajectory Replay: successful runs of similar requests, replayed from where this one stands.

ExpeL gives its agent successful trajectories of the most similar tasks as examples. Here each is shown as the chain of
its calls, without those that this run has made already; a call that failed on the way is shown with its error, as it
stands in the trajectory. Runs that go on in the same way are shown once, since recorded tasks have many trials. ExpeL's
other half, insights drawn from comparing successes and failures, is the memory `distilled`.

Source: Zhao et al., "ExpeL: LLM Agents Are Experiential Learners" (arXiv 2308.10144), section 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

from graph_schema.trajectory import Trajectory
from inference.baselines.base import Advice, Setting
from inference.baselines.recall import Moment, RunStore
from inference.baselines.recorded import Recorded, Step
from inference.baselines.wording import Statement, chain, head, steps_after_each_other

_RUNS = 2
"""Ways to go on that are shown."""
_AS_LIKE = 0.95
"""A second way is shown only if its run is nearly as like: one that is much less so dilutes the first."""


class Replay:
    """Replays the nearest successful runs."""

    name: ClassVar[str] = "replay"

    def __init__(self, store: RunStore) -> None:
        self._store = store

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """Keeps the runs known to have succeeded."""
        return cls(RunStore(trajectories, setting, keep=lambda run: run.succeeded))

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        """What the nearest successful runs did that is not done here."""
        moment = Moment.of(messages, tools)
        if moment.empty:
            return Advice()
        runs = self._store.nearest(moment, as_like=_AS_LIKE)
        return self._store.writer.advice(replayed(runs, moment, _RUNS), budget)

    def size(self) -> int:
        """Bytes of the runs and their vectors."""
        return self._store.size()


def replayed(runs: Sequence[Recorded], moment: Moment, count: int) -> Iterator[Statement]:
    """The part still to come of the first runs that go on differently: the first in full, the others by their tools.

    Args:
        runs: The runs, the nearest first.
        moment: The moment.
        count: How many different continuations.
    """
    seen: list[str] = []
    for run in runs:
        left = moment.left(_worth_showing(run))
        way = chain(step for step in left if not step.failed)
        if way in seen:
            continue
        seen.append(way)
        if way and len(seen) == 1:
            yield f'A run that succeeded began "{head(run.request)}" and went on:'
            yield from steps_after_each_other(left)
        elif way:
            yield (f'Another began "{head(run.request, 60)}" and went on: {way}', f"Another went on: {way}")
        if len(seen) == count:
            return


def _worth_showing(run: Recorded) -> list[Step]:
    """Good steps and failed ones; repetitions of either only lengthen the chain."""
    kept: list[Step] = []
    for step in run.steps:
        if step.good or (step.failed and all(step.failed != other.failed for other in kept)):
            kept.append(step)
    return kept
