from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_shop import TOOLS, Chat, call, function, make_graph

from fresh.gate import REFUSAL, Decision, Gate, GateSettings, Verdict
from fresh.knowledge import ToolIndex
from fresh.live import LiveParser, live_call
from graph_schema import ConfigError

GRAPH = make_graph()
CANCEL = {"order_id": "#W111", "reason": "mistake"}


def decide(proposed: Any, chat: Chat, tools: Any = TOOLS, gate: GateSettings | None = None, **options: Any) -> Decision:
    parser = LiveParser()
    return Gate(ToolIndex(GRAPH), gate).decide(
        live_call(proposed), parser.history(chat.messages), parser.tools(tools), **options
    )


def ready() -> Chat:
    return Chat().read("#W111").agreed()


def test_a_write_with_all_its_conditions_met_is_allowed():
    decision = decide(call("cancel_order", CANCEL), ready())
    assert decision.verdict is Verdict.ALLOW and decision.executed_call is not None
    assert decision.executed_call.arguments == CANCEL and decision.todo == () and decision.message() == ""


@pytest.mark.parametrize("tool", ["find_customer", "get_order", "transfer_to_person"])
def test_reads_and_handovers_pass(tool: str):
    assert decide(call(tool, {"email": "x", "order_id": "#W9", "summary": "s"}), Chat()).allowed


@pytest.mark.parametrize("arguments", ["{broken", "null", "[1]", '"text"', "3"])
def test_arguments_that_are_no_object_block_a_write_and_are_not_taken_for_an_empty_one(arguments: str):
    decision = decide(call("cancel_order", arguments), ready())
    assert decision.verdict is Verdict.BLOCK and decision.executed_call is None
    assert "cannot be read" in decision.reason and decision.call.raw_arguments == arguments


def test_the_parsers_own_message_is_in_the_reason():
    assert "not JSON" in decide(call("cancel_order", "{broken"), ready()).reason


def test_unreadable_arguments_of_a_read_are_to_be_written_again():
    assert decide(call("get_order", "{broken"), Chat()).verdict is Verdict.REVISE


def test_an_unknown_tool_is_blocked_with_the_nearest_names():
    decision = decide(call("cancel_orders", CANCEL), ready())
    assert decision.verdict is Verdict.BLOCK and "cancel_order" in decision.reason
    nothing = decide(call("cancel_orders", {}), ready(), tools=[])
    assert nothing.verdict is Verdict.BLOCK and "nearest" not in nothing.reason


def test_without_a_list_of_tools_none_is_taken_for_invented():
    assert decide(call("show_account", {}), Chat(), tools=None).allowed
    asked = decide(call("cancel_ordr", {}), Chat(), tools=None)
    assert asked.verdict is Verdict.REVISE and [todo.kind for todo in asked.todo] == ["ask_user"]
    assert "the nearest names are cancel_order" in asked.warnings[0]
    blocked = decide(call("delete_account", {}), Chat(), None, GateSettings(unknown_tool="block"))
    assert blocked.verdict is Verdict.BLOCK and "no run in the memory" in blocked.reason


def test_a_write_that_memory_has_never_seen_waits_for_the_users_yes_or_is_blocked():
    tools = [*TOOLS, function("delete_account", "Delete"), function("show_account", "Show")]
    asked = decide(call("delete_account", {}), Chat(), tools)
    assert asked.verdict is Verdict.REVISE and [todo.kind for todo in asked.todo] == ["ask_user"]
    agreed = decide(call("delete_account", {}), ready(), tools)
    assert agreed.allowed and "no run in the memory" in agreed.warnings[0]
    blocked = decide(call("delete_account", {}), ready(), tools, GateSettings(unknown_tool="block"))
    assert blocked.verdict is Verdict.BLOCK and "no run in the memory" in blocked.reason
    assert decide(call("delete_account", {}), Chat(), tools, GateSettings(unknown_tool="allow")).allowed
    assert decide(call("show_account", {}), Chat(), tools).allowed


def test_a_write_with_too_few_uses_to_learn_from_must_look_at_the_object_it_names():
    decision = decide(call("burn_order", {"order_id": "#W111"}), Chat().agreed(), tools=None)
    assert decision.verdict is Verdict.REVISE
    assert [(t.kind, t.tool, t.arguments) for t in decision.todo] == [("call", "get_order", {"order_id": "#W111"})]
    assert decide(call("burn_order", {"order_id": "#W111"}), ready(), tools=None).allowed


def test_an_identifier_in_other_capitals_is_another_try():
    refused = ready().call("cancel_order", CANCEL | {"order_id": "#w111"}, "Error: order not found").agreed()
    again = decide(call("cancel_order", CANCEL | {"order_id": "#w111"}), refused)
    assert again.verdict is Verdict.REVISE and again.todo[0].candidates == ("#W111",)
    assert decide(call("cancel_order", CANCEL), refused).allowed


def test_values_of_another_kind_are_no_candidates():
    chat = Chat("Remove the fern from my order. My customer number is ann_77, I live in 90210.").agreed()
    decision = decide(call("remove_items", {"order_id": "#W444", "item_ids": ["9002"]}), chat)
    offered = {value for todo in decision.todo for value in todo.candidates}
    assert decision.verdict is Verdict.REVISE and not offered & {"ann_77", "90210"}


def test_several_made_up_values_in_one_list_are_one_thing_to_do():
    decision = decide(call("remove_items", {"order_id": "#W111", "item_ids": ["7701", "77020"]}), ready())
    named = [todo for todo in decision.todo if todo.argument == "item_ids[]"]
    assert len(named) == 1


def test_the_callers_annotation_beats_the_name():
    tool = function("delete_account", "Delete") | {"annotations": {"readOnlyHint": True}}
    assert decide(call("delete_account", {}), ready(), [*TOOLS, tool]).allowed


def test_missing_required_arguments_are_named_with_where_they_come_from():
    decision = decide(call("cancel_order", {"reason": "mistake"}), ready())
    (todo,) = decision.todo
    assert decision.verdict is Verdict.REVISE and todo.kind == "correct_argument" and todo.argument == "order_id"
    assert todo.candidates[0] == "#W111" and "get_order" in todo.source


def test_wrong_types_and_values_outside_an_enum_are_revised():
    wrong_type = decide(call("remove_items", {"order_id": "#W111", "item_ids": "9001"}), ready())
    assert wrong_type.verdict is Verdict.REVISE and "item_ids: must be array" in wrong_type.reason
    enum = decide(call("cancel_order", {"order_id": "#W111", "reason": "whim"}), ready())
    assert enum.todo[0].argument == "reason" and set(enum.todo[0].candidates) == {"too late", "mistake"}


def test_an_unusable_schema_is_a_warning():
    tools = [t for t in TOOLS if t["function"]["name"] != "cancel_order"]
    tools.append({"function": {"name": "cancel_order", "parameters": {"type": "nonsense"}}})
    decision = decide(call("cancel_order", CANCEL), ready(), tools)
    assert decision.allowed and "schema" in decision.warnings[0]


def test_an_unread_object_is_read_first():
    decision = decide(call("cancel_order", CANCEL), Chat().agreed())
    todo = decision.todo[0]
    assert decision.verdict is Verdict.REVISE
    assert (todo.kind, todo.tool, todo.arguments) == ("call", "get_order", {"order_id": "#W111"})
    assert decision.allowed_tools is not None
    assert "get_order" in decision.allowed_tools and "cancel_order" not in decision.allowed_tools


def test_doing_what_is_named_satisfies_the_gate():
    chat = Chat()
    for _ in range(4):
        decision = decide(call("cancel_order", CANCEL), chat)
        if decision.allowed:
            break
        for todo in decision.todo:
            if todo.kind == "call":
                chat.read(todo.arguments["order_id"])
            else:
                chat.agent(todo.text).user("Yes, go ahead")
    assert decision.allowed


def test_a_missing_yes_asks_the_user_with_the_live_arguments():
    decision = decide(call("cancel_order", CANCEL), Chat().read("#W111"))
    (todo,) = decision.todo
    assert todo.kind == "ask_user" and "#W111" in todo.text and "mistake" in todo.text and todo.text.endswith("?")
    assert decide(call("cancel_order", CANCEL), Chat().read("#W111"), gate=GateSettings(ask_confirmation=False)).allowed


def test_a_no_to_the_gates_own_question_stops_the_call():
    chat = Chat().read("#W111")
    question = decide(call("cancel_order", CANCEL), chat).todo[0].text
    refused = decide(call("cancel_order", CANCEL), chat.agent(question).user("No, I am not sure yet"))
    assert refused.verdict is Verdict.BLOCK and "said no" in refused.reason
    assert "cancel_order" in (refused.allowed_tools or ())  # with other arguments it may be what they want
    assert decide(call("cancel_order", CANCEL), chat.agent(question).user("Yes, do it")).allowed


def test_a_yes_that_cannot_be_read_does_not_loop():
    chat = Chat().read("#W111")
    for _ in range(2):
        todo = decide(call("cancel_order", CANCEL), chat).todo[0]
        chat.agent(todo.text).user("mhm")
    decision = decide(call("cancel_order", CANCEL), chat)
    assert decision.allowed and "as far as can be told" in decision.warnings[0]


def test_a_value_from_nowhere_is_replaced_from_the_history():
    decision = decide(call("cancel_order", CANCEL | {"order_id": "#W999"}), ready())
    (todo,) = decision.todo
    assert todo.kind == "correct_argument" and todo.value == "#W999" and todo.candidates == ("#W111",)


def test_a_value_of_another_object_is_replaced_by_those_inside():
    chat = Chat("please remove the fern from my order #W111").read("#W222").read("#W111").agreed()
    decision = decide(call("remove_items", {"order_id": "#W111", "item_ids": ["9003"]}), chat)
    (todo,) = decision.todo
    assert todo.argument == "item_ids[]" and todo.value == "9003" and set(todo.candidates) == {"9001", "9002"}
    assert "9003 does not belong to order_id #W111" in decision.reason


def test_the_object_is_taken_to_be_wrong_if_the_user_never_named_it():
    chat = Chat("please remove the fern, I am ann@new.example").read("#W333").read("#W111").agreed()
    decision = decide(call("remove_items", {"order_id": "#W333", "item_ids": ["9002"]}), chat)
    assert decision.todo[0].argument == "order_id" and decision.todo[0].candidates == ("#W111",)


def test_a_state_that_no_verified_use_had_blocks():
    chat = Chat("cancel #W222 please").read("#W222").agreed()
    decision = decide(call("cancel_order", CANCEL | {"order_id": "#W222"}), chat)
    assert decision.verdict is Verdict.BLOCK and "delivered" in decision.reason and "pending" in decision.reason


def test_live_observations_override_memory_once_the_state_changes():
    chat = Chat("cancel #W222 please").read("#W222")
    chat.call("get_order", {"order_id": "#W222"}, {"order_id": "#W222", "status": "pending"}).agreed()
    assert decide(call("cancel_order", CANCEL | {"order_id": "#W222"}), chat).allowed


def test_an_object_never_seen_decides_nothing():
    chat = Chat().call("get_order", {"order_id": "#W111"}, "it exists").agreed()
    assert decide(call("cancel_order", CANCEL), chat).allowed


def test_identical_failures_revise_then_block_then_hand_over():
    chat = ready()
    verdicts = []
    for _ in range(3):
        chat.call("cancel_order", CANCEL, "Error: order is locked by another process")
        verdicts.append(decide(call("cancel_order", CANCEL), chat).verdict)
    assert verdicts == [Verdict.REVISE, Verdict.BLOCK, Verdict.TRANSFER]


def test_the_known_repair_of_the_error_is_the_todo():
    chat = ready().call("cancel_order", CANCEL, "Error: order is locked by another process")
    todo = decide(call("cancel_order", CANCEL), chat).todo[0]
    assert (todo.kind, todo.tool, todo.arguments) == ("call", "find_customer", {"email": "ann@new.example"})


def test_the_handover_is_ready_made():
    chat = ready()
    for _ in range(3):
        chat.call("cancel_order", CANCEL, "Error: no luck today")
    decision = decide(call("cancel_order", CANCEL), chat)
    (todo,) = decision.todo
    assert todo.tool == "transfer_to_person" and "cancel order" in todo.arguments["summary"]
    assert decision.allowed_tools == ("transfer_to_person",)


def test_without_a_handover_the_third_failure_stays_blocked():
    chat = ready()
    for _ in range(4):
        chat.call("cancel_order", CANCEL, "Error: no luck today")
    tools = [t for t in TOOLS if t["function"]["name"] != "transfer_to_person"]
    assert decide(call("cancel_order", CANCEL), chat, tools).verdict is Verdict.BLOCK


def test_a_read_that_just_failed_unchanged_is_revised_and_passes_after_a_write():
    chat = Chat().call("get_order", {"order_id": "#W12"}, "Error: order not found")
    decision = decide(call("get_order", {"order_id": "#W12"}), chat)
    assert decision.verdict is Verdict.REVISE and "nothing that matters has changed" in decision.reason
    assert decision.todo[0].argument == "order_id" and "#W111" in decision.todo[0].candidates
    chat.call("remove_items", {"order_id": "#W111", "item_ids": []}, "{}")
    assert decide(call("get_order", {"order_id": "#W12"}), chat).allowed


def test_a_passing_fault_may_be_tried_again():
    chat = Chat().call("get_order", {"order_id": "#W111"}, "Error: request timed out")
    assert decide(call("get_order", {"order_id": "#W111"}), chat).allowed


def test_the_gates_own_refusals_are_no_failures_and_name_again_what_to_do():
    chat = Chat().agreed()
    refusal = decide(call("cancel_order", CANCEL), chat).tool_message("c1")
    assert refusal["content"].startswith(REFUSAL) and refusal["tool_call_id"] == "c1"
    chat.call("cancel_order", CANCEL, refusal["content"])
    repeated = decide(call("cancel_order", CANCEL), chat)
    assert repeated.verdict is Verdict.REVISE and repeated.findings[0].check == "read_before"
    assert repeated.todo[0].arguments == {"order_id": "#W111"} and "held back 2 times" in repeated.reason
    chat.read("#W111")
    assert decide(call("cancel_order", CANCEL), chat).verdict is Verdict.ALLOW


def test_revising_is_bounded():
    proposed = call("cancel_order", CANCEL | {"order_id": "#W999"})
    assert decide(proposed, ready(), revisions=2).verdict is Verdict.REVISE
    given_up = decide(proposed, ready(), revisions=3)
    assert given_up.verdict is Verdict.TRANSFER and given_up.todo[0].tool == "transfer_to_person"
    assert decide(proposed, ready(), gate=GateSettings(fruitless="block"), revisions=3).verdict is Verdict.BLOCK
    lenient = decide(proposed, ready(), gate=GateSettings(fruitless="allow"), revisions=3)
    assert lenient.allowed and lenient.warnings
    alone = [tool for tool in TOOLS if tool["function"]["name"] != "transfer_to_person"]
    assert decide(proposed, ready(), alone, revisions=3).verdict is Verdict.BLOCK


def test_the_limit_is_never_kept_by_letting_pass_what_cannot_run():
    lenient = GateSettings(fruitless="allow", max_revisions=0)
    decision = decide(call("cancel_order", {"order_id": "#W111", "reason": "whim"}), ready(), gate=lenient)
    assert decision.verdict is Verdict.TRANSFER and decision.findings[0].check == "fruitless"


def test_a_read_tried_in_vain_is_not_asked_for_again():
    chat = Chat().call("get_order", {"order_id": "#W111"}, "Error: order not found").agreed()
    decision = decide(call("cancel_order", CANCEL), chat)
    assert decision.allowed and "get_order" in decision.warnings[0]


def test_settle_judges_each_revision_by_its_own_tool():
    parser, gate = LiveParser(), Gate(ToolIndex(GRAPH))
    live, specs = parser.history(ready().messages), parser.tools(TOOLS)
    first = live_call(call("cancel_order", CANCEL | {"order_id": "#W999"}))
    other = live_call(call("remove_items", {"order_id": "#W999", "item_ids": ["9001"]}))
    switched = gate.settle(first, live, lambda _call, _decision: other, specs)
    assert (
        switched.call.tool == "remove_items"
        and switched.findings[0].node != gate.decide(first, live, specs).findings[0].node
    )
    stubborn: list[int] = []
    gate.settle(first, live, lambda c, _d: stubborn.append(1) or c, specs)
    assert len(stubborn) == gate.settings.max_revisions
    corrected = gate.settle(
        first,
        live,
        lambda _c, d: live_call(call("cancel_order", CANCEL | {"order_id": d.todo[0].candidates[0]})),
        specs,
    )
    assert corrected.executed_call is not None and corrected.executed_call.arguments == CANCEL


def test_evidence_is_named_on_request():
    proposed = call("cancel_order", CANCEL)
    assert decide(proposed, Chat()).findings[0].runs == ()
    finding = decide(proposed, Chat(), provenance=True).findings[0]
    assert (
        finding.runs[0].startswith("run")
        and 0.9 < finding.confidence < 1
        and GRAPH.node(finding.node).tool == "cancel_order"
    )


def test_weak_conditions_are_not_enforced():
    gate = Gate(ToolIndex(GRAPH))
    kinds = {rule.condition.kind for rule in gate.rules("remove_items")}
    assert kinds == {
        "read_before",
        "grounded",
        "confirmed",
        "field_is",
        "within",
    }  # called_before has 15 exceptions
    assert not Gate(ToolIndex(GRAPH), GateSettings(min_support=31, min_tasks=31)).rules("cancel_order")


@pytest.mark.parametrize(
    "proposed",
    [
        ("cancel_order", CANCEL),
        ["cancel_order", CANCEL],
        {"name": "cancel_order", "input": CANCEL, "type": "tool_use"},
    ],
)
def test_calls_are_understood_in_every_form(proposed: Any):
    assert decide(proposed, ready()).allowed


def test_an_sdk_object_is_understood():
    class Call:
        def model_dump(self, **options: Any) -> dict[str, Any]:
            return call("cancel_order", CANCEL)

    assert decide(Call(), ready()).allowed


@pytest.mark.parametrize("proposed", [{}, 3, {"function": {}}, None])
def test_a_call_without_a_name_is_an_error_that_says_so(proposed: Any):
    with pytest.raises(ConfigError, match="tool call"):
        decide(proposed, ready())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["order_id", "item_ids", "x"]), inner),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(json_values, st.sampled_from(["cancel_order", "remove_items", "get_order", "nothing"]))
def test_any_arguments_get_the_same_decision_twice(arguments: Any, tool: str):
    proposed = {"name": tool, "arguments": arguments}
    first, second = decide(proposed, ready()), decide(proposed, ready())
    assert first == second
    if first.verdict is Verdict.ALLOW:
        assert first.executed_call is not None
    if first.verdict is Verdict.REVISE:
        assert first.todo


@pytest.mark.parametrize(
    "arguments", [{}, {"order_id": None, "reason": "mistake"}, {"order_id": "", "reason": "mistake"}]
)
def test_without_a_schema_what_every_verified_use_gave_must_be_given(arguments: dict[str, Any]):
    decision = decide(call("cancel_order", arguments), ready(), tools=None)
    assert decision.verdict is Verdict.REVISE and "order_id" in {todo.argument for todo in decision.todo}


def test_an_argument_that_names_an_object_must_not_hold_something_made_up():
    decision = decide(call("cancel_order", CANCEL | {"order_id": "b"}), ready(), tools=None)
    assert decision.verdict is Verdict.REVISE and decision.todo[0].argument == "order_id"


@pytest.mark.parametrize(
    ("chat", "arguments", "check"),
    [
        (Chat(), CANCEL, "read_before"),
        (Chat().read("#W111"), CANCEL, "confirmed"),
        (Chat().read("#W111").agreed(), CANCEL | {"reason": "whim"}, "schema"),
        (Chat().read("#W111").agreed().call("cancel_order", CANCEL, "Error: closed"), CANCEL, "repeated"),
    ],
)
def test_a_check_can_be_left_out_to_measure_its_worth(chat, arguments, check):
    full = decide(call("cancel_order", arguments), chat)
    assert check in {finding.check for finding in full.findings}
    partial = decide(call("cancel_order", arguments), chat, gate=GateSettings(without=frozenset({check})))
    assert check not in {finding.check for finding in partial.findings}
