from __future__ import annotations

import math

from inference.evaluate.gate.rates import rate


def test_the_interval_is_over_tasks_and_repeats():
    spread = [(f"t{i}", i > 0) for i in range(10)]
    found = rate(spread, seed=1)
    assert found.value == 0.9 and found.low < 0.9 < found.high <= 1.0
    assert rate(spread, seed=1) == found
    one_task = rate([("t", i > 0) for i in range(10)])
    assert one_task.low == one_task.high == 0.9
    assert str(one_task) == "90.0% [90.0%, 90.0%] of 10"


def test_nothing_counted_is_no_share():
    none = rate([])
    assert math.isnan(none.value) and none.plain() is None and str(none) == "-"
