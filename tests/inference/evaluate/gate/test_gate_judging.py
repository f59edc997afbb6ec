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


def test_a_calibrated_score_counts_before_the_surest_finding():
    findings = (SimpleNamespace(confidence=0.4), SimpleNamespace(confidence=0.9))
    assert violation_score(SimpleNamespace(findings=findings)) == 0.9
    assert violation_score(SimpleNamespace(findings=findings, score=0.25)) == 0.25
    assert violation_score(SimpleNamespace(findings=(), score=None)) == 0.0


def test_the_domains_of_a_format_can_be_reported_together():
    assert format_of(run("1", careful(), [], attack="x")) == "made, under attack"
