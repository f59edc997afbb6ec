from __future__ import annotations

import socket
import time
from typing import Any

import pytest
from memory_shop import TOOLS, Chat, call, function, make_graph

from fresh.gate import Decision, Gate, Verdict
from fresh.gate.bounded_schema import MAX_ERRORS, schema_errors
from fresh.knowledge import ToolIndex
from fresh.live import LiveParser, live_call

EVIL = r"^(\w+\s?)*$"
SLOW = "word " * 10 + "a" * 40 + "!"
GRAPH = make_graph()


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def decide(schema: dict[str, Any], arguments: dict[str, Any]) -> Decision:
    tools = [tool for tool in TOOLS if tool["function"]["name"] != "cancel_order"]
    tool = function("cancel_order", "Cancel")
    tool["function"]["parameters"] = schema
    parser = LiveParser()
    live = parser.history(Chat().read("#W111").agreed().messages)
    return Gate(ToolIndex(GRAPH)).decide(live_call(call("cancel_order", arguments)), live, parser.tools([*tools, tool]))


@pytest.mark.parametrize(
    "schema",
    [
        obj(note={"type": "string", "pattern": EVIL}),
        {"type": "object", "additionalProperties": {"type": "string", "pattern": EVIL}},
        {"type": "object", "anyOf": [{"properties": {"note": {"pattern": EVIL}}, "required": ["note"]}] * 50},
    ],
)
def test_a_pattern_that_backtracks_does_not_stall_the_gate(schema: dict[str, Any]):
    schema_errors(schema, {"note": "fine"})
    started = time.perf_counter()
    errors = schema_errors(schema, {"note": SLOW})
    assert time.perf_counter() - started < 0.5 and errors


def test_many_slow_values_share_one_budget():
    schema = obj(notes={"type": "array", "items": {"type": "string", "pattern": EVIL}})
    started = time.perf_counter()
    errors = schema_errors(schema, {"notes": [SLOW] * 500})
    assert time.perf_counter() - started < 0.5 and len(errors) == MAX_ERRORS


def test_a_slow_name_does_not_stall_either():
    for schema in (
        {"patternProperties": {EVIL: {}}, "additionalProperties": False},
        {"propertyNames": {"pattern": EVIL}},
    ):
        started = time.perf_counter()
        assert schema_errors(schema, {SLOW: 1})
        assert time.perf_counter() - started < 0.5


def test_a_value_whose_pattern_takes_too_long_is_revised():
    schema = obj(order_id={"type": "string"}, reason={"type": "string", "pattern": EVIL})
    decision = decide(schema, {"order_id": "#W111", "reason": SLOW})
    assert decision.verdict is Verdict.REVISE and "does not satisfy pattern" in decision.reason


def test_patterns_still_do_their_work():
    schema = {
        "type": "object",
        "properties": {"id": {"type": "string", "pattern": "^#W[0-9]+$"}},
        "patternProperties": {"^x-": {"type": "integer"}},
        "additionalProperties": False,
    }
    assert schema_errors(schema, {"id": "#W12", "x-a": 1}) == []
    assert [e.validator for e in schema_errors(schema, {"id": "W12"})] == ["pattern"]
    assert [e.validator for e in schema_errors(schema, {"x-a": "one"})] == ["type"]
    assert [e.validator for e in schema_errors(schema, {"other": 1})] == ["additionalProperties"]
    typed = {"additionalProperties": {"type": "integer"}}
    assert [e.validator for e in schema_errors(typed, {"a": "b"})] == ["type"] and not schema_errors(typed, {"a": 1})
    assert schema_errors({"properties": {"id": {"pattern": "x"}}}, {"id": 7}) == []


def test_a_pattern_that_is_none_is_a_warning():
    decision = decide(obj(order_id={"pattern": "("}), {"order_id": "#W111", "reason": "mistake"})
    assert decision.allowed and "unusable" in decision.warnings[0]


def test_nothing_is_fetched_for_a_schema(monkeypatch: pytest.MonkeyPatch):
    reached: list[Any] = []
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: reached.append(address))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *address, **_: reached.append(address) or [])
    decision = decide(obj(order_id={"$ref": "http://schemas.example/order.json"}), {"order_id": "#W111", "reason": "x"})
    assert reached == [] and "unusable" in decision.warnings[0]


def test_a_schema_that_refers_to_itself_without_end_is_a_warning():
    decision = decide({"$ref": "#"}, {"order_id": "#W111", "reason": "mistake"})
    assert decision.allowed and "unusable" in decision.warnings[0]
