from __future__ import annotations

import json
from typing import Any

import pytest
from memory_shop import ORDERS, TOOLS, Chat, call, function, make_graph

from fresh.gate import REFUSAL, Decision, Gate, GateSettings, State, Verdict
from fresh.knowledge import ToolIndex
from fresh.live import LiveParser, live_call

GRAPH = make_graph()
CANCEL = {"order_id": "#W111", "reason": "mistake"}
WITHOUT_PERSON = [tool for tool in TOOLS if tool["function"]["name"] != "transfer_to_person"]


def decide(proposed: Any, chat: Chat, tools: Any = TOOLS, gate: GateSettings | None = None, **options: Any) -> Decision:
    parser = LiveParser()
    return Gate(ToolIndex(GRAPH), gate).decide(
        live_call(proposed), parser.history(chat.messages), parser.tools(tools), **options
    )


def ready() -> Chat:
    return Chat().read("#W111").agreed()


def refuse(chat: Chat, proposed: Any, **options: Any) -> Decision:
    """Judges a call and puts the refusal into the chat, as an agent's loop does."""
    decision = decide(proposed, chat, **options)
    name = proposed["function"]["name"]
    chat.call(name, json.loads(proposed["function"]["arguments"]), decision.message())
    return decision


# -- what a verdict says -----------------------------------------------------------------------------------------


def test_every_guard_has_its_state_and_where_it_shows():
    guards = {g.check: g for g in decide(call("cancel_order", CANCEL), Chat().read("#W111")).guards}
    assert {name: g.state for name, g in guards.items()} == {
        "confirmed": State.VIOLATED,
        "read_before": State.SATISFIED,
        "grounded": State.SATISFIED,
        "field_is": State.SATISFIED,
    }
    read = guards["read_before"].evidence[0]
    assert (read.turn, read.call, read.text) == (1, "live/1/0", "get_order with order_id #W111")
    assert guards["field_is"].evidence[0].text == "get_order: status of #W111 is pending"
    assert guards["confirmed"].evidence[0].turn == 0 and guards["read_before"].support == 30


def test_what_cannot_be_told_is_unknown():
    states = {g.check: g.state for g in decide(call("cancel_order", CANCEL), Chat().agreed()).guards}
    assert states["field_is"] is State.UNKNOWN and states["read_before"] is State.VIOLATED


def test_a_value_made_up_violates_its_guard():
    guards = decide(call("cancel_order", CANCEL | {"order_id": "b"}), ready()).guards
    assert {g.check for g in guards if g.state is State.VIOLATED} == {"grounded"} and guards[0].check == "grounded"


def test_reads_have_no_mined_guards():
    assert decide(call("get_order", {"order_id": "#W111"}), Chat()).guards == ()


def test_a_verdict_explains_itself():
    decision = decide(call("cancel_order", CANCEL), Chat().read("#W111"), provenance=True)
    lines = decision.explain()
    assert lines[0].startswith("revise cancel_order: the user has not agreed")
    (read,) = [line for line in lines if "get_order has been called with the same order_id" in line]
    assert "satisfied" in read and "turn 1 (live/1/0)" in read and "run00" in read and "support 30" in read
    assert all("\n" not in line for line in lines)


def test_a_correction_without_a_choice_is_ready_made():
    decision = decide(call("cancel_order", CANCEL | {"order_id": "#W999"}), ready())
    assert decision.todo[0].arguments == CANCEL
    assert decision.allowed_tools is not None and "cancel_order" in decision.allowed_tools


def test_a_correction_inside_a_list_is_ready_made_and_leaves_the_rest():
    chat = Chat("please remove the fern from #W333").read("#W333").agreed()
    decision = decide(call("remove_items", {"order_id": "#W333", "item_ids": ["9999"]}), chat)
    assert decision.todo[0].arguments == {"order_id": "#W333", "item_ids": ["9004"]}


def test_a_correction_with_a_choice_is_left_to_the_agent():
    decision = decide(call("remove_items", {"order_id": "#W111", "item_ids": ["7777"]}), ready())
    assert len(decision.todo[0].candidates) > 1 and decision.todo[0].arguments == {}


def test_a_question_leaves_the_refused_tool_out():
    decision = decide(call("cancel_order", CANCEL), Chat().read("#W111"))
    assert decision.question == decision.todo[0].text
    assert decision.allowed_tools == ("find_customer", "get_order")


def test_without_a_tool_list_the_names_come_from_memory():
    decision = decide(call("cancel_order", CANCEL), Chat().read("#W111"), tools=None)
    assert decision.allowed_tools is not None and set(decision.allowed_tools) == {"find_customer", "get_order"}


def test_an_allowed_call_restricts_nothing_and_a_block_leaves_reads_and_the_handover():
    assert decide(call("cancel_order", CANCEL), ready()).allowed_tools is None
    blocked = decide(call("cancel_order", CANCEL | {"order_id": "#W222"}), Chat("cancel #W222").read("#W222").agreed())
    assert blocked.allowed_tools == ("find_customer", "get_order", "transfer_to_person")


# -- fruitless revisions -----------------------------------------------------------------------------------------


def test_the_same_call_made_again_and_again_ends_with_a_person():
    chat = Chat().read("#W111")
    verdicts = [refuse(chat, call("cancel_order", CANCEL)).verdict for _ in range(4)]
    assert verdicts == [Verdict.REVISE] * 3 + [Verdict.TRANSFER]


def test_without_a_handover_or_by_the_settings_it_ends_blocked():
    for tools, settings in ((WITHOUT_PERSON, None), (TOOLS, GateSettings(fruitless="block"))):
        chat = Chat().read("#W111")
        verdicts = [refuse(chat, call("cancel_order", CANCEL), tools=tools, gate=settings).verdict for _ in range(4)]
        assert verdicts == [Verdict.REVISE] * 3 + [Verdict.BLOCK]


def test_other_arguments_are_no_progress():
    chat = ready()
    for number in range(3):
        refuse(chat, call("cancel_order", CANCEL | {"order_id": f"#W90{number}"}))
    assert decide(call("cancel_order", CANCEL | {"order_id": "#W909"}), chat).verdict is Verdict.TRANSFER


def test_a_word_of_the_user_and_the_read_asked_for_are_progress():
    chat = Chat()
    for _ in range(3):
        refuse(chat, call("cancel_order", CANCEL))
    chat.read("#W111")
    assert refuse(chat, call("cancel_order", CANCEL)).verdict is Verdict.REVISE
    for _ in range(2):
        refuse(chat, call("cancel_order", CANCEL))
    assert decide(call("cancel_order", CANCEL), chat).verdict is Verdict.TRANSFER
    chat.user("What is going on?")
    assert decide(call("cancel_order", CANCEL), chat).verdict is Verdict.REVISE


def test_a_call_that_was_not_asked_for_is_no_progress():
    chat = Chat().read("#W111")
    for number in range(3):
        refuse(chat, call("cancel_order", CANCEL))
        chat.call("find_customer", {"email": f"{number}@new.example"}, {"customer_id": "ann_77"})
    assert decide(call("cancel_order", CANCEL), chat).verdict is Verdict.TRANSFER


def test_a_call_that_meets_its_guards_passes_however_often_it_was_held_back():
    chat = Chat().read("#W111")
    for _ in range(5):
        refuse(chat, call("cancel_order", CANCEL))
    assert decide(call("cancel_order", CANCEL), chat.agreed()).allowed


def test_a_blocked_call_made_again_ends_with_a_person():
    chat = Chat("cancel #W222 please").read("#W222").agreed()
    verdicts = [refuse(chat, call("cancel_order", CANCEL | {"order_id": "#W222"})).verdict for _ in range(4)]
    assert verdicts == [Verdict.BLOCK] * 3 + [Verdict.TRANSFER]


def test_an_error_that_only_a_person_resolved_goes_to_a_person():
    from memory_shop import _Shop

    shop = _Shop()
    shop.tool("cancel_order", "write", {"order_id": [["request", 30]]})
    error = shop.error("cancel_order", "account is frozen")
    shop.repair(error, "cancel_order", "handover", other="transfer_to_person")
    parser = LiveParser()
    live = parser.history(Chat().call("cancel_order", CANCEL, "Error: account is frozen").messages)
    gate = Gate(ToolIndex(shop.builder.build()))
    decision = gate.decide(live_call(call("cancel_order", CANCEL)), live, parser.tools(TOOLS))
    assert decision.verdict is Verdict.TRANSFER and decision.todo[0].tool == "transfer_to_person"


# -- repeats, loops, budgets -------------------------------------------------------------------------------------


def test_a_read_made_before_is_answered_with_its_recorded_result():
    decision = decide(call("get_order", {"order_id": "#W111"}), Chat().read("#W111"))
    assert decision.allowed and decision.answer is not None and json.loads(decision.answer) == ORDERS["#W111"]
    assert decision.tool_message("c9")["content"] == decision.answer


@pytest.mark.parametrize(
    "later",
    [
        lambda chat: chat.user("I have just changed it, look again."),
        lambda chat: chat.call("remove_items", {"order_id": "#W111", "item_ids": ["9001"]}, "done"),
        lambda chat: chat.call("remove_items", {"order_id": "#W111", "item_ids": ["9001"]}, "Error: half done"),
        lambda chat: chat.call("wait_a_minute", {}, "done"),
    ],
    ids=["user", "write", "failed write", "other"],
)
def test_a_read_is_made_again_where_something_may_have_changed(later: Any):
    decision = decide(call("get_order", {"order_id": "#W111"}), later(Chat().read("#W111")))
    assert decision.allowed and decision.answer is None


def test_a_read_is_made_again_if_asked_if_it_changes_by_itself_or_if_it_failed():
    again = call("get_order", {"order_id": "#W111"})
    assert decide(again, Chat().read("#W111"), gate=GateSettings(answer_repeats=False)).answer is None
    drifting = Chat().read("#W111").call("get_order", {"order_id": "#W111"}, {"status": "shipped"})
    assert decide(again, drifting).answer is None
    status = [*TOOLS, function("get_job_status", "Status of a job")]
    assert decide(call("get_job_status", {}), Chat().call("get_job_status", {}, "running"), status).answer is None
    assert decide(again, Chat().call("get_order", {"order_id": "#W111"}, "Error: timed out")).answer is None
    assert decide(call("get_order", {"order_id": "#w111"}), Chat().read("#W111")).answer is None


def test_calls_that_go_round_are_held_back_and_others_are_not():
    chat = Chat()
    for _ in range(3):
        chat.read("#W111").read("#W222")
    decision = decide(call("get_order", {"order_id": "#W111"}), chat)
    assert decision.verdict is Verdict.BLOCK and decision.findings[0].check == "loop"
    assert decision.allowed_tools is not None and "get_order" not in decision.allowed_tools
    assert decide(call("get_order", {"order_id": "#W333"}), chat).allowed
    assert decide(call("get_order", {"order_id": "#W111"}), chat, gate=GateSettings(max_loops=None)).allowed


@pytest.mark.parametrize("news", ["user", "write", "result"])
def test_calls_with_news_between_them_go_round_in_no_loop(news: str):
    chat = Chat()
    for number in range(4):
        chat.read("#W111")
        if news == "user":
            chat.user("and now?")
        elif news == "write":
            chat.call("remove_items", {"order_id": "#W111", "item_ids": []}, "done")
        else:
            chat.call("find_customer", {"email": "a@b.example"}, {"seen": number})
    assert decide(call("get_order", {"order_id": "#W111"}), chat).allowed


def test_budgets_are_off_until_set_and_a_handover_is_free():
    chat = ready().call("remove_items", {"order_id": "#W111", "item_ids": ["9001"]}, "done").agreed()
    write, read = call("cancel_order", CANCEL), call("get_order", {"order_id": "#W333"})
    assert decide(write, chat).allowed
    spent = decide(write, chat, gate=GateSettings(max_writes=1))
    assert spent.verdict is Verdict.TRANSFER and spent.findings[0].check == "writes"
    assert decide(read, chat, gate=GateSettings(max_writes=1)).allowed
    assert decide(read, chat, gate=GateSettings(max_steps=2)).findings[0].check == "steps"
    assert decide(read, chat, WITHOUT_PERSON, GateSettings(max_steps=2)).verdict is Verdict.BLOCK
    assert decide(call("transfer_to_person", {"summary": "s"}), chat, gate=GateSettings(max_steps=0)).allowed


def test_repeats_are_counted_over_the_whole_run():
    chat = Chat().read("#W111").read("#W111").user("once more")
    repeated = decide(call("get_order", {"order_id": "#W111"}), chat, gate=GateSettings(max_repeats=1))
    assert repeated.findings[0].check == "repeats"
    assert decide(call("get_order", {"order_id": "#W222"}), chat, gate=GateSettings(max_repeats=1)).allowed


def test_a_retry_that_mends_only_the_type_is_another_try():
    chat = Chat().call("get_order", {"order_id": 1}, "Error: order_id must be a boolean")
    assert decide(call("get_order", {"order_id": True}), chat).allowed


# -- modes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proposed", "chat", "would"),
    [
        (call("cancel_order", CANCEL), Chat(), Verdict.REVISE),
        (call("cancel_order", "{broken"), ready(), Verdict.BLOCK),
        (call("nothing_known", {}), ready(), Verdict.BLOCK),
        (call("cancel_order", CANCEL), ready(), Verdict.ALLOW),
    ],
)
def test_advice_stops_nothing_and_says_what_it_would_have_done(proposed: Any, chat: Chat, would: Verdict):
    decision = decide(proposed, chat, gate=GateSettings(mode="advise"))
    assert decision.allowed and decision.advised is would and decision.mode == "advise"
    assert decision.message() == "" and decision.allowed_tools is None
    assert (f"{would} if enforced" in decision.reason) is (would is not Verdict.ALLOW)


def test_off_looks_at_nothing_and_the_caller_overrides_the_settings():
    decision = decide(call("nothing_known", {}), Chat(), mode="off")
    assert decision.allowed and decision.findings == () and decision.advised is None
    advising = GateSettings(mode="advise")
    assert decide(call("nothing_known", {}), Chat(), gate=advising, mode="enforce").verdict is Verdict.BLOCK


def test_refusals_begin_as_refusals_do():
    assert decide(call("cancel_order", CANCEL), Chat()).message().startswith(REFUSAL)
