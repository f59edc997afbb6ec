"""The rule engine as a peer of the gate: the same mined rules, the same verdicts where it can express them."""

from __future__ import annotations

from typing import Any

import pytest
from memory_shop import TOOLS, Chat, make_graph

from fresh.conditions import CalledBefore, ReadBefore
from fresh.gate import Gate, Verdict
from fresh.knowledge import Rule, ToolIndex
from fresh.live import LiveParser, live_call

pytest.importorskip("invariant.analyzer", reason="invariant-ai is not installed (extra bench-gate)")

from inference.baselines.adapters.invariant_gate import InvariantGate

PARSER = LiveParser()


@pytest.fixture(scope="module")
def index() -> ToolIndex:
    return ToolIndex(make_graph())


@pytest.fixture(scope="module")
def peer(index: ToolIndex) -> InvariantGate:
    return InvariantGate(index)


def decide(gate: Any, chat: Chat, tool: str, arguments: Any) -> Any:
    return gate.decide(live_call(tool, arguments), PARSER.history(chat.messages), PARSER.tools(TOOLS))


CANCEL = {"order_id": "#W111", "reason": "mistake"}


def test_a_write_without_its_read_is_held_with_the_rule_and_its_node(peer: InvariantGate, index: ToolIndex) -> None:
    decision = decide(peer, Chat(), "cancel_order", CANCEL)
    (finding,) = decision.findings
    assert (decision.verdict, finding.check) == (Verdict.REVISE, "read_before")
    rule = next(r for r in Gate(index).rules("cancel_order") if isinstance(r.condition, ReadBefore))
    assert finding.node == rule.node
    assert "get_order" in decision.reason


def test_a_write_after_its_read_passes(peer: InvariantGate) -> None:
    assert decide(peer, Chat().read("#W111"), "cancel_order", CANCEL).allowed


def test_a_read_of_another_object_does_not_count(peer: InvariantGate) -> None:
    assert not decide(peer, Chat().read("#W222"), "cancel_order", CANCEL).allowed


def test_a_read_that_failed_does_not_count(peer: InvariantGate) -> None:
    chat = Chat().call("get_order", {"order_id": "#W111"}, "Error: order not found")
    assert not decide(peer, chat, "cancel_order", CANCEL).allowed


def test_an_identical_call_that_failed_is_held_until_a_write_succeeds(peer: InvariantGate) -> None:
    chat = Chat().read("#W111").call("cancel_order", CANCEL, "Error: order is locked by another process")
    decision = decide(peer, chat, "cancel_order", CANCEL)
    assert [f.check for f in decision.findings] == ["repeated"]
    assert decide(peer, chat, "cancel_order", CANCEL | {"reason": "too late"}).allowed
    chat.call("remove_items", {"order_id": "#W111", "item_ids": ["9001"]}, {"order_id": "#W111"})
    assert decide(peer, chat, "cancel_order", CANCEL).allowed


def test_reads_and_unknown_tools_pass(peer: InvariantGate) -> None:
    assert decide(peer, Chat(), "get_order", {"order_id": "#W111"}).allowed
    assert decide(peer, Chat(), "never_seen", {"order_id": "#W111"}).allowed


def test_unreadable_arguments_never_pass(peer: InvariantGate) -> None:
    assert not decide(peer, Chat().read("#W111"), "cancel_order", '{"order_id": ').allowed


def test_what_the_language_cannot_say_is_left_out_and_known(peer: InvariantGate) -> None:
    left = {rule.condition.kind for rule in peer.left_out("remove_items")}
    assert {"grounded", "confirmed", "field_is"} <= left
    assert not left & {"read_before", "called_before"}
    source = peer.source("cancel_order")
    assert "get_order" in source and "pending" not in source
    assert peer.source('bad"name') == ""


def test_it_says_of_a_condition_what_the_gate_says(peer: InvariantGate, index: ToolIndex) -> None:
    rule = next(r for r in Gate(index).rules("cancel_order") if isinstance(r.condition, ReadBefore))
    seen = set()
    for chat in (Chat(), Chat().read("#W111"), Chat().read("#W222"), Chat().read("#W111").read("#W333")):
        for order in ("#W111", "#W333"):
            arguments = {"order_id": order, "reason": "mistake"}
            holds = rule.condition.holds(arguments, PARSER.history(chat.messages).history)
            assert decide(peer, chat, "cancel_order", arguments).allowed is holds, (chat.messages, order)
            seen.add(holds)
    assert seen == {True, False}


def test_each_value_of_a_list_must_have_been_read(index: ToolIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = InvariantGate(index)
    rules = {
        "list": ReadBefore(tool="get_order", parameter="order_id", argument="ids[]"),
        "parts": ReadBefore(tool="get_order", parameter="order_id", argument="parts[].id"),
        "inner": ReadBefore(tool="get_order", parameter="order_id", argument="inner.id"),
        "any": CalledBefore(tool="get_order"),
    }
    monkeypatch.setattr(peer._gate, "rules", lambda tool: (Rule(7, rules[tool], 9),) if tool in rules else ())
    chat = Chat().read("#W111").read("#W222")
    assert decide(peer, chat, "list", {"ids": ["#W111", "#W222"]}).allowed
    assert not decide(peer, chat, "list", {"ids": ["#W111", "#W333"]}).allowed
    assert decide(peer, chat, "parts", {"parts": [{"id": "#W222"}, {"n": 1}]}).allowed
    assert not decide(peer, chat, "parts", {"parts": [{"id": "#W222"}, {"id": "#W333"}]}).allowed
    assert decide(peer, chat, "inner", {"inner": {"id": "#W111"}}).allowed
    assert not decide(peer, chat, "inner", {"inner": {"id": "#W333"}}).allowed
    assert decide(peer, chat, "any", {}).allowed
    assert not decide(peer, Chat(), "any", {}).allowed


def test_a_long_history_is_judged_too(peer: InvariantGate) -> None:
    chat = Chat()
    for number in range(60):
        chat.call("get_order", {"order_id": f"#W9{number:03}"}, {"order_id": f"#W9{number:03}"})
    assert not decide(peer, chat, "cancel_order", CANCEL).allowed
    assert decide(peer, chat.read("#W111"), "cancel_order", CANCEL).allowed
