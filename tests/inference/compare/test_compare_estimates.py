from __future__ import annotations

import numpy as np
import pytest

from fresh.retrieval.metrics import bootstrap
from inference.compare.estimates import MEASURES, differences, estimates
from inference.compare.measures import NextTool, RunScore


def score(task: str, group: int, f1: float | None, **counts: int) -> RunScore:
    own = {"points": 4, "harmful": 0, "failures": 0, "foreseen": 0, "claims": 0, "borne": 0} | counts
    return RunScore(task=task, group=group, next=() if f1 is None else (NextTool(f1, f1, f1),), **own)


def test_every_task_weighs_the_same_however_many_runs_it_has() -> None:
    scores = [score("a", 0, 1.0), score("a", 0, 0.0), score("a", 0, 0.5), score("b", 1, 0.0), score("c", 2, None)]
    found = estimates(scores, 0)["next_f1"]
    assert found is not None and found.mean == pytest.approx(0.25) and found.low <= 0.25 <= found.high


def test_ratios_are_of_sums_over_tasks() -> None:
    scores = [
        score("a", 0, 0.0, failures=2, foreseen=1, claims=2, borne=2, harmful=1),
        score("a", 0, 0.0),
        score("b", 1, 0.0, failures=1, foreseen=1, claims=3, borne=0, harmful=2),
        score("c", 2, 0.0),
    ]
    found = {name: own.mean for name, own in estimates(scores, 0).items() if own}
    recall, precision = (0.5 + 1) / (1 + 1), 1 / (1 + 3)
    assert found["foreseen_recall"] == pytest.approx(recall)
    assert found["false_warnings"] == pytest.approx(1 - precision)
    assert found["foreseen_f1"] == pytest.approx(2 * recall * precision / (recall + precision))
    assert found["harm"] == pytest.approx((1 / 8 + 2 / 4 + 0) / 3)


def test_what_was_never_counted_has_no_value() -> None:
    found = estimates([score("a", 0, None)], 0)
    assert {name for name, own in found.items() if own is None} == set(MEASURES) - {"harm"}
    warned = estimates([score("a", 0, None, failures=1)], 0)
    assert warned["false_warnings"] is None and warned["foreseen_f1"] is not None
    assert warned["foreseen_f1"].mean == 0.0
    assert estimates([score("a", 0, None, points=0)], 0)["harm"] is None


def test_intervals_agree_with_a_plain_bootstrap_over_groups() -> None:
    rng = np.random.default_rng(0)
    values = {f"t{i}": float(v) for i, v in enumerate(rng.random(40))}
    groups = {task: i // 2 for i, task in enumerate(values)}
    found = estimates([score(task, groups[task], value) for task, value in values.items()], 3)["next_f1"]
    plain = bootstrap(dict(values), dict(groups), seed=5)
    assert found is not None and found.mean == pytest.approx(plain.mean)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), abs=0.02)


def test_groups_are_drawn_together() -> None:
    together = estimates([score(f"t{i}", 0, float(i)) for i in range(5)], 0)["next_f1"]
    assert together is not None and together.low == together.high == 2.0


def test_differences_are_paired_by_task() -> None:
    left = [score(f"t{i}", i, i / 20 + 0.1) for i in range(10)]
    right = [score(f"t{i}", i, i / 20) for i in range(10)]
    apart = differences(left, right, 0)["next_f1"]
    assert apart is not None
    assert (apart.mean, apart.low, apart.high) == pytest.approx((0.1, 0.1, 0.1))  # the spread of the tasks cancels
    assert differences(left, right, 0) == differences(left, right, 0)
    with pytest.raises(ValueError, match="same tasks"):
        differences(left, right[1:], 0)
