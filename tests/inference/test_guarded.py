from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from memory_shop import ORDERS, TOOLS, Chat, call, make_graph

from fresh.frozen import freeze
from fresh.gate import REFUSAL, Verdict
from inference import FrozenMemory, corrected, guarded_step, load, offered

CANCEL = {"order_id": "#W111", "reason": "mistake"}


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> FrozenMemory:
    path = tmp_path_factory.mktemp("memory") / "shop"
    freeze(make_graph(), path)
    return load(path)


class Shop:
    """Tools that note what they were asked."""

    def __init__(self) -> None:
        self.made: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, tool: str, arguments: dict[str, Any]) -> Any:
        self.made.append((tool, arguments))
        if tool == "get_order":
            return ORDERS[arguments["order_id"]]
        return "done"

    @property
    def tools(self) -> list[str]:
        return [tool for tool, _ in self.made]


def proposed(tool: str, arguments: Any, call_id: str = "c1") -> dict[str, Any]:
    return call(tool, arguments) | {"id": call_id}


def step(memory: FrozenMemory, chat: Chat, shop: Any, *calls: Any, **options: Any) -> Any:
    return guarded_step(memory, chat.messages, calls, shop, TOOLS, **options)


def assert_valid_chat(messages: list[dict[str, Any]]) -> None:
    """Each assistant message with calls is followed by one tool message for each of them, as endpoints demand."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting
        waiting = [made["id"] for made in message.get("tool_calls") or ()]
    assert not waiting


def test_an_allowed_call_is_run_and_answered(memory: FrozenMemory):
    shop = Shop()
    done = step(memory, Chat().read("#W111").agreed(), shop, proposed("cancel_order", CANCEL))
    assert shop.made == [("cancel_order", CANCEL)] and done.messages[0]["content"] == "done"
    assert done.allowed_tools is None and done.question == "" and done.handover is None


def test_each_call_has_its_own_verdict_and_message_and_one_refusal_takes_no_other_with_it(memory: FrozenMemory):
    shop, chat = Shop(), Chat().read("#W111").agreed()
    calls = [
        proposed("cancel_order", CANCEL | {"order_id": "#W999"}, "a"),
        proposed("get_order", {"order_id": "#W333"}, "b"),
        proposed("cancel_order", CANCEL, "c"),
    ]
    chat.messages.append({"role": "assistant", "content": None, "tool_calls": calls})
    done = step(memory, chat, shop, *calls)
    assert [m["tool_call_id"] for m in done.messages] == ["a", "b", "c"]
    assert [d.verdict for d in done.decisions] == [Verdict.REVISE, Verdict.ALLOW, Verdict.ALLOW]
    assert shop.made == [("get_order", {"order_id": "#W333"}), ("cancel_order", CANCEL)]
    assert done.messages[0]["content"].startswith(REFUSAL) and "cancel_order" in done.allowed_tools
    assert_valid_chat([*chat.messages[-1:], *done.messages])


def test_a_later_call_of_the_same_message_is_judged_on_the_results_of_the_earlier_ones(memory: FrozenMemory):
    shop = Shop()
    calls = [proposed("get_order", {"order_id": "#W111"}, "a"), proposed("cancel_order", CANCEL, "b")]
    step(memory, Chat().agreed(), shop, *calls)
    assert shop.tools == ["get_order", "cancel_order"]


def test_safe_reads_are_run_and_the_call_waits_for_the_agent_to_see_them(memory: FrozenMemory):
    shop, chat = Shop(), Chat().agreed()
    chat.messages.append({"role": "assistant", "content": None, "tool_calls": [proposed("cancel_order", CANCEL)]})
    done = step(memory, chat, shop, proposed("cancel_order", CANCEL))
    assert shop.made == [("get_order", {"order_id": "#W111"})]
    assert "get_order" in done.messages[0]["content"] and done.messages[0]["content"].startswith(REFUSAL)
    assert json.loads(done.messages[-1]["content"]) == ORDERS["#W111"]
    chat.messages += done.messages
    assert_valid_chat(chat.messages[-4:])
    again = step(memory, chat, shop, proposed("cancel_order", CANCEL, "c2"))
    assert shop.tools == ["get_order", "cancel_order"] and again.decisions[0].allowed


def test_reads_are_left_to_the_agent_if_asked(memory: FrozenMemory):
    shop = Shop()
    done = step(memory, Chat().agreed(), shop, proposed("cancel_order", CANCEL), run_reads=False)
    assert shop.made == [] and len(done.messages) == 1
    assert done.decisions[0].todo[0].arguments == {"order_id": "#W111"}
    assert "cancel_order" not in done.allowed_tools and "get_order" in done.allowed_tools


def test_a_missing_yes_becomes_a_question_and_its_answer_opens_the_way(memory: FrozenMemory):
    shop, chat = Shop(), Chat()
    chat.messages.append({"role": "assistant", "content": None, "tool_calls": [proposed("cancel_order", CANCEL)]})
    done = step(memory, chat, shop, proposed("cancel_order", CANCEL))
    assert shop.tools == ["get_order"] and "#W111" in done.question and "mistake" in done.question
    assert done.allowed_tools is None  # the answer may be a yes, and then the next step is the call itself
    chat.messages += done.messages
    chat.agent(done.question).user("Yes.")
    assert step(memory, chat, shop, proposed("cancel_order", CANCEL, "c2")).decisions[0].allowed


def test_after_the_reads_the_call_may_be_blocked_by_what_they_show(memory: FrozenMemory):
    shop = Shop()
    chat = Chat("cancel #W222 please, a mistake").agreed()
    done = step(memory, chat, shop, proposed("cancel_order", CANCEL | {"order_id": "#W222"}))
    assert shop.tools == ["get_order"] and done.decisions[0].verdict is Verdict.BLOCK
    assert "delivered" in done.messages[0]["content"]


def test_a_correction_without_a_choice_is_gated_again_and_shown_as_a_call_of_its_own(memory: FrozenMemory):
    shop, chat = Shop(), Chat().read("#W111").agreed()
    wrong = proposed("cancel_order", CANCEL | {"order_id": "#W999"})
    chat.messages.append({"role": "assistant", "content": None, "tool_calls": [wrong]})
    done = step(memory, chat, shop, wrong, revise=corrected)
    assert shop.made == [("cancel_order", CANCEL)]
    assert "Made instead" in done.messages[0]["content"] and done.allowed_tools is None
    chat.messages += done.messages
    assert_valid_chat(chat.messages[-4:])
    assert json.loads(chat.messages[-2]["tool_calls"][0]["function"]["arguments"]) == CANCEL


def test_revising_is_bounded_and_a_revision_to_another_tool_meets_that_tools_guards(memory: FrozenMemory):
    shop, asked = Shop(), []
    chat = Chat().read("#W111").agreed()
    wrong = proposed("cancel_order", CANCEL | {"order_id": "#W999"})

    def other(last: Any, decision: Any) -> Any:
        asked.append(last.tool)
        return ("remove_items", {"order_id": "#W111", "item_ids": ["9003"]})

    done = step(memory, chat, shop, wrong, revise=other, max_revisions=2)
    assert shop.made == [] and asked == ["cancel_order", "remove_items"] and not done.decisions[0].allowed


@pytest.mark.parametrize("mode", ["enforce", "advise", "off"])
@pytest.mark.parametrize("arguments", ["{broken", "null", "[1]", '"x"'])
def test_a_write_that_cannot_be_read_is_run_in_no_mode(memory: FrozenMemory, arguments: str, mode: Any):
    shop = Shop()
    done = step(memory, Chat().read("#W111").agreed(), shop, proposed("cancel_order", arguments), mode=mode)
    assert shop.made == [] and "cannot be read" in done.messages[0]["content"] and len(done.messages) == 1


@pytest.mark.parametrize("broken", [{}, {"id": "a", "function": {}}, None, 3])
def test_a_call_without_a_name_is_answered_and_the_others_run(memory: FrozenMemory, broken: Any):
    shop = Shop()
    done = step(memory, Chat(), shop, broken, proposed("get_order", {"order_id": "#W111"}, "b"))
    assert done.decisions[0] is None and done.messages[0]["content"].startswith(REFUSAL)
    assert shop.tools == ["get_order"] and done.messages[1]["tool_call_id"] == "b"


def test_a_tool_that_raises_is_an_error_message(memory: FrozenMemory):
    def broken(tool: str, arguments: dict[str, Any]) -> str:
        raise TimeoutError("no answer")

    done = step(memory, Chat(), broken, proposed("get_order", {"order_id": "#W111"}))
    assert done.messages[0]["content"] == "Error: TimeoutError: no answer"


def test_a_read_made_before_is_answered_from_the_chat(memory: FrozenMemory):
    shop = Shop()
    done = step(memory, Chat().read("#W111"), shop, proposed("get_order", {"order_id": "#W111"}))
    assert shop.made == [] and json.loads(done.messages[0]["content"]) == ORDERS["#W111"] and done.executed == ()


def test_advice_runs_everything_and_says_what_it_would_have_done(memory: FrozenMemory):
    shop = Shop()
    done = step(memory, Chat(), shop, proposed("cancel_order", CANCEL), mode="advise")
    assert shop.made == [("cancel_order", CANCEL)] and done.decisions[0].advised is Verdict.REVISE
    assert done.allowed_tools is None and done.question == ""


def test_a_model_that_repeats_itself_ends_with_a_person(memory: FrozenMemory):
    """Told to ask first, a small model makes the same call for ever: the adapter must end that."""
    shop, chat, steps = Shop(), Chat(), 0
    while steps < 20:
        steps += 1
        made = proposed("cancel_order", CANCEL, f"c{steps}")
        chat.messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
        done = step(memory, chat, shop, made)
        chat.messages += done.messages
        if done.handover:
            break
    assert done.handover.tool == "transfer_to_person" and done.allowed_tools == ("transfer_to_person",)
    assert steps <= 5 and "cancel_order" not in shop.tools


def test_a_whole_run_with_a_careless_model_ends_with_one_right_write(memory: FrozenMemory):
    """A model that only ever wants to write: reads and question come from the verdicts."""
    shop, chat = Shop(), Chat()
    for number in range(6):
        made = proposed("cancel_order", CANCEL, f"c{number}")
        chat.messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
        done = step(memory, chat, shop, made)
        chat.messages += done.messages
        if "cancel_order" in shop.tools:
            break
        if done.question:
            chat.agent(done.question).user("Yes, please.")
    assert shop.made == [("get_order", {"order_id": "#W111"}), ("cancel_order", CANCEL)]


def test_the_callers_chat_is_left_alone_and_tools_are_narrowed(memory: FrozenMemory):
    chat = Chat("cancel #W222 please, a mistake").agreed()
    before = json.dumps(chat.messages)
    done = step(memory, chat, Shop(), proposed("cancel_order", CANCEL | {"order_id": "#W222"}))
    assert json.dumps(chat.messages) == before
    names = {tool["function"]["name"] for tool in offered(TOOLS, done.allowed_tools)}
    assert names == {"find_customer", "get_order", "transfer_to_person"}
    assert offered(TOOLS, None) == TOOLS and offered(TOOLS, ()) == []


def test_decisions_of_a_step_are_in_the_audit_log(tmp_path: Path):
    freeze(make_graph(), tmp_path / "m")
    memory = load(tmp_path / "m", audit=tmp_path / "audit.jsonl")
    step(memory, Chat(), Shop(), proposed("cancel_order", CANCEL))
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(line["tool"], line["verdict"]) for line in lines] == [
        ("cancel_order", "revise"),
        ("get_order", "allow"),
        ("cancel_order", "revise"),
    ]
