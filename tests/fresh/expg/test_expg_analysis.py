import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.expg.analysis import (
    align,
    analyse,
    class_balanced,
    div,
    instance_balanced,
    mixture_bounds,
    picture,
    population,
    table,
)
from graph_schema.errors import ConfigError

FREQUENCIES = st.lists(st.integers(1, 1000), min_size=1, max_size=30).map(lambda n: np.array(n) / sum(n))
SIZES = st.lists(st.integers(1, 30), min_size=1, max_size=15)


def test_align_and_div_by_hand() -> None:
    assert align([0.5, 0.5], [0.5, 0.5]) == 0
    assert math.isclose(align([1, 0], [0.5, 0.5]), -math.log(2))
    assert math.isclose(align([0.5, 0.5], [0.75, 0.25]), -(0.5 * math.log(2 / 3) + 0.5 * math.log(2)))
    assert align([0.5, 0.5], [1, 0]) == -math.inf
    assert div([1, 0]) == 0
    assert math.isclose(div([0.25] * 4), math.log(4))


@given(FREQUENCIES, st.floats(0, 1))
def test_both_bounds_hold_for_the_ideal_mixture(p: np.ndarray, alpha: float) -> None:
    bounds = mixture_bounds(p, alpha)
    uniform = [1 / len(p)] * len(p)
    assert bounds.hold
    assert math.isclose(bounds.align_bound, alpha * align(uniform, p), abs_tol=1e-12)
    assert math.isclose(bounds.div_bound, alpha * math.log(len(p)) + (1 - alpha) * div(p), abs_tol=1e-12)


def test_bounds_can_fail() -> None:
    bounds = mixture_bounds([0.9, 0.1], 0.5)
    assert not bounds._replace(align=bounds.align_bound - 0.01).hold
    assert not bounds._replace(div=bounds.div_bound - 0.01).hold
    with pytest.raises(ConfigError):
        mixture_bounds([1.0, 0.0], 0.5)


@given(SIZES, st.integers(1, 200), st.integers(0, 5))
def test_both_baselines_take_the_quota_and_no_more_than_there_is(sizes: list[int], quota: int, seed: int) -> None:
    for method in (instance_balanced, class_balanced):
        taken = method(sizes, quota, seed)
        assert sum(taken) == min(quota, sum(sizes))
        assert all(0 <= a <= n for a, n in zip(taken, sizes, strict=True))
    even = class_balanced(sizes, quota, seed)
    open_classes = [a for a, n in zip(even, sizes, strict=True) if a < n]
    assert not open_classes or max(even) - min(open_classes) <= 1


def test_population_has_a_large_perfect_class_and_a_tail() -> None:
    sizes = population(10, 1000, np.random.default_rng(3))
    assert sum(sizes) == 1000
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 300 and sizes[-1] == 1


def test_algorithm_1_lies_between_the_two_baselines() -> None:
    (row,) = analyse([10], [0.3], n=1000, seeds=4)
    assert row.align["class"] < row.align["algorithm1"] <= 0
    assert row.div["instance"] < row.div["algorithm1"] <= row.div["class"]
    assert len(row.bounds) == 4 and all(b.hold for b in row.bounds)


def test_whole_grid_as_table_and_picture(tmp_path: Path) -> None:
    rows = analyse(n=200, seeds=1)
    assert [(r.d, r.ratio) for r in rows] == [
        (d, r) for d in (4, 10, 16) for r in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    ]
    assert table(rows).row_count == 27
    pytest.importorskip("matplotlib")
    picture(rows, tmp_path / "analysis.png")
    assert (tmp_path / "analysis.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConfigError, match="cannot draw"):
        picture(rows, tmp_path / "analysis.nonsense")
    assert [p.name for p in tmp_path.iterdir()] == ["analysis.png"]
