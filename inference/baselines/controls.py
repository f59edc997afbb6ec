"""Controls: what any gain must be measured against.

- `Bm25Notes`: runs recalled by their words, those that succeeded first. The cheapest memory there is.
- `IrrelevantMemory`: FRESH's own guidance, given at the wrong moments. What it gains, any text of that form would gain.
- `ShuffledLabels` (in `fresh_memory`): the network trained on shuffled labels. What it gains, the inputs alone give.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import orjson

from fresh.guidance import estimate_tokens
from fresh.retrieval.bm25 import BM25Index
from fresh.retrieval.query import strip_identifiers
from fresh.retrieval.relevance import opening_query
from graph_schema.trajectory import Outcome, Trajectory
from inference.baselines.base import Advice, Setting
from inference.baselines.fresh_memory import FreshMemory
from inference.baselines.recall import Moment, best_first
from inference.baselines.recorded import Recorded, read
from inference.baselines.wording import ENDED, Statement, Writer, head, steps_after_each_other

_SUCCESS = {Outcome.SUCCESS: 1.0, Outcome.UNKNOWN: 0.5, Outcome.FAILURE: 0.0}
_RUNS = 2
_MOMENTS = 200
"""Moments of recorded runs that guidance is taken from."""
_ALL_OF_IT = 2000
"""A budget that no guidance reaches."""


class Bm25Notes:
    """Notes on the runs that BM25 recalls, with the success prior.

    A run scores by the words of its opening, as a share of the best, plus 1 if it succeeded and 1/2 if nobody knows.
    """

    name: ClassVar[str] = "bm25"

    def __init__(self, runs: Sequence[Recorded], writer: Writer) -> None:
        self._runs = list(runs)
        self._writer = writer
        self._bm25 = BM25Index.build([opening_query(run.run).text for run in runs])
        self._success = np.array([_SUCCESS[run.outcome] for run in runs])

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """Indexes all runs."""
        runs = read(trajectories, setting.effects)
        return cls(runs, Writer.of(runs))

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        """Notes on the best runs: what they did that is not done here."""
        moment = Moment.of(messages, tools)
        if moment.empty:
            return Advice()
        found = self._bm25.scores(moment.query.request)
        scores = found / max(float(found.max(initial=0.0)), 1e-9) + self._success
        statements: list[Statement] = []
        for i in best_first(scores, _RUNS):
            run = self._runs[i]
            left = moment.left(run.good_steps)
            if left:
                statements.append(f'A run that {ENDED[run.outcome]} began "{head(run.request)}" and went on:')
                statements += steps_after_each_other(left)
        return self._writer.advice(statements, budget)

    def size(self) -> int:
        """Bytes of the runs in words and of the index."""
        index = sum(array.nbytes for array in self._bm25.to_arrays().values())
        return len(orjson.dumps([run.plain() for run in self._runs])) + index


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Guidance given at a moment of a recorded run.

    Attributes:
        request: How it began, identifiers left out.
        lines: The guidance, particulars replaced.
    """

    request: str
    lines: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """Estimated length."""
        return estimate_tokens("\n".join(self.lines))


class IrrelevantMemory:
    """FRESH's guidance for other tasks' moments, as long as what it would say here.

    Whether it speaks, and how long, is decided by FRESH at this very moment; what it says is drawn from what FRESH says
    at moments of recorded runs of other tasks, among the pieces that are as long or longer, and cut to that length. The
    drawing depends on the moment and the seed alone.
    """

    name: ClassVar[str] = "irrelevant"

    def __init__(self, memory: FreshMemory, pool: Sequence[Elsewhere], seed: int) -> None:
        self._memory = memory
        self._pool = list(pool)
        self._seed = seed

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """Builds FRESH and takes its guidance at moments of the same runs."""
        return cls.around(FreshMemory.build(trajectories, setting), trajectories, setting)

    @classmethod
    def around(cls, memory: FreshMemory, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """The control for a memory that is built already."""
        return cls(memory, _pool(memory, read(trajectories, setting.effects), setting.seed), setting.seed)

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        """Guidance for some other task, cut to the length of what would be said here."""
        length = self._memory.guide(messages, tools, budget).tokens
        moment = Moment.of(messages, tools)
        request = moment.query.said[0] if moment.query.said else ""
        others = [one for one in self._pool if one.request != request]
        if not length or not others:
            return Advice()
        key = hashlib.sha256(orjson.dumps([self._seed, moment.query.parts, len(moment.query.used)])).digest()
        drawn = [others[i] for i in np.random.default_rng(list(key)).permutation(len(others))]
        chosen = next((one for one in drawn if one.tokens >= length), max(drawn, key=lambda one: one.tokens))
        return Advice(_cut(chosen.lines, min(budget, length)))

    def size(self) -> int:
        """Bytes of the memory whose guidance it gives."""
        return self._memory.size()


def _pool(memory: FreshMemory, runs: Sequence[Recorded], seed: int) -> list[Elsewhere]:
    from inference.compare.points import chat_before, openai_tools, tools_by_domain

    offered = {name: openai_tools(specs) for name, specs in tools_by_domain([run.run for run in runs]).items()}
    moments = [(run, turn) for run in runs for turn in sorted({step.turn for step in run.steps})]
    chosen = np.random.default_rng(seed).permutation(len(moments))[:_MOMENTS]
    writer = Writer.of(runs)
    pool = []
    for run, turn in (moments[i] for i in sorted(chosen)):
        advice = memory.guide(chat_before(run.run, turn), offered.get(run.run.domain), _ALL_OF_IT)
        lines = tuple(writer.clean(line) for line in advice.text.splitlines())
        said = opening_query(run.run).said
        if lines:
            pool.append(Elsewhere(strip_identifiers(said[0]) if said else "", lines))
    return pool


def _cut(lines: Sequence[str], budget: int) -> str:
    """The lines that fit, in order; nothing if that is the heading alone."""
    kept: list[str] = []
    for line in lines:
        if estimate_tokens("\n".join([*kept, line])) <= budget:
            kept.append(line)
    return "\n".join(kept) if len(kept) > 1 else ""
