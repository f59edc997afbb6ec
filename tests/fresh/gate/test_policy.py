from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from memory_shop import TOOLS, Chat, call, make_graph

from fresh.gate import Decision, Gate, GateSettings, Policy, State, Verdict, load_policy
from fresh.gate.policy import parse_policy
from fresh.knowledge import ToolIndex
from fresh.live import LiveParser, live_call
from graph_schema import ConfigError

GRAPH = make_graph(rules=False)
CANCEL = {"order_id": "#W111", "reason": "mistake"}
READ_FIRST = {"kind": "read_before", "tool": "get_order", "parameter": "order_id", "argument": "order_id"}
PENDING = {"kind": "field_is", "argument": "order_id", "path": "status", "values": ["pending"]}


def rule(condition: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"tool": "cancel_order", "text": "As the policy says.", "condition": condition} | fields


def decide(rules: list[dict[str, Any]], proposed: Any, chat: Chat, tools: Any = TOOLS, **settings: Any) -> Decision:
    parser = LiveParser()
    gate = Gate(ToolIndex(GRAPH), GateSettings(**settings), policy=parse_policy(rules, "p.yaml"))
    return gate.decide(live_call(proposed), parser.history(chat.messages), parser.tools(tools))


def test_a_rule_by_hand_asks_for_what_a_mined_one_would():
    decision = decide([rule(READ_FIRST)], call("cancel_order", CANCEL), Chat())
    (todo,) = decision.todo
    assert decision.verdict is Verdict.REVISE and (todo.tool, todo.arguments) == ("get_order", {"order_id": "#W111"})
    assert decision.findings[0].policy == "p.yaml, rule 1" and "As the policy says" in decision.reason
    guard = decision.guards[0]
    assert guard.policy == "p.yaml, rule 1" and guard.state is State.VIOLATED
    assert any("p.yaml, rule 1" in line for line in decision.explain())
    assert decide([rule(READ_FIRST)], call("cancel_order", CANCEL), Chat().read("#W111")).allowed


@pytest.mark.parametrize(
    ("severity", "verdict"),
    [
        ("warn", Verdict.ALLOW),
        ("revise", Verdict.REVISE),
        ("block", Verdict.BLOCK),
        ("transfer", Verdict.TRANSFER),
    ],
)
def test_the_severity_decides(severity: str, verdict: Verdict):
    decision = decide([rule(READ_FIRST, severity=severity)], call("cancel_order", CANCEL), Chat())
    assert decision.verdict is verdict
    if severity == "warn":
        assert "As the policy says" in decision.warnings[0]


def test_what_nothing_can_mend_is_blocked_where_a_mined_rule_would_warn():
    chat = Chat().call("get_order", {"order_id": "#W111"}, "Error: not found")
    assert decide([rule(READ_FIRST)], call("cancel_order", CANCEL), chat).verdict is Verdict.BLOCK


def test_transfer_without_a_handover_is_a_block():
    alone = [tool for tool in TOOLS if tool["function"]["name"] != "transfer_to_person"]
    rules = [rule(READ_FIRST, severity="transfer")]
    assert decide(rules, call("cancel_order", CANCEL), Chat(), alone).verdict is Verdict.BLOCK


def test_what_cannot_be_told_passes_or_is_looked_at_first():
    write = call("cancel_order", CANCEL)
    assert decide([rule(PENDING)], write, Chat()).allowed
    held = decide([rule(PENDING, unknown="hold", severity="block")], write, Chat())
    assert held.verdict is Verdict.REVISE and held.todo[0].tool == "get_order"
    assert decide([rule(PENDING, unknown="hold")], write, Chat().read("#W111")).allowed
    other = call("cancel_order", CANCEL | {"order_id": "#W222"})
    assert decide([rule(PENDING)], other, Chat("cancel #W222").read("#W222")).verdict is Verdict.BLOCK


def test_a_glob_takes_in_writes_and_reads_only_if_it_says_so():
    consent = {"kind": "confirmed"}
    read = call("get_order", {"order_id": "#W111"})
    for pattern in ("*", "cancel_*", "cancel_orde?"):
        assert not decide([rule(consent, tool=pattern)], call("cancel_order", CANCEL), Chat()).allowed
    assert decide([rule(consent, tool="*")], read, Chat()).allowed
    assert not decide([rule(consent, tool="*", reads=True)], read, Chat()).allowed
    assert not decide([rule(consent, tool="get_order")], read, Chat()).allowed
    assert decide([rule(consent, tool="get_orders")], read, Chat()).allowed


def test_a_rule_that_nobody_has_reviewed_does_not_count_and_is_named():
    rules = [rule(READ_FIRST), rule({"kind": "confirmed"}, reviewed=False)]
    policy = parse_policy(rules, "p.yaml")
    assert decide(rules, call("cancel_order", CANCEL), Chat().read("#W111")).allowed
    assert policy.unreviewed == ("p.yaml, rule 2",) and "rule 2" in policy.warning() and "\n" not in policy.warning()
    assert parse_policy(rules[:1]).warning() == ""


def test_a_policy_is_not_worn_down_by_repetition():
    rules = [rule({"kind": "confirmed"})]
    assert decide(rules, call("cancel_order", CANCEL), Chat(), fruitless="allow", max_revisions=0).verdict is (
        Verdict.TRANSFER
    )
    chat = Chat()
    for _ in range(3):
        chat.agent("Shall I cancel #W111?").user("mhm")
    assert not decide(rules, call("cancel_order", CANCEL), chat).allowed


def test_a_rule_of_a_tool_that_memory_does_not_know_is_named():
    policy = parse_policy([rule(READ_FIRST), rule(READ_FIRST, tool="cancle_*")], "p.yaml")
    assert policy.idle(ToolIndex(GRAPH)) == ("p.yaml, rule 2: the memory knows no tool 'cancle_*'",)


def test_a_file_is_read_and_written_without_loss(tmp_path: Path):
    rules = [rule(READ_FIRST, severity="block"), rule(PENDING, reviewed=False, quote="Only pending orders.")]
    file = tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump({"rules": rules}))
    policy = load_policy(file)
    assert policy.plain() == [rules[0], rules[1]] and policy.source == str(file)
    assert parse_policy(policy.plain()).rules == policy.rules and Policy().rules == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules: [", "is not YAML"),
        ("- a", "must be an object with a list under 'rules'"),
        ("rules: []\nmore: 1", "nothing else"),
        ("rules: {}", "rules must be a list"),
        ("rules: [7]", "rule 1: expected an object"),
        ("rules: [{tool: a, text: b, severity: revise}]", r"rule 1 \(a\): condition: Field required"),
        ("rules: [{tool: a, text: b, condition: {kind: wish}}]", r"rule 1 \(a\): condition: .*'wish'"),
        ("rules: [{tool: a, text: b, condition: {kind: confirmed}, severity: deadly}]", "severity: Input should be"),
        ("rules: [{tool: a, text: b, condition: {kind: confirmed}, colour: red}]", "colour: Extra inputs"),
        ("rules: [{tool: a, text: '', condition: {kind: confirmed}}]", "text: String should have"),
        (
            "rules: [{tool: a, text: b, condition: {kind: field_is, argument: x, path: y, values: [yes]}}]",
            "values.0: Input should be a valid string",
        ),
        ("rules:\n- {tool: a, tool: b, text: c, condition: {kind: confirmed}}", "'tool' is given twice"),
        ("rules: !!python/object/apply:os.getcwd []", "is not YAML"),
    ],
)
def test_a_wrong_file_is_one_clear_line(tmp_path: Path, text: str, message: str):
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as raised:
        load_policy(file)
    assert str(file) in str(raised.value) and "\n" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_one_clear_line(tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot read the policy"):
        load_policy(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"rules: [\xe9]")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_policy(tmp_path / "latin.yaml")
