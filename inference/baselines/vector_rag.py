"""Vector-RAG: pieces of recorded runs, found by dense similarity with the moment.

A run is cut at every turn in which the agent called tools. A piece is the next few steps; what is embedded of it is
what was known before them (the first request, the latest words of the user, the last call and the last error), in the
very form in which the live moment is embedded, so that like is compared with like. Nothing is ranked by outcome: a
vector store knows none, though each piece says how its run ended.

Source: Lewis et al., "Retrieval-Augmented Generation for Knowledge-Intensive NLP Tasks" (arXiv 2005.11401); the
Vector-RAG row of FRESH (arXiv 2609.28003), table 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from fresh.history import RunIndex
from fresh.retrieval.encoder import Encoder
from fresh.retrieval.features import encode_query
from fresh.retrieval.query import Query, make_query
from graph_schema.trajectory import Trajectory
from inference.baselines.base import Advice, Setting
from inference.baselines.recall import Moment, best_first, encoded, encoder_of
from inference.baselines.recorded import Recorded, Step, read
from inference.baselines.wording import ENDED, Statement, Writer, head, step_line

_PIECES = 4
_STEPS = 3
"""Steps of a piece."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A few steps of a run."""

    run: Recorded
    steps: tuple[Step, ...]


class VectorRag:
    """Finds pieces of runs."""

    name: ClassVar[str] = "vector-rag"

    def __init__(self, pieces: list[Piece], vectors: NDArray[np.float32], writer: Writer, encoder: Encoder) -> None:
        self._pieces = pieces
        self._vectors = vectors
        self._writer = writer
        self._encoder = encoder

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """Cuts and embeds all runs."""
        runs, encoder = read(trajectories, setting.effects), encoder_of(setting)
        cut = [entry for run in runs for entry in moments_of(run)]
        pieces = [Piece(run, run.steps[position : position + _STEPS]) for run, position, _ in cut]
        return cls(pieces, encoded([query for _, _, query in cut], encoder), Writer.of(runs), encoder)

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        """The pieces of the most similar moments, each content once."""
        moment = Moment.of(messages, tools)
        if moment.empty:
            return Advice()
        scores = self._vectors @ encode_query(moment.query, self._encoder).text
        found: dict[tuple[tuple[str, str], ...], Piece] = {}
        for position in best_first(scores):
            piece = self._pieces[position]
            found.setdefault(tuple((step.pattern, step.failed) for step in piece.steps), piece)
            if len(found) == _PIECES:
                break
        return self._writer.advice((line for piece in found.values() for line in _shown(piece)), budget)

    def size(self) -> int:
        """Bytes of the runs in words and of the pieces' vectors."""
        runs = {id(piece.run): piece.run for piece in self._pieces}
        return len(orjson.dumps([run.plain() for run in runs.values()])) + self._vectors.nbytes


def moments_of(run: Recorded) -> Iterator[tuple[Recorded, int, Query]]:
    """``(run, position of the next step, query)`` of every turn in which the agent called tools."""
    index = RunIndex(run.run.turns)
    before = -1
    for position, step in enumerate(run.steps):
        if step.turn != before:
            yield run, position, make_query(index.at(step.turn))
        before = step.turn


def _shown(piece: Piece) -> Iterator[Statement]:
    yield f'From a run that {ENDED[piece.run.outcome]} ("{head(piece.run.request, 60)}"):'
    for step in piece.steps:
        yield step_line(step, results=True)
