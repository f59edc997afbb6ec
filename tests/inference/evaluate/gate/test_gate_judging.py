from __future__ import annotations

from types import SimpleNamespace

from gate_runs import CANCEL, GATE, careful, hasty, run
from memory_shop import Chat

from fresh.gate import Verdict
from graph_schema import Outcome
from inference.evaluate.gate import Label, judge_runs
from inference.evaluate.gate.judging import format_of, violation_score
from inference.evaluate.gate.kinds import Sign


def test_the_result_of_a_call_is_not_known_to_the_gate():
    failing = Chat().read("#W111").agreed().call("cancel_order", CANCEL, "Error: no")
    (judged,) = judge_runs(GATE, [run("1", failing, [CANCEL])])
    assert judged.verdict is Verdict.ALLOW and not judged.accepted and judged.label is Label.WRONG


def test_runs_that_nobody_can_label_are_passed_over():
    assert judge_runs(GATE, [run("1", careful(), None, Outcome.FAILURE)]) == []


def test_a_held_write_bears_its_checks_its_score_and_its_signs():
    (judged,) = judge_runs(GATE, [run("1", hasty(), [CANCEL], Outcome.FAILURE)], fold=3)
    assert judged.held and "grounded" in judged.checks and judged.fold == 3 and judged.data == "made shop"
    assert 0.5 < judged.score <= 1 and Sign.UNGROUNDED in {mark.sign for mark in judged.marks}


def test_a_call_that_could_not_run_is_surely_wrong_and_any_other_as_the_conditions_it_breaks_say():
    schema = SimpleNamespace(check="schema", verdict=Verdict.REVISE)
    warning = SimpleNamespace(check="unknown_tool", verdict=Verdict.ALLOW)
    mined = SimpleNamespace(check="within", verdict=Verdict.REVISE)
    assert violation_score(SimpleNamespace(findings=(mined, schema)), 0.7) == 1.0
    assert violation_score(SimpleNamespace(findings=(mined, warning)), 0.7) == 0.7
    assert violation_score(SimpleNamespace(findings=()), 0.0) == 0.0


def test_the_domains_of_a_format_can_be_reported_together():
    assert format_of(run("1", careful(), [], attack="x")) == "made, under attack"
