"""Train-Text: the text of recorded runs itself in the prompt, the nearest run first, cut where the budget ends.

The baseline of that name puts whole training trajectories into the context. Here the budget is the same for every
memory, so the runs are those whose opening is most like what the user has said (dense similarity), whatever their
outcome, told from their start: requests, later words of the user, calls and what came back. It knows nothing of the
step: what is done already is told again, and that is what the other baselines are to improve on. The agent's own prose
is left out, for it holds names and numbers and would crowd out the calls.

Source: the Train-Text row of FRESH (arXiv 2609.28003), table 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

from graph_schema.trajectory import Trajectory
from inference.baselines.base import Advice, Setting
from inference.baselines.recall import Moment, RunStore
from inference.baselines.recorded import Recorded
from inference.baselines.wording import ENDED, Statement, head, step_line

_RUNS = 3
_SHORT_REPLY = 20
"""Characters below which the user's words say nothing about the task."""


class TrainText:
    """Tells the nearest runs from their start."""

    name: ClassVar[str] = "train-text"

    def __init__(self, store: RunStore) -> None:
        self._store = store

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """Keeps all runs."""
        return cls(RunStore(trajectories, setting))

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        """The nearest runs, as far as the budget goes."""
        moment = Moment.of(messages, tools)
        if moment.empty:
            return Advice()
        nearest = self._store.nearest(moment)[:_RUNS]
        return self._store.writer.advice((line for run in nearest for line in _told(run)), budget)

    def size(self) -> int:
        """Bytes of the runs and their vectors."""
        return self._store.size()


def _told(run: Recorded) -> Iterator[Statement]:
    yield f"Earlier run, it {ENDED[run.outcome]}. The user said: {head(run.request, 240)}"
    later = {turn: text for turn, text in run.user_words.items() if len(text) >= _SHORT_REPLY}
    for step in run.steps:
        for turn in [turn for turn in later if turn < step.turn]:
            yield f"The user said: {head(later.pop(turn))}"
        yield step_line(step, results=True)
