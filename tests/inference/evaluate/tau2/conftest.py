"""Fixtures of the closed loop: the real environments, gold plans, and gates made for a test."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from inference.evaluate.tau2.environment import Domain, load_domain
from inference.evaluate.tau2.executor import Executor, Gate
from inference.evaluate.tau2.faults import FaultMaker
from inference.evaluate.tau2.plan import TaskPlan, plan_task
from inference.evaluate.tau2.record import ScoredRun
from inference.evaluate.tau2.settings import Settings

RunAll = Callable[..., list[ScoredRun]]


@pytest.fixture(scope="session", params=["airline", "retail", "telecom"])
def domain(request: pytest.FixtureRequest) -> Domain:
    pytest.importorskip("tau2", reason="the tau2 extra is not installed")
    return load_domain(request.param)


@pytest.fixture(scope="session")
def plans(domain: Domain) -> list[TaskPlan]:
    return [plan_task(domain, task) for task in domain.tasks("test")]


@pytest.fixture(scope="session")
def run_all() -> RunAll:
    """Runs and scores each plan once."""

    def run(
        domain: Domain, plans: list[TaskPlan], settings: Settings, gate: Gate | None = None, trial: int = 0
    ) -> list[ScoredRun]:
        faults = FaultMaker(domain, settings)
        done = []
        for plan in plans:
            finished = Executor(domain, plan, faults, settings, trial, gate).run()
            reward = domain.evaluate(plan.task, finished.conversation.messages)
            done.append(ScoredRun(plan, finished, reward))
        return done

    return run


class FakeGate:
    """Judges writes by a function of the call and the messages; everything else passes."""

    def __init__(self, judge: Callable[[dict[str, Any], list[dict[str, Any]]], Any]) -> None:
        self.judge = judge
        self.asked: list[dict[str, Any]] = []

    def gate(self, tool_call: Any, messages: Any, *, tools: Any = None) -> Any:
        hints = {t["function"]["name"]: t["function"]["annotations"]["readOnlyHint"] for t in tools}
        if hints[tool_call["function"]["name"]]:
            return SimpleNamespace(verdict="allow", reason="", todo=())
        self.asked.append(tool_call)
        return self.judge(tool_call, list(messages))


@pytest.fixture(scope="session")
def fake_gate() -> type[FakeGate]:
    return FakeGate


@pytest.fixture(scope="session")
def decide() -> Callable[..., SimpleNamespace]:
    """Builds a decision: a verdict, and todo items as keyword dicts."""

    def build(verdict: str, *todo: dict[str, Any]) -> SimpleNamespace:
        return SimpleNamespace(verdict=verdict, reason="", todo=tuple(SimpleNamespace(**item) for item in todo))

    return build
