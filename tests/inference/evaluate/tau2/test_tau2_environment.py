from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tau2", reason="the tau2 extra is not installed")

from graph_schema.errors import ConfigError
from graph_schema.trajectory import Effect
from inference.evaluate.tau2.environment import CopyOnRead, Domain, load_domain
from inference.evaluate.tau2.plan import Call, TaskPlan, execute
from inference.evaluate.tau2.settings import ErrorKind, Settings

EVERY_KIND = Settings(rates=dict.fromkeys(ErrorKind, 0.25), recovery=0.5)


def test_the_official_splits_are_disjoint_and_whole() -> None:
    sizes = {"airline": (30, 20), "retail": (74, 40), "telecom": (74, 40)}
    for name, (train, test) in sizes.items():
        tasks = {split: {task.id for task in load_domain(name).tasks(split)} for split in ("train", "test")}
        assert (len(tasks["train"]), len(tasks["test"])) == (train, test)
        assert not tasks["train"] & tasks["test"]


def test_unknown_names_are_told_apart(domain: Domain) -> None:
    with pytest.raises(ConfigError, match="choose from airline, retail, telecom"):
        load_domain("banking")
    with pytest.raises(ConfigError, match="has no split 'dev'"):
        domain.tasks("dev")
    with pytest.raises(ConfigError, match="solo"):
        domain.environment(solo_mode=True)


def test_effects_follow_the_domain(domain: Domain) -> None:
    assert {Effect.READ, Effect.WRITE, Effect.OTHER} == set(domain.effects.values())
    for tool in domain.tools:
        writes = domain.effects[tool["function"]["name"]] is Effect.WRITE
        assert tool["function"]["annotations"]["readOnlyHint"] is not writes


def test_runs_leave_the_shared_database_alone(domain: Domain, plans: list[TaskPlan], run_all) -> None:
    before = {name: dict(records) for name, records in domain.records.items()}
    pristine = domain.state(domain.environment())
    run_all(domain, plans, EVERY_KIND)
    now = {
        name: [
            record.model_dump(mode="json") for record in (dict(found).values() if isinstance(found, dict) else found)
        ]
        for name, found in domain.environment().tools.db
        if isinstance(found, dict | list)
    }
    assert now == {name: list(records.values()) for name, records in before.items()}
    assert domain.state(domain.environment()) == pristine


def test_scores_are_those_of_the_packages_own_environment(domain: Domain, plans: list[TaskPlan], run_all) -> None:
    """The shared database against a freshly loaded one, whole-database hashes and all."""
    import importlib

    from tau2.evaluator.evaluator_env import EnvironmentEvaluator

    stock = importlib.import_module(f"tau2.domains.{domain.name}.environment").get_environment
    with_writes = [plan for plan in plans if any(step.write for step in plan.steps)][:4]
    rewards = []
    for item in run_all(domain, with_writes, EVERY_KIND):
        theirs = EnvironmentEvaluator.calculate_reward(stock, item.plan.task, item.run.conversation.messages)
        assert theirs.db_check == item.reward.db_check
        rewards.append(theirs.reward)
    assert 0.0 in rewards


def test_a_fork_goes_its_own_way(domain: Domain, plans: list[TaskPlan]) -> None:
    plan, step = next((plan, step) for plan in plans for step in plan.steps if step.write and step.works)
    environment = domain.environment(plan.task)
    fork = domain.fork(environment)
    untouched = environment.get_db_hash()
    assert fork.get_db_hash() == untouched
    assert execute(fork, step.write) is not None
    assert fork.get_db_hash() != untouched
    assert environment.get_db_hash() == untouched
    assert domain.fork(fork).get_db_hash() == fork.get_db_hash()
    assert execute(domain.environment(plan.task), step.write) is not None


def test_a_task_begins_in_its_own_state() -> None:
    domain = load_domain("telecom")
    task = next(task for task in domain.tasks("test") if task.initial_state.initialization_actions)
    start = domain.state(domain.environment(task))
    assert start != domain.state(domain.environment()) and start == domain.state(domain.environment(task))


def test_records_kept_in_a_list_are_known_by_their_own_identifier() -> None:
    domain = load_domain("telecom")
    assert {"customers", "lines", "bills"} <= domain.records.keys()
    assert all(record["line_id"] == key for key, record in domain.records["lines"].items())


def test_a_refused_call_changes_nothing(domain: Domain) -> None:
    environment = domain.environment()
    before = environment.get_db_hash()
    assert execute(environment, Call("no_such_tool", {})) is None
    assert environment.get_db_hash() == before


class _Record:
    def __init__(self, value: int) -> None:
        self.value = value

    def model_dump(self) -> dict[str, int]:
        return {"value": self.value}


def test_copy_on_read_keeps_additions_and_removals() -> None:
    base = {"a": _Record(1), "b": _Record(2), "c": _Record(3)}
    records = CopyOnRead(base)
    records["a"].value = 10
    assert records.get("b").value == 2 and records.get("z") is None
    records["d"] = _Record(4)
    del records["c"]
    assert base["a"].value == 1 and "c" in base and "d" not in base
    fork = records.fork()
    changes = {"a": '{"value": 10}', "c": "null", "d": '{"value": 4}'}
    assert dict(records.changes()) == dict(fork.changes()) == changes
    fork["a"].value = 1
    fork["d"].value = 5
    assert dict(fork.changes()) == {"c": "null", "d": '{"value": 5}'}
    assert dict(records.changes()) == changes


OFFLINE = """
import socket, sys
def refuse(*args, **kwargs): raise OSError("the network is off")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from inference.evaluate.tau2.record import record_runs
from inference.evaluate.tau2.settings import Settings
from pathlib import Path
done = record_runs("airline", "test", Path(sys.argv[1]), Settings(record_trials=1))
assert done.runs == done.successes == 20, done
heavy = {"litellm", "openai", "torch"} & set(sys.modules)
assert not heavy, heavy
"""


def test_recording_needs_no_network_and_no_model_client(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, str(tmp_path / "runs.json")],
        capture_output=True,
        text=True,
        cwd=Path.cwd(),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr and "DEBUG" not in done.stderr  # the package's own logging is off
