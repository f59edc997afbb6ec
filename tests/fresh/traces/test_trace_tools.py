"""Tool descriptions, and who decides which tools write."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from fresh.traces.tools import (
    infer_effect,
    is_handover,
    load_effects,
    load_tools_file,
    parse_tools,
    resolve_effects,
    save_effects,
    verb_of,
)
from graph_schema.errors import ConfigError
from graph_schema.trajectory import Effect, ToolSpec

DATA = Path(__file__).resolve().parents[2] / "data" / "traces"


@pytest.mark.parametrize(
    ("tool", "effect"),
    [
        ({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}, None),
        (
            {"name": "f", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
            Effect.READ,
        ),
        ({"name": "f", "inputSchema": {}, "annotations": {"readOnlyHint": False}}, Effect.WRITE),
        ({"name": "f", "annotations": {"destructiveHint": True}}, Effect.WRITE),
        ({"name": "f", "annotations": {"destructiveHint": False}}, Effect.WRITE),
        ({"name": "f", "annotations": {"title": "F"}}, None),
        ({"type": "function", "function": {"name": "f"}, "annotations": {"readOnlyHint": True}}, Effect.READ),
        ({"type": "function", "function": {"name": "f", "annotations": {"readOnlyHint": True}}}, Effect.READ),
        ({"function": {"name": "f"}, "kind": "terminate"}, Effect.OTHER),
        ({"function": {"name": "f"}, "kind": None}, None),
        ({"name": "f", "effect": "Write", "annotations": {"readOnlyHint": True}}, Effect.WRITE),
    ],
)
def test_effects_stated_in_a_description(tool: dict[str, Any], effect: Effect | None) -> None:
    (spec,) = parse_tools([tool])
    assert (spec.name, spec.effect) == ("f", effect)


def test_descriptions_without_a_name_are_passed_over() -> None:
    assert [spec.name for spec in parse_tools([{}, {"function": {}}, {"name": "f"}])] == ["f"]


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("get_order", Effect.READ),
        ("listOpenOrders", Effect.READ),
        ("calendar_search", Effect.READ),
        ("can_send_message", Effect.READ),
        ("mcp__shop__find_item", Effect.READ),
        ("server.read_file", Effect.READ),
        ("cancel_order", Effect.WRITE),
        ("sendEmail", Effect.WRITE),
        ("email.send", Effect.WRITE),
        ("find_and_replace", Effect.WRITE),
        ("order_update", Effect.WRITE),
        ("transfer_money", Effect.WRITE),
        ("frobnicate", Effect.WRITE),
        ("", Effect.WRITE),
        ("calculate", Effect.OTHER),
        ("think", Effect.OTHER),
        ("Finish", Effect.OTHER),
        ("finish_order", Effect.WRITE),
        ("transfer_to_human", Effect.OTHER),
    ],
)
def test_effect_inferred_from_a_name(name: str, effect: Effect) -> None:
    assert infer_effect(name) is effect


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("cancel_order", "cancel"),
        ("sendEmail", "send"),
        ("email.send", "send"),
        ("find_and_replace", "replace"),
        ("account_balance", "account"),
        ("", ""),
    ],
)
def test_the_verb_of_a_name(name: str, verb: str) -> None:
    assert verb_of(name) == verb


def test_correction_caller_trace_and_name_decide_in_this_order() -> None:
    def spec(name: str, effect: Effect | None) -> ToolSpec:
        return ToolSpec(name=name, effect=effect)

    e = [spec("e", Effect.READ), spec("e", Effect.WRITE)]
    resolved = resolve_effects(
        [spec("a", Effect.WRITE), spec("b", Effect.WRITE), spec("c", None)],
        [spec("a", Effect.READ), spec("b", Effect.READ), spec("c", Effect.OTHER), *e],
        ["get_d", "a"],
        {"a": Effect.OTHER},
    )
    assert resolved == {
        "a": (Effect.OTHER, "correction"),
        "b": (Effect.WRITE, "caller"),
        "c": (Effect.OTHER, "trace"),
        "e": (Effect.WRITE, "trace"),
        "get_d": (Effect.READ, "inferred"),
    }
    assert list(resolved) == sorted(resolved)


@pytest.mark.parametrize("wrap", ["list", "tools", "suites"])
@pytest.mark.parametrize("packed", [False, True])
def test_tool_files_of_every_shape(tmp_path: Path, wrap: str, packed: bool) -> None:
    tools = json.loads((DATA / "tools.json").read_text())
    suites = {"version": 1, "suites": {"a": tools[:1], "b": tools[1:]}}
    value = {"list": tools, "tools": {"tools": tools}, "suites": suites}[wrap]
    path = tmp_path / "tools.json"
    data = json.dumps(value).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    assert [(spec.name, spec.effect) for spec in load_tools_file(path)] == [
        ("get_hire", Effect.READ),
        ("end_hire", Effect.WRITE),
    ]


@pytest.mark.parametrize(("text", "reason"), [("{}", "no tools in"), ("{oops", "is not JSON"), (None, "cannot read")])
def test_a_bad_tool_file_is_one_clear_line(tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "tools.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=reason):
        load_tools_file(path)


def test_a_correction_file_reads_back_and_leaves_nothing_else_behind(tmp_path: Path) -> None:
    path = tmp_path / "effects.json"
    effects = {"b": Effect.WRITE, "a": Effect.READ}
    save_effects(path, effects)
    assert load_effects(path) == effects
    assert path.read_text().index('"a"') < path.read_text().index('"b"')
    assert [item.name for item in tmp_path.iterdir()] == ["effects.json"]


@pytest.mark.parametrize(("text", "reason"), [('{"a": "maybe"}', "a is 'maybe'"), ("[]", "not an object")])
def test_a_bad_correction_file_is_one_clear_line(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "effects.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=reason):
        load_effects(path)


def test_inference_agrees_with_measured_effects_on_real_tools(shared_data: Path) -> None:
    measured: dict[str, Effect] = {}
    for path in sorted(shared_data.glob("*/tools*.json*")):
        measured |= {spec.name: spec.effect for spec in load_tools_file(path) if spec.effect is not None}
    assert len(measured) > 90
    same = sum(infer_effect(name) is effect for name, effect in measured.items())
    risky = [name for name, effect in measured.items() if effect is Effect.WRITE and infer_effect(name) is not effect]
    assert same >= 0.95 * len(measured)
    assert len(risky) <= 2, risky  # a write taken for a read escapes the gate


@pytest.mark.parametrize(
    ("name", "description", "expected"),
    [
        ("transfer_to_human_agents", "", True),
        ("hand_over_to_person", "", True),
        ("escalate", "", True),
        ("finish", "Hands the case over to a support specialist", True),
        ("transfer_money", "Moves money between accounts", False),
        ("handle_order", "Handles an order for an agent", False),
        ("find_agent", "", False),
    ],
)
def test_a_handover_is_told_by_its_words(name: str, description: str, expected: bool) -> None:
    assert is_handover(name, description) is expected
