from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.retrieval.metrics import bootstrap, mean_by_task, ndcg, ranked, recall, reciprocal_rank


def test_ndcg_by_hand() -> None:
    grades = np.array([0.0, 2.0, 1.0])
    worst = ndcg(grades, np.array([0, 2, 1]))
    best = 3 + 1 / np.log2(3)
    assert worst == pytest.approx((1 / np.log2(3) + 3 / 2) / best)
    assert ndcg(grades, np.array([1, 2, 0])) == pytest.approx(1.0)
    assert ndcg(grades, np.array([0, 1, 2]), k=1) == 0.0
    assert ndcg(np.zeros(3), np.arange(3)) == 0.0


def test_recall_and_reciprocal_rank_by_hand() -> None:
    grades = np.array([0.0, 2.0, 1.0, 0.0])
    order = np.array([0, 1, 3, 2])
    assert recall(grades, order, k=2) == 0.5
    assert recall(np.ones(20), np.arange(20), k=10) == 1.0, "no more than k can be found"
    assert reciprocal_rank(grades, order) == 0.5
    assert reciprocal_rank(grades, order, k=1) == 0.0


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_metrics_are_bounded_and_the_ideal_order_is_best(values: list[float], rng: object) -> None:
    grades = np.array(values)
    order = np.array(rng.sample(range(len(values)), len(values)))  # type: ignore[attr-defined]
    for metric in (ndcg, recall, reciprocal_rank):
        ideal = metric(grades, np.argsort(-grades, kind="stable"))
        assert 0 <= metric(grades, order) <= ideal + 1e-12 <= 1 + 1e-9
        assert ideal == pytest.approx(1.0 if grades.any() else 0.0)


def test_ties_are_broken_at_random_but_repeatably() -> None:
    scores = np.array([1.0, 0.0, 0.0, 0.0, 2.0])
    first = ranked(scores, seed=1)
    assert list(first[:2]) == [4, 0] and (ranked(scores, seed=1) == first).all()
    assert len({tuple(ranked(scores, seed=s)) for s in range(20)}) > 1


def test_bootstrap_resamples_clusters() -> None:
    values = {f"t{i}": float(i % 2) for i in range(40)}
    alone = bootstrap(values)
    assert alone.mean == 0.5 and alone.low < 0.5 < alone.high
    together = bootstrap(values, {task: int(task[1:]) % 2 for task in values})
    assert together.high - together.low > alone.high - alone.low
    assert bootstrap(values) == alone


def test_mean_by_task() -> None:
    assert mean_by_task([1.0, 0.0, 1.0], ["a", "a", "b"]) == {"a": 0.5, "b": 1.0}
