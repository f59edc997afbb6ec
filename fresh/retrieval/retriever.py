"""Retrieval as the rest of FRESH uses it: a query in, the memory's nodes in order of relevance out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fresh.retrieval.bm25 import BM25Index
from fresh.retrieval.candidates import DEFAULT_RECALL, Recall, RecallSettings
from fresh.retrieval.encoder import Encoder, load_encoder
from fresh.retrieval.features import NEAREST_TASKS, EncodedQuery, MatchFeatures, encode_query
from fresh.retrieval.query import Query
from fresh.retrieval.view import MAX_COMPARED_TASKS, GraphView
from graph_schema.graph import ExperienceGraph
from graph_schema.types import GUIDANCE_TYPES, TYPE_CODE, NodeType

if TYPE_CHECKING:
    from fresh.retrieval.reranker import Reranker

_GUIDANCE_CODES = [TYPE_CODE[t] for t in GUIDANCE_TYPES]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Nodes of one kind, best first.

    Attributes:
        nodes: Positions in the graph, int64 [m].
        scores: The reranker's scores, float32 [m]; only differences within one ranking mean something.
    """

    nodes: NDArray[np.int64]
    scores: NDArray[np.float32]


class Retriever:
    """Recall and reranking over one memory.

    Args:
        graph: The memory's graph, with features.
        reranker: Trained on features of the same kind.
        encoder: Embeds queries; loaded by the reranker's name for it on first use when None.
        bm25: Index over all node texts; built when None.
        settings: Bounds of the candidate subgraph.
        device: Where the reranker runs.

    Raises:
        SchemaError: The graph's features are not those the reranker reads.
    """

    def __init__(
        self,
        graph: ExperienceGraph,
        reranker: Reranker,
        encoder: Encoder | None = None,
        bm25: BM25Index | None = None,
        settings: RecallSettings = DEFAULT_RECALL,
        device: str = "cpu",
    ) -> None:
        from fresh.retrieval.reranker import stat_columns

        self.view = GraphView(graph, bm25)
        self.reranker = reranker.to(device).eval()
        self.recall = Recall(self.view, settings)
        self.features = MatchFeatures(self.view)
        self._device = device
        self._columns = stat_columns(reranker.config, self.view)
        self._encoder = encoder

    @property
    def encoder(self) -> Encoder:
        """The text encoder, loaded on first use."""
        if self._encoder is None:
            self._encoder = load_encoder(self.reranker.config.encoder, device="cpu")
        return self._encoder

    def rank(self, query: Query | EncodedQuery) -> Ranking:
        """Guidance nodes among the candidates, best first."""
        nodes, scores, _ = self._scores(query)
        return _best_first(nodes, scores, np.isin(self.view.types[nodes], _GUIDANCE_CODES))

    def rank_tasks(self, query: Query | EncodedQuery) -> Ranking:
        """Recorded tasks among the candidates, the most alike in what has to be done first."""
        nodes, _, scores = self._scores(query)
        return _best_first(nodes, scores, self.view.types[nodes] == TYPE_CODE[NodeType.TASK])

    def scores(self, query: Query | EncodedQuery) -> NDArray[np.float64]:
        """Relevance of every node, [N], 0 to 1 and the best at one half; 0 for what is no candidate."""
        out = np.zeros(len(self.view))
        nodes, scores, _ = self._scores(query)
        if len(nodes):
            out[nodes] = 1 / (1 + np.exp(-(scores.astype(np.float64) - scores.max())))
        return out

    def likeness(self, query: Query | EncodedQuery) -> NDArray[np.float64]:
        """How alike every node is to what the user asks, [N]: BM25; for tasks the mean of BM25 and cosine.

        Words and meaning find different neighbours. Each is taken relative to the task that it finds most alike. In
        a large memory the cosine is worked out for the tasks that BM25 puts first.
        """
        encoded = self._encode(query)
        out = self.view.bm25.scores(encoded.query.request)
        tasks = slice(self.view.task_start, self.view.task_start + self.view.num_tasks)
        words, both = _relative(out[tasks]), np.zeros(self.view.num_tasks)
        if len(words) <= MAX_COMPARED_TASKS:
            nearest, vectors = np.arange(len(words)), self._task_vectors
        else:
            nearest = np.argpartition(-words, NEAREST_TASKS)[:NEAREST_TASKS]
            vectors = self.view.text[tasks.start + nearest].astype(np.float32)
        both[nearest] = (words[nearest] + _relative(np.maximum(vectors @ encoded.request, 0.0))) / 2
        out[tasks] = both
        return out

    @cached_property
    def _task_vectors(self) -> NDArray[np.float32]:
        return self.view.text[self.view.task_start : self.view.task_start + self.view.num_tasks].astype(np.float32)

    def _encode(self, query: Query | EncodedQuery) -> EncodedQuery:
        return encode_query(query, self.encoder) if isinstance(query, Query) else query

    def _scores(
        self, query: Query | EncodedQuery
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
        import torch

        from fresh.retrieval.reranker import collate, make_example

        encoded = self._encode(query)
        candidates = self.recall.find(encoded.query)
        if not len(candidates.nodes):
            none = np.zeros(0, dtype=np.float32)
            return candidates.nodes, none, none
        example = make_example(self.view, self.features, candidates, encoded)
        with _one_thread(), torch.inference_mode():
            guidance, tasks = self.reranker(collate([example], self._columns).to(self._device))
        return candidates.nodes, guidance.cpu().numpy(), tasks.cpu().numpy()


def _relative(scores: NDArray[np.floating]) -> NDArray[np.floating]:
    best = scores.max(initial=0.0)
    return scores / best if best > 0 else scores


_THREADS = Lock()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keeps PyTorch to one thread: a subgraph is so small that handing its parts out costs more than doing them.

    `benchmarks/bench_guide.py` shows it: on two threads the network takes twice as long. The number of threads is the
    process's own, hence the lock: two callers must not restore each other's.
    """
    import torch

    with _THREADS:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _best_first(nodes: NDArray[np.int64], scores: NDArray[np.float32], wanted: NDArray[np.bool_]) -> Ranking:
    nodes, scores = nodes[wanted], scores[wanted]
    order = np.argsort(-scores, kind="stable")
    return Ranking(nodes[order], scores[order])
