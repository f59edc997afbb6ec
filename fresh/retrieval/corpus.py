"""Recorded runs prepared once, so that memories can be mined from any part of them and asked about the rest."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from fresh.mining.evidence import RunEvidence
from fresh.mining.miner import EffectResolver, MiningSettings, reduce_evidence
from fresh.retrieval.encoder import Encoder
from fresh.retrieval.features import EncodedQuery, encode_queries
from fresh.retrieval.query import Query
from fresh.retrieval.relevance import DecisionPoint, decision_points, good_writes, opening_query
from fresh.retrieval.view import GraphView
from fresh.splits import task_groups
from graph_schema.errors import ConfigError
from graph_schema.trajectory import Effect, ToolSpec, Trajectory


class RememberingEncoder:
    """An encoder that embeds each distinct text once, however many graphs hold it.

    Args:
        encoder: The one that does the work.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known: dict[str, NDArray[np.float32]] = {}

    @property
    def name(self) -> str:
        """Name of the encoder behind."""
        return self._encoder.name

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return self._encoder.dim

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of the texts, [n, dim]."""
        new = sorted(set(texts) - self._known.keys())
        if new:
            self._known.update(zip(new, self._encoder.encode(new), strict=True))
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        return np.stack([self._known[text] for text in texts])

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """Unit vector of one text, [dim]."""
        return self.encode([text])[0]


class Corpus:
    """Runs with their evidence, groups and decision points.

    Args:
        trajectories: The runs; the same run twice is kept once.
        encoder: Embeds node texts and queries.
        subject_arguments: See `fresh.splits.task_groups`.
        effects: What the caller says of tools.
        specs: What the caller says tools are for.

    Raises:
        ConfigError: There are no runs.
    """

    def __init__(
        self,
        trajectories: Iterable[Trajectory],
        encoder: Encoder,
        subject_arguments: Iterable[str] = (),
        effects: Mapping[str, Effect] | None = None,
        specs: Mapping[str, ToolSpec] | None = None,
    ) -> None:
        # In order of content, so that nothing later depends on the order of files.
        self.runs: list[Trajectory] = [run for _, run in sorted({run.id: run for run in trajectories}.items())]
        if not self.runs:
            raise ConfigError("there are no runs to learn from: give paths that hold recorded runs")
        self.encoder = RememberingEncoder(encoder)
        self.groups = task_groups(self.runs, subject_arguments)
        self._resolver = EffectResolver(effects)
        self._specs = specs
        self._encoded: dict[Query, EncodedQuery] = {}

    def __len__(self) -> int:
        return len(self.runs)

    @cached_property
    def evidence(self) -> list[RunEvidence]:
        """What the miner takes out of each run."""
        return [self._resolver.evidence(run) for run in self.runs]

    @cached_property
    def points(self) -> list[list[DecisionPoint]]:
        """Decision points of each run whose future bears something out."""
        return [decision_points(run, found) for run, found in zip(self.runs, self.evidence, strict=True)]

    def some_points(self, run: int, count: int, seed: int = 0) -> list[DecisionPoint]:
        """At most so many decision points of a run, drawn at random: the same ones whatever else is drawn."""
        points = self.points[run]
        rng = np.random.default_rng([seed, zlib.crc32(self.runs[run].id.encode())])
        return [points[i] for i in sorted(rng.permutation(len(points))[:count])]

    @cached_property
    def openings(self) -> list[Query]:
        """The query made of each run's first user turns."""
        return [opening_query(run) for run in self.runs]

    @cached_property
    def good_writes(self) -> list[frozenset[str] | None]:
        """Tools of the writes that each run is known to have needed."""
        return [
            good_writes(run, evidence, partial(self._resolver.effect, labelled=self._resolver.for_run(run)))
            for run, evidence in zip(self.runs, self.evidence, strict=True)
        ]

    def view(self, runs: Iterable[int]) -> GraphView:
        """A memory mined from some of the runs."""
        chosen = [self.evidence[i] for i in runs]
        return GraphView(reduce_evidence(chosen, self._resolver, self._specs, MiningSettings(), self.encoder))

    def encode(self, queries: Iterable[Query]) -> list[EncodedQuery]:
        """Embeds queries, each distinct one once."""
        wanted = list(queries)
        new = list(dict.fromkeys(q for q in wanted if q not in self._encoded))
        if new:
            self._encoded.update(zip(new, encode_queries(new, self.encoder), strict=True))
        return [self._encoded[query] for query in wanted]
