"""The rankers that a trained one has to beat. Each scores every node of a memory for a query."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fresh.retrieval.features import EncodedQuery, MatchFeatures, seer_scores
from fresh.retrieval.view import GraphView

Ranker = Callable[[GraphView, EncodedQuery], NDArray[np.float64]]
"""Scores of all nodes, [N]; only their order matters."""

RRF_K = 60
"""Constant of reciprocal rank fusion (Cormack, Clarke and Buettcher, 2009)."""


def by_success(view: GraphView, encoded: EncodedQuery) -> NDArray[np.float64]:
    """How often a node was borne out, whatever the query; see `success_prior`."""
    return success_prior(view)


def success_prior(view: GraphView) -> NDArray[np.float64]:
    """Share of good uses times the log of their number, brought to [0, 1], [N]."""
    value = view.success_prior * np.log1p(view.graph.column("success"))
    return value / max(value.max(initial=0.0), 1e-9)


def by_bm25(view: GraphView, encoded: EncodedQuery) -> NDArray[np.float64]:
    """BM25 over node texts."""
    return view.bm25.scores(encoded.query.text)


def by_cosine(view: GraphView, encoded: EncodedQuery) -> NDArray[np.float64]:
    """Cosine of the text embeddings."""
    return (view.text.astype(np.float32) @ encoded.text).astype(np.float64)


def by_fusion(view: GraphView, encoded: EncodedQuery) -> NDArray[np.float64]:
    """BM25 and cosine, fused by reciprocal rank."""
    return _rrf(by_bm25(view, encoded), view.guidance) + _rrf(by_cosine(view, encoded), view.guidance)


def by_bm25_and_success(view: GraphView, encoded: EncodedQuery) -> NDArray[np.float64]:
    """BM25, brought to [0, 1], plus the success prior."""
    scores = by_bm25(view, encoded)
    return scores / max(scores.max(initial=0.0), 1e-9) + success_prior(view)


def by_similarity_and_utility(view: GraphView, encoded: EncodedQuery) -> NDArray[np.float64]:
    """Heuristic: cosine times one plus the node's utility."""
    success, failure = view.graph.column("success"), view.graph.column("failure")
    utility = (success - failure) / (success + failure + view.graph.column("unknown") + 1.0)
    return by_cosine(view, encoded) * (1 + utility)


def by_seer(view: GraphView, encoded: EncodedQuery) -> NDArray[np.float64]:
    """SEER's score of a node: mean of ``s1 + s2 + s3`` over the recorded tasks behind it."""
    total = seer_scores(view, encoded).sum(axis=1, keepdims=True)
    _, mean = MatchFeatures(view).over_tasks(total, np.arange(len(view)))
    return mean[:, 0].astype(np.float64)


def by_chance(seed: int) -> Ranker:
    """Random order, the same for the same seed and query."""

    def score(view: GraphView, encoded: EncodedQuery) -> NDArray[np.float64]:
        words = np.frombuffer(encoded.query.text.encode("utf-8", "replace"), dtype=np.uint8)
        return np.random.default_rng([seed, len(words), int(words.sum())]).random(len(view))

    return score


def _rrf(scores: NDArray[np.float64], among: NDArray[np.int64]) -> NDArray[np.float64]:
    """``1 / (60 + rank)`` for the nodes that are ranked, those without any score last."""
    out = np.zeros(len(scores))
    order = among[np.argsort(-scores[among], kind="stable")]
    out[order] = np.where(scores[order] != 0, 1.0 / (RRF_K + np.arange(1, len(order) + 1)), 0.0)
    return out


RANKERS: dict[str, Ranker] = {
    "random": by_chance(0),
    "success prior": by_success,
    "bm25": by_bm25,
    "dense": by_cosine,
    "bm25 + dense (rrf)": by_fusion,
    "bm25 + success prior": by_bm25_and_success,
    "seer": by_seer,
    "heuristic": by_similarity_and_utility,
}
"""Every ranker but the trained one, by the name it has in tables."""
