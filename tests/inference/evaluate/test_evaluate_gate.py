from __future__ import annotations

import math

import pytest
from memory_shop import Chat, make_graph

from fresh.gate import Gate, Verdict
from fresh.knowledge import ToolIndex
from fresh.traces.messages import parse_messages
from graph_schema import ConfigError, Feedback, GoldAction, Outcome, Source, Trajectory
from inference.evaluate.gate import Judged, cross_validate, evaluate_gate, gate_table, judge_runs, summarise

CANCEL = {"order_id": "#W111", "reason": "mistake"}
GATE = Gate(ToolIndex(make_graph()))


def run(task: str, chat: Chat, gold: list[dict] | None, outcome: Outcome = Outcome.SUCCESS) -> Trajectory:
    return Trajectory(
        id=f"{task}-{len(chat.messages)}-{outcome}",
        source=Source(file="made", record=0),
        format="made",
        domain="shop",
        task_id=task,
        request="",
        turns=parse_messages(chat.messages),
        feedback=Feedback(outcome=outcome),
        gold=None if gold is None else tuple(GoldAction(tool="cancel_order", arguments=g) for g in gold),
    )


def careful() -> Chat:
    return Chat().read("#W111").agreed().call("cancel_order", CANCEL, "{}")


def hasty() -> Chat:
    return Chat().call("cancel_order", CANCEL | {"order_id": "#W999"}, "{}")


def test_gold_writes_pass_and_others_are_held():
    report = evaluate_gate(GATE, [run("1", careful(), [CANCEL]), run("2", hasty(), [CANCEL])], name="made")
    assert (report.passed_gold.part, report.passed_gold.whole) == (1, 1)
    assert (report.held_other.part, report.held_other.whole) == (1, 1)
    assert report.held_accepted.value == 1.0 and math.isnan(report.held_failed.value)
    assert report.checks["grounded"] == (0, 1) and report.runs == 2 and report.tasks == 2


def test_a_gold_write_made_a_second_time_is_no_gold_write():
    again = careful().call("cancel_order", CANCEL, "{}")
    assert [j.gold for j in judge_runs(GATE, [run("1", again, [CANCEL])])] == [True, False]
    assert [j.gold for j in judge_runs(GATE, [run("1", again, [CANCEL, CANCEL])])] == [True, True]


def test_the_result_of_a_call_is_not_known_to_the_gate():
    failing = Chat().read("#W111").agreed().call("cancel_order", CANCEL, "Error: no")
    (judged,) = judge_runs(GATE, [run("1", failing, [CANCEL])])
    assert judged.verdict is Verdict.ALLOW and not judged.accepted


def test_runs_without_gold_are_passed_over_and_none_at_all_is_an_error():
    assert judge_runs(GATE, [run("1", careful(), None)]) == []
    with pytest.raises(ConfigError, match="gold actions"):
        evaluate_gate(GATE, [run("1", careful(), None)])
    with pytest.raises(ConfigError, match="gold actions"):
        cross_validate([run("1", careful(), None)])


def test_the_interval_is_over_tasks_and_repeats():
    verdicts = [Verdict.ALLOW] * 9 + [Verdict.REVISE]
    spread = [Judged(f"t{i}", "d", "w", True, True, v, ()) for i, v in enumerate(verdicts)]
    one_task = [Judged("t", "d", "w", True, True, v, ()) for v in verdicts]
    rate = summarise(spread, "x", seed=1).passed_gold
    assert rate.value == 0.9 and rate.low < 0.9 < rate.high <= 1.0
    assert summarise(spread, "x", seed=1).plain() == summarise(spread, "x", seed=1).plain()
    single = summarise(one_task, "x").passed_gold
    assert single.low == single.high == 0.9


def test_cross_validation_mines_only_other_tasks():
    runs = [run(str(i), careful(), [CANCEL]) for i in range(6)]
    seen: list[set[str]] = []

    def miner(part: list[Trajectory]):
        seen.append({t.task_id for t in part})
        return make_graph()

    report = cross_validate(runs, count=3, miner=miner, name="made")
    assert len(seen) == 3 and all(len(part) == 4 for part in seen)
    assert set.intersection(*seen) == set() and report.passed_gold.whole == 6


def test_cross_validation_with_the_real_miner():
    runs = [run(str(i), careful(), [CANCEL]) for i in range(9)] + [
        run(str(i), hasty(), [CANCEL], Outcome.FAILURE) for i in range(9)
    ]
    report = cross_validate(runs, count=3)
    assert report.passed_gold.value == 1.0 and report.held_other.value == 1.0


def test_the_report_prints_and_is_plain():
    report = evaluate_gate(GATE, [run("1", careful(), [CANCEL])], name="made")
    plain = report.plain()
    assert plain["passed_gold"]["value"] == 1.0 and plain["held_other"] is None
    table = gate_table([report])
    assert list(table.columns[0].cells) == ["made"] and "of 1" in next(iter(table.columns[1].cells))


def test_recorded_airline_runs_pass_their_gold_writes(shared_data):
    from fresh.traces import TraceReader

    runs = list(TraceReader([shared_data / "tau-bench" / "airline-gpt-4o.jsonl.gz"]))
    report = cross_validate(runs, count=5, subject_arguments=("user_id",))
    assert report.passed_gold.whole > 50 and report.passed_gold.value >= 0.97
    assert report.held_other.value > 0.1
