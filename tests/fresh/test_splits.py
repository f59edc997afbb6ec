from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.splits import folds, task_groups
from graph_schema.errors import ConfigError
from graph_schema.trajectory import GoldAction, Trajectory
from tests.retrieval_world import run


def of_task(number: int, task: str, **changes: object) -> Trajectory:
    return run(number, "pay_fine").model_copy(update={"task_id": task, **changes})


def test_runs_of_a_task_stay_together() -> None:
    assert task_groups([of_task(0, "a"), of_task(1, "b"), of_task(2, "a")]) == [0, 1, 0]


def test_subjects_join_tasks_along_chains() -> None:
    runs = [
        of_task(0, "a", subject="Ann"),
        of_task(1, "b", subject="ann "),
        of_task(2, "b", subject="Bob"),
        of_task(3, "c", subject="bob"),
        of_task(4, "d"),
    ]
    assert task_groups(runs) == [0, 0, 0, 0, 1]


def test_arguments_name_subjects_across_formats() -> None:
    gold = (GoldAction(tool="look_up", arguments={"customer": {"id": 7}, "customer_id": "K7"}),)
    runs = [of_task(0, "a", gold=gold), of_task(1, "b", gold=gold, format="other"), of_task(2, "c")]
    assert task_groups(runs) == [0, 1, 2]
    assert task_groups(runs, ["customer_id"]) == [0, 0, 1]


def test_the_solution_outranks_a_call_made_by_mistake() -> None:
    gold = (GoldAction(tool="find_member", arguments={"card": "C5"}),)
    runs = [of_task(0, "a", gold=gold), of_task(0, "b", gold=None)]  # the second's own calls pass card C077
    third = of_task(1, "c", gold=(GoldAction(tool="find_member", arguments={"card": "C077"}),))
    assert task_groups([*runs, third], ["card"]) == [0, 1, 1]


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.integers(2, 5), st.integers(0, 3))
def test_folds_never_cut_a_group_and_are_all_used(groups: list[int], count: int, seed: int) -> None:
    if len(set(groups)) < count:
        with pytest.raises(ConfigError, match="folds need"):
            folds(groups, count, seed)
        return
    part = folds(groups, count, seed)
    assert set(part) == set(range(count))
    assert all(part[i] == part[j] for i in range(len(groups)) for j in range(i) if groups[i] == groups[j])


def test_folds_repeat_and_vary_with_the_seed() -> None:
    groups = list(range(30))
    assert folds(groups, 5, 1) == folds(groups, 5, 1) != folds(groups, 5, 2)
    sizes = [folds(groups, 5, 1).count(i) for i in range(5)]
    assert max(sizes) == min(sizes) == 6
