from __future__ import annotations

import math
from typing import Any

import pytest
from gate_runs import CANCEL, GATE, careful, hasty, run
from memory_shop import make_graph
from rich.console import Console

from graph_schema import ConfigError, Outcome, Trajectory
from inference.evaluate.gate import cross_validate, evaluate_gate, read_runs
from inference.evaluate.gate.judging import data_set


def test_right_writes_pass_and_wrong_ones_are_held():
    runs = [run("1", careful(), [CANCEL]), run("2", hasty(), [CANCEL], Outcome.FAILURE)]
    (report,) = evaluate_gate(GATE, runs).reports
    assert (report.name, report.tasks) == ("made shop", 2)
    assert (report.passed_right.part, report.passed_right.whole) == (1, 1)
    assert (report.held_wrong.part, report.held_wrong.whole) == (1, 1)
    assert report.held_accepted.value == 1.0 and math.isnan(report.held_refused.value)
    assert (report.guards["grounded"].wrong, report.guards["grounded"].right) == (1, 0)


def test_runs_that_nobody_can_label_are_an_error():
    with pytest.raises(ConfigError, match="gold actions"):
        evaluate_gate(GATE, [run("1", careful(), None, Outcome.FAILURE)])
    with pytest.raises(ConfigError, match="gold actions"):
        cross_validate([run("1", careful(), None, Outcome.FAILURE)])


def test_cross_validation_mines_only_other_tasks_and_never_runs_under_attack():
    runs = [run(str(i), careful(), [CANCEL]) for i in range(6)]
    runs += [run("0", careful(), [CANCEL], attack="ask", attack_succeeded=False)]
    seen: list[list[Trajectory]] = []

    def miner(part: list[Trajectory]):
        seen.append(part)
        return make_graph()

    found = cross_validate(runs, count=3, miner=miner)
    assert len(seen) == 3 and all(len({t.task_id for t in part}) == 4 for part in seen)
    assert all(t.feedback.attack is None for part in seen for t in part)
    assert set.intersection(*({t.task_id for t in part} for part in seen)) == set()
    assert [(r.name, r.passed_right.whole) for r in found.reports] == [("made shop", 6), ("made shop, under attack", 1)]


def test_cross_validation_with_the_real_miner():
    runs = [run(str(i), careful(), [CANCEL]) for i in range(9)]
    runs += [run(str(i), hasty(), [CANCEL], Outcome.FAILURE) for i in range(9)]
    found = cross_validate(runs, count=3)
    (report,), (curve,) = found.reports, found.curves
    assert report.passed_right.value == 1.0 and report.held_wrong.value == 1.0
    assert curve.chosen is not None and curve.chosen.recall.value > 0.5 and curve.chosen.false_block.value == 0.0


def test_the_tables_print_and_the_values_are_plain():
    runs = [run("1", careful(), [CANCEL]), run("2", hasty(), [CANCEL], Outcome.FAILURE)]
    found = evaluate_gate(GATE, runs)
    console = Console(width=200, record=True)
    for table in found.tables():
        console.print(table)
    text = console.export_text()
    assert "made shop" in text and "arguments from nowhere" in text and "grounded" in text
    plain: dict[str, Any] = found.plain()
    assert plain["gate"][0]["kinds"]["arguments from nowhere"]["held"]["part"] == 1
    assert plain["transfer"]["unseen_calls"] == 0 and plain["curves"][0]["points"][0]["threshold"] is None


def test_attacked_runs_are_drawn_by_agent_and_those_that_succeeded_first(shared_data):
    paths = [shared_data / "agentdojo" / "claude-3-haiku-20240307.jsonl.gz"]
    none, some = read_runs(paths), read_runs(paths, attacked=20)
    assert len(none) == 88 and all(t.feedback.attack is None for t in none)
    drawn = [t for t in some if t.feedback.attack is not None]
    assert len(drawn) == 20 and all(t.feedback.attack_succeeded for t in drawn)
    assert [t.id for t in read_runs(paths, attacked=20)] == [t.id for t in some]
    assert {t.id for t in drawn} != {t.id for t in read_runs(paths, attacked=20, seed=1)}
    assert data_set(drawn[0]).endswith(", under attack")


def test_recorded_airline_runs_pass_their_right_writes(shared_data):
    runs = read_runs([shared_data / "tau-bench" / "airline-gpt-4o.jsonl.gz"])
    (report,) = cross_validate(runs, count=5, subject_arguments=("user_id",)).reports
    assert report.passed_right.whole > 50 and report.passed_right.value >= 0.97
    assert report.held_wrong.value > 0.1
    assert report.held_foreseeable.value > report.held_wrong.value
