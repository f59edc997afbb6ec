from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graph_schema.errors import ConfigError
from graph_schema.trajectory import Effect, Feedback, GoldAction
from inference.compare.closed_loop import (
    LoopRun,
    Matched,
    closed_loop,
    from_simulation,
    from_trajectory,
    gain,
    read_results,
)
from tests.compare_world import agent, call, run, user


def check(name: str, match: bool, requestor: str = "assistant") -> dict[str, Any]:
    return {"action": {"name": name, "arguments": {}, "requestor": requestor}, "action_match": match}


def simulation(**changes: Any) -> dict[str, Any]:
    messages = [
        {"role": "assistant", "content": "Hello!", "usage": None},
        {"role": "user", "content": "x", "usage": {"prompt_tokens": 7}},
        {"role": "assistant", "tool_calls": [], "usage": {"prompt_tokens": 100, "completion_tokens": 5}},
        {"role": "tool", "content": "{}"},
        {"role": "assistant", "content": "Done", "usage": {"prompt_tokens": 150}},
    ]
    checks = [check("get_x", True), check("get_x", False), check("cancel_x", True), check("calculate", True)]
    rewarded = {"reward": 1.0, "action_checks": [*checks, check("reboot_x", False, "user")]}
    return {"task_id": "4", "trial": 1, "messages": messages, "reward_info": rewarded} | changes


def loop(task: str, trial: int, reward: float, tokens: int | None = None, steps: int = 4) -> LoopRun:
    return LoopRun(task, trial, reward, Matched(1, 2), Matched(0, 0), steps, tokens)


def test_a_simulation_in_numbers() -> None:
    found = from_simulation(simulation())
    assert found == LoopRun("4", 1, 1.0, Matched(1, 2), Matched(1, 1), steps=2, prompt_tokens=250)
    given = from_simulation(simulation(), lambda tool: Effect.WRITE if tool == "calculate" else Effect.READ)
    assert given is not None and given.writes == Matched(1, 1) and given.reads == Matched(2, 3)


@pytest.mark.parametrize("rewarded", [None, {}, {"reward": None}, "x"])
def test_runs_that_were_not_evaluated_do_not_count(rewarded: Any) -> None:
    assert from_simulation(simulation(reward_info=rewarded)) is None


def test_odd_simulations_are_read() -> None:
    found = from_simulation(
        simulation(messages=[None, {"role": "user"}, {"role": "assistant", "usage": None}], trial=None)
    )
    assert found is not None and (found.steps, found.prompt_tokens, found.trial) == (1, None, 0)
    bare = from_simulation(simulation(reward_info={"reward": 0, "action_checks": None}))
    assert bare is not None and bare.reads == bare.writes == Matched(0, 0) and not bare.succeeded


def test_results_files(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"info": {}, "tasks": [], "simulations": [simulation(), simulation(reward_info=None)]}))
    assert read_results(path) == [from_simulation(simulation())]
    path.write_text(json.dumps({"simulations": []}))
    with pytest.raises(ConfigError, match="no evaluated simulation"):
        read_results(path)
    with pytest.raises(ConfigError, match="there is no results file"):
        read_results(tmp_path / "nowhere.json")


def test_a_trajectory_in_numbers() -> None:
    made = run(
        agent(text="Hello!"),
        user("x"),
        agent(call("get_x", a="1"), call("cancel_x", "Error: no", error=True, a="1")),
        agent(text="Done"),
        gold=[
            GoldAction(tool="get_x", arguments={"a": "1"}),
            GoldAction(tool="cancel_x", arguments={"a": "1"}),
            GoldAction(tool="reboot_x", arguments={}, by_user=True),
        ],
        feedback=Feedback(reward=0.0),
        trial=2,
    )
    found = from_trajectory(made)
    assert found == LoopRun(made.task_key, 2, 0.0, Matched(1, 1), Matched(0, 1), steps=2)
    assert from_trajectory(run(user("x"), gold=[])) is None
    assert from_trajectory(run(user("x"), feedback=Feedback(reward=1.0))) is None


def test_measures_are_means_over_tasks() -> None:
    runs = [loop("a", 0, 1.0, 100, 2), loop("a", 1, 1.0, 200, 4), loop("b", 0, 0.0, None, 9), loop("b", 1, 1.0)]
    found = closed_loop(runs, resamples=100)
    assert found.pass_hat[1].mean == pytest.approx(0.75) and found.pass_hat[2].mean == pytest.approx(0.5)
    assert found.read_accuracy is not None and found.read_accuracy.mean == 0.5 and found.write_accuracy is None
    assert found.steps is not None and found.steps.mean == pytest.approx((3 + 6.5) / 2)
    assert found.prompt_tokens is not None and found.prompt_tokens.mean == 150
    assert (found.tasks, found.runs) == (2, 4)


def test_gains_are_paired_by_task() -> None:
    before = [loop("a", 0, 0.0), loop("b", 0, 1.0)]
    after = [loop("b", 0, 1.0), loop("a", 0, 1.0)]
    assert gain(before, after, resamples=100)[1].mean == 0.5
    with pytest.raises(ConfigError, match="same tasks"):
        gain(before, after[:1])
    with pytest.raises(ConfigError, match="task a has trial 0 twice"):
        closed_loop([*before, *before])
    with pytest.raises(ConfigError, match="no runs"):
        closed_loop([])
