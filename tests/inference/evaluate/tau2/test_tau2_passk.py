from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_schema.errors import ConfigError
from inference.evaluate.tau2.passk import feasible_counts, interval, pass_gain, pass_hat_k, pass_table


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


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_pass_hat_k_of_a_table_is_what_counting_subsets_gives(wins: list[int]) -> None:
    """Every choice of k runs of every task, counted one by one."""
    outcomes = {str(i): [True] * won + [False] * (4 - won) for i, won in enumerate(wins)}
    table = pass_table(outcomes, resamples=10, seed=0)
    for k in range(1, 5):
        drawn = [all(chosen) for runs in outcomes.values() for chosen in itertools.combinations(runs, k)]
        assert table[k].mean == pytest.approx(sum(drawn) / len(drawn))


def _pass_hats(counts: tuple[int, ...], tasks: int) -> list[float]:
    """pass^1 to pass^n from how many tasks were won n, ..., 1 times."""
    runs = len(counts)
    wins = [runs - i for i, count in enumerate(counts) for _ in range(count)]
    wins += [0] * (tasks - len(wins))
    return [sum(pass_hat_k(runs, won, k) for won in wins) / tasks for k in range(1, runs + 1)]


@pytest.mark.parametrize("digits", [2, 3])
def test_feasible_counts_are_those_that_a_search_of_all_finds(digits: int) -> None:
    tasks, every = 6, [c for c in itertools.product(range(7), repeat=3) if sum(c) <= 6]
    shown = {counts: [round(value, digits) for value in _pass_hats(counts, tasks)] for counts in every}
    for counts, values in shown.items():
        found = feasible_counts(values, tasks, digits=digits)
        assert counts in found
        exact = {
            other
            for other in every
            if all(abs(a - b) < 0.4 * 10**-digits for a, b in zip(_pass_hats(other, tasks), values, strict=True))
        }
        near = {
            other
            for other in every
            if all(abs(a - b) < 0.51 * 10**-digits for a, b in zip(_pass_hats(other, tasks), values, strict=True))
        }
        assert exact <= set(found) <= near


@given(st.lists(st.integers(0, 4), min_size=20, max_size=20))
def test_rounded_either_way_the_true_counts_are_feasible(wins: list[int]) -> None:
    counts = tuple(wins.count(won) for won in (4, 3, 2, 1))
    values = _pass_hats(counts, 20)
    up = [math.floor(value * 1000 + 0.5) / 1000 for value in values]
    assert counts in feasible_counts(up, 20) and counts in feasible_counts([round(value, 3) for value in values], 20)


def test_a_published_row_that_no_counts_give() -> None:
    assert feasible_counts([0.288, 0.117, 0.113, 0.100], 20) == []
    assert feasible_counts([0.488, 0.400, 0.363, 0.350], 20) == [(7, 1, 3, 2)]
    assert feasible_counts([0.5], 4) == [(2,)]


@pytest.mark.parametrize(("values", "tasks"), [([], 20), ([1.1], 20), ([-0.1, 0.0], 20), ([0.5], 0)])
def test_values_that_are_no_shares_are_refused(values: list[float], tasks: int) -> None:
    with pytest.raises(ConfigError):
        feasible_counts(values, tasks)
