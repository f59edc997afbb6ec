"""SEER: at every step, the successful runs most like the whole history, with the same tools and the same intent.

The pool, its three scores and its eviction are this project's own (`fresh.seer`), with the paper's settings: equal
weights, four runs, at most a thousand kept. The paper puts the recalled runs into the prompt as examples. Under this
comparison's budget the first that goes on differently is shown call by call and the others by their tools, each without
the part that is done already, for a step of the run is what is asked for.

Source: Cui et al., "Self-Guided Function Calling in Large Language Models via Stepwise Experience Recall"
(arXiv 2508.15214).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import orjson

from fresh.seer import ExperiencePool
from graph_schema.trajectory import Trajectory
from inference.baselines.base import Advice, Setting
from inference.baselines.recall import Moment, encoder_of
from inference.baselines.recorded import Recorded, read
from inference.baselines.replay import replayed
from inference.baselines.wording import Writer


class Seer:
    """Recalls examples step by step."""

    name: ClassVar[str] = "seer"

    def __init__(self, pool: ExperiencePool, runs: Sequence[Recorded], writer: Writer) -> None:
        self._pool = pool
        self._runs = {run.run.id: run for run in runs}
        self._writer = writer

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """Fills the pool."""
        runs = read(trajectories, setting.effects)
        pool = ExperiencePool(encoder_of(setting))
        pool.add([run.run for run in runs])
        kept = {experience.run_id for experience in pool.experiences}
        return cls(pool, [run for run in runs if run.run.id in kept], Writer.of(runs))

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        """What the recalled runs did that is not done here."""
        moment = Moment.of(messages, tools)
        if moment.empty:
            return Advice()
        recalled = [self._runs[found.experience.run_id] for found in self._pool.recall(moment.history)]
        return self._writer.advice(replayed(recalled, moment, len(recalled)), budget)

    def size(self) -> int:
        """Bytes of the pool's runs in words and of its vectors."""
        contents = self._pool.contents
        runs = orjson.dumps([self._runs[one.run_id].plain() for one in contents.experiences])
        return len(runs) + contents.runs.nbytes + contents.requests.nbytes
