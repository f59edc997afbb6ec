"""What guidance asks of a ranker, and the one that needs no training."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fresh.retrieval.bm25 import BM25Index
from fresh.retrieval.query import Query
from graph_schema.graph import ExperienceGraph


class Ranker(Protocol):
    """Anything that scores a memory's nodes for a moment."""

    def scores(self, query: Query) -> NDArray[np.float64]:
        """Relevance of every node, [N], 0 to 1; 0 for what was not considered."""

    def likeness(self, query: Query) -> NDArray[np.float64]:
        """How alike every node is to what the user asks, [N], 0 or more; compared within one type of node."""


class HeuristicRanker:
    """BM25 over node texts times the smoothed success rate: for a memory without a trained reranker.

    Args:
        graph: The memory's graph.
        bm25: Index over its texts, in node order.
    """

    def __init__(self, graph: ExperienceGraph, bm25: BM25Index) -> None:
        success, failure = graph.column("success"), graph.column("failure")
        self._prior = (success + 1.0) / (success + failure + 2.0)
        self._bm25 = bm25

    def __repr__(self) -> str:
        return f"{type(self).__name__}(nodes={len(self._prior)})"

    def scores(self, query: Query) -> NDArray[np.float64]:
        """Relevance of every node, [N], the best at 1."""
        found = self._bm25.scores(query.text) * self._prior
        best = found.max(initial=0.0)
        return found / best if best > 0 else found

    def likeness(self, query: Query) -> NDArray[np.float64]:
        """BM25 of every node with the request, [N]."""
        return self._bm25.scores(query.request)
