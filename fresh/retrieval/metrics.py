"""Ranking metrics over graded relevance, and how sure one can be of their means."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def ranked(scores: NDArray[np.floating], seed: int = 0) -> NDArray[np.int64]:
    """Positions by falling score; equal scores in random order, so that no ranker gains by the order of storage."""
    shuffled = np.random.default_rng(seed).permutation(len(scores))
    return shuffled[np.argsort(-scores[shuffled], kind="stable")]


def ndcg(grades: NDArray[np.floating], order: NDArray[np.int64], k: int = 10) -> float:
    """Normalised discounted cumulative gain of the first k, gain ``2^grade - 1``; 0 where nothing is relevant.

    Source: Burges et al., "Learning to Rank using Gradient Descent" (2005), section 6.
    """
    gains = np.exp2(grades) - 1
    discount = 1 / np.log2(np.arange(2, min(k, len(grades)) + 2))
    best = float(np.sort(gains)[::-1][:k] @ discount)
    return float(gains[order[:k]] @ discount) / best if best > 0 else 0.0


def recall(grades: NDArray[np.floating], order: NDArray[np.int64], k: int = 10) -> float:
    """Share of the relevant that stand among the first k, of as many as could; 0 where nothing is relevant."""
    relevant = int((grades > 0).sum())
    return float((grades[order[:k]] > 0).sum()) / min(relevant, k) if relevant else 0.0


def reciprocal_rank(grades: NDArray[np.floating], order: NDArray[np.int64], k: int = 10) -> float:
    """``1 / rank`` of the first relevant one among the first k, else 0."""
    hits = np.flatnonzero(grades[order[:k]] > 0)
    return 1.0 / (int(hits[0]) + 1) if len(hits) else 0.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its bootstrap interval."""

    mean: float
    low: float
    high: float


def mean_by_task(values: Sequence[float], tasks: Sequence[Hashable]) -> dict[Hashable, float]:
    """Mean of the values within each task."""
    found: dict[Hashable, list[float]] = {}
    for value, task in zip(values, tasks, strict=True):
        found.setdefault(task, []).append(value)
    return {task: float(np.mean(own)) for task, own in found.items()}


def bootstrap(
    by_task: Mapping[Hashable, float],
    clusters: Mapping[Hashable, Hashable] | None = None,
    samples: int = 2_000,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """Mean over tasks with a percentile bootstrap interval.

    Args:
        by_task: Value of each task, at least one.
        clusters: What is drawn together: tasks of one customer are not independent. Each task alone when None.
        samples: Number of resamples.
        level: Coverage.
        seed: Of the resampling.
    """
    tasks = sorted(by_task, key=str)
    values = np.array([by_task[task] for task in tasks])
    names = [str((clusters or {}).get(task, task)) for task in tasks]
    _, cluster = np.unique(names, return_inverse=True)
    count = int(cluster.max()) + 1
    total = np.bincount(cluster, weights=values, minlength=count)
    size = np.bincount(cluster, minlength=count)
    drawn = np.random.default_rng(seed).integers(count, size=(samples, count))
    means = total[drawn].sum(axis=1) / size[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(values.mean()), float(low), float(high))
