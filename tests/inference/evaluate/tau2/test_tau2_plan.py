from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("tau2", reason="the tau2 extra is not installed")

from graph_schema.trajectory import Effect
from inference.evaluate.tau2.environment import Domain
from inference.evaluate.tau2.plan import Call, TaskPlan, first_person, plan_task
from inference.evaluate.tau2.settings import Settings
from inference.evaluate.tau2.values import Knowledge, is_reference, leaves


def test_without_errors_every_task_succeeds(domain: Domain, run_all) -> None:
    for split in ("train", "test"):
        plans = [plan_task(domain, task) for task in domain.tasks(split)]
        assert [item.plan.task.id for item in run_all(domain, plans, Settings()) if not item.succeeded] == []


def test_every_reference_is_known_before_it_is_written(domain: Domain, plans: list[TaskPlan]) -> None:
    written, from_nowhere = 0, []
    for plan in plans:
        knowledge = Knowledge()
        knowledge.tell(f"{plan.request} {plan.details}")
        for step in plan.steps:
            for read in step.reads:
                knowledge.seen |= read.shows
            for _, leaf in leaves(step.write.arguments if step.write else {}):
                if is_reference(leaf):
                    written += 1
                    from_nowhere += [] if knowledge.knows(leaf) else [(plan.task.id, leaf)]
    assert written > 50
    assert from_nowhere == []


def test_plans_hold_the_gold_writes_in_order_and_reads_do_not_write(domain: Domain, plans: list[TaskPlan]) -> None:
    for plan in plans:
        gold = [
            Call(action.name, action.arguments)
            for action in plan.task.evaluation_criteria.actions or []
            if domain.effects.get(action.name) is Effect.WRITE
        ]
        assert [step.write for step in plan.steps if step.write] == gold
        for step in plan.steps:
            effects = Counter(domain.effects[read.call.tool] for read in step.reads)
            assert not effects[Effect.WRITE]
            calls = [str(read.call) for read in step.reads]
            assert len(calls) == len(set(calls))


def test_the_objects_that_a_write_names_are_read_first(domain: Domain, plans: list[TaskPlan]) -> None:
    """By parameter name: a read whose only parameter is one of the write's is among the step's reads."""
    readers = {
        names[0]: tool
        for tool, names in domain.required.items()
        if domain.effects[tool] is Effect.READ and len(names) == 1
    }
    checked = 0
    for plan in plans:
        for step in plan.steps:
            if step.write is None or not step.works:
                continue
            for name in readers.keys() & step.write.arguments.keys():
                checked += 1
                wanted = Call(readers[name], {name: step.write.arguments[name]})
                assert any(read.call.same_as(wanted) for read in step.reads), (plan.task.id, wanted)
    assert checked > 20


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        ("You want to return your order.", "I want to return my order."),
        ("you are Ada; your id is ada_1. you live here.", "I am Ada; my id is ada_1. I live here."),
        ("", ""),
    ],
)
def test_first_person(scenario: str, said: str) -> None:
    assert first_person(scenario) == said
