from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_schema.errors import ConfigError
from inference.evaluate.tau2.passk import interval, pass_gain, pass_hat_k, pass_table


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_is_the_share_of_all_successful_subsets(case: tuple[int, int, int]) -> None:
    runs, successes, k = case
    outcomes = [True] * successes + [False] * (runs - successes)
    subsets = list(itertools.combinations(outcomes, k))
    assert pass_hat_k(runs, successes, k) == pytest.approx(sum(map(all, subsets)) / len(subsets))


def test_is_what_the_package_computes() -> None:
    theirs = pytest.importorskip("tau2.metrics.agent_metrics").pass_hat_k
    assert all(pass_hat_k(4, c, k) == theirs(4, c, k) for c in range(5) for k in range(1, 5))


@pytest.mark.parametrize("case", [(4, 2, 5), (4, 2, 0), (4, 5, 1), (4, -1, 1)])
def test_impossible_counts_are_refused(case: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError):
        pass_hat_k(*case)


def test_table_and_gain_over_tasks() -> None:
    before = {"a": [True, True], "b": [True, False], "c": [False, False]}
    after = {"a": [True, True], "b": [True, True], "c": [True, False]}
    table = pass_table(before, resamples=200, seed=1)
    assert table[1].mean == pytest.approx(0.5) and table[2].mean == pytest.approx(1 / 3)
    assert 0 <= table[1].low < table[1].mean < table[1].high <= 1
    assert table == pass_table(before, resamples=200, seed=1)
    gain = pass_gain(before, after, resamples=200, seed=1)
    assert gain[1].mean == pytest.approx(1 / 3) and gain[2].mean == pytest.approx(1 / 3)
    with pytest.raises(ConfigError, match="same tasks"):
        pass_gain(before, {"a": [True, True]}, resamples=10, seed=1)
    with pytest.raises(ConfigError, match="no runs"):
        pass_table({}, resamples=10, seed=1)


def test_equal_values_have_no_width() -> None:
    assert interval([1.0, 1.0, 1.0], resamples=50, seed=0) == interval([1.0], resamples=50, seed=0)
    assert interval([0.25], resamples=50, seed=0).high == 0.25


def test_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    rng, hits = random.Random(0), 0
    for trial in range(100):
        sample = [float(rng.random() < 0.6) for _ in range(40)]
        found = interval(sample, resamples=300, seed=trial)
        hits += found.low <= 0.6 <= found.high
    assert 85 <= hits <= 100
