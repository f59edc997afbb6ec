from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

pytest.importorskip("tau2", reason="the tau2 extra is not installed")

from memory_shop import TOOLS, Chat, call, make_graph
from rich.console import Console

from fresh.gate import Gate
from fresh.knowledge import ToolIndex
from inference.evaluate.tau2 import PartialGate, compare, load_settings, without_check

CANCEL = {"order_id": "#W111", "reason": "mistake"}
MEMORY = SimpleNamespace(judge=Gate(ToolIndex(make_graph())))
QUIET = Console(file=io.StringIO())


def test_a_partial_gate_judges_without_the_checks_named() -> None:
    chat, proposed = Chat().read("#W111"), call("cancel_order", CANCEL)
    found = PartialGate(MEMORY.judge).gate(proposed, chat.messages, tools=TOOLS)
    assert {finding.check for finding in found.findings} == {"confirmed"}
    assert without_check(MEMORY)("confirmed").gate(proposed, chat.messages, tools=TOOLS).allowed
    assert MEMORY.judge.settings.without == frozenset()


def test_every_check_that_held_something_is_left_out_once(fake_gate, decide) -> None:
    """Two guards that both block all writes: without either one, the other still does."""
    finding = {name: SimpleNamespace(check=name, verdict="block") for name in ("first", "second")}

    def blocks(*names: str):
        def judge(call, messages):
            decision = decide("block")
            decision.findings = tuple(finding[name] for name in names)
            return decision

        return fake_gate(judge)

    report = compare(
        ["airline"],
        blocks("first", "second"),
        load_settings(trials=1, resamples=50),
        console=QUIET,
        partial=lambda check: blocks(*({"first", "second"} - {check})),
    )
    [found] = report.comparisons
    assert list(found.ablations) == ["first", "second"] and list(found.ablations["first"].guards) == ["second"]
    assert found.gated.guards["first"] == found.gated.guards["second"]
    assert found.gated.wrong_writes == found.gated.right_writes == 0 < found.gated.stuck_runs
    assert found.without.wrong_writes > 0 and found.without.stuck_runs == 0
    assert 0 < found.without.right_writes < found.without.gold_writes == found.gated.gold_writes
    console = Console(file=io.StringIO(), width=160)
    for table in report.tables():
        console.print(table)
    printed = console.file.getvalue()
    assert "Without each guard" in printed and "runs ended stuck" in printed
