"""What each memory is for: what it recalls, and what it leaves out."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from desk_runs import BUDGET, SETTING, moments, split, tools_of

from graph_schema.trajectory import Feedback, Outcome
from inference.baselines.draft import Draft
from inference.baselines.expg import ExpG
from inference.baselines.facts import Facts
from inference.baselines.few_shot import FewShot
from inference.baselines.hepm import HybridMemory
from inference.baselines.registry import MEMORIES
from inference.compare.reading import Reader
from tests.retrieval_world import WISHES, run

CHAT = list[dict[str, Any]]


def chat(wish: str, *calls: tuple[str, str]) -> CHAT:
    """A member's wish, and calls that were made with their results."""
    messages: CHAT = [{"role": "user", "content": f"Hi, {WISHES[wish]}. My card is C99977."}]
    for number, (tool, result) in enumerate(calls):
        function = {"name": tool, "arguments": '{"loan_id": "L77777"}'}
        messages.append({"role": "assistant", "tool_calls": [{"id": f"c{number}", "function": function}]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    return messages


DESK = [run(i, wish, fails=i % 3 == 0) for i, wish in enumerate([w for w in WISHES for _ in range(8)])]
LOOKED_UP = (("find_member", '{"member_id": "member_1"}'), ("get_loan", '{"loan_id": "L77777", "status": "active"}'))
FAILURE = Feedback(outcome=Outcome.FAILURE)
FAILED_RUNS = [desk_run.model_copy(update={"feedback": FAILURE}) for desk_run in DESK]
PAYING = "pay_fine(loan_id=<LOAN_ID>, member_id=<MEMBER_ID>)"
TOOLS = dict.fromkeys(("find_member", "get_loan", *WISHES), ("loan_id", "member_id", "card"))


def read_tools(text: str) -> set[str]:
    return set(Reader(TOOLS).read(text).tools)


@pytest.mark.parametrize("name", ["replay", "distilled", "bm25", "seer", "h-epm"])
def test_what_is_done_is_left_out_and_the_right_write_is_next(name: str) -> None:
    memory = MEMORIES[name](DESK, SETTING)
    for wish in WISHES:
        recommended = read_tools(memory.guide(chat(wish, *LOOKED_UP), None, BUDGET).text)
        assert wish in recommended and not {"find_member", "get_loan"} & recommended
    if name != "h-epm":  # which follows a routine to where it parts
        assert {"get_loan", "pay_fine"} <= read_tools(memory.guide(chat("pay_fine"), None, BUDGET).text)


@pytest.mark.parametrize("name", ["train-text", "vector-rag", "distilled", "facts", "draft", "expg"])
def test_a_known_failure_is_warned_of(name: str) -> None:
    memory = MEMORIES[name](DESK, SETTING)
    text = memory.guide(chat("pay_fine", *LOOKED_UP), None, BUDGET).text
    warned = Reader(TOOLS).read(text).warnings
    assert any(w.tool == "pay_fine" and w.names_failure and "loan" in w.words for w in warned), text


@pytest.mark.parametrize("name", ["replay", "seer"])
def test_what_failed_on_the_way_is_shown_as_it_was(name: str) -> None:
    memory = MEMORIES[name]([run(0, "pay_fine", fails=True)], SETTING)
    lines = memory.guide(chat("pay_fine", *LOOKED_UP), None, BUDGET).text.splitlines()
    assert lines[2:] == ['- pay_fine(loan_id=<LOAN_ID>) fails with "no such loan"', f"- {PAYING}"]


@pytest.mark.parametrize("name", ["replay", "few-shot", "seer", "h-epm"])
def test_failed_runs_are_not_replayed(name: str) -> None:
    assert MEMORIES[name](FAILED_RUNS, SETTING).guide(chat("pay_fine"), None, BUDGET).text == ""


@pytest.mark.parametrize("name", ["train-text", "vector-rag", "bm25"])
def test_runs_of_any_outcome_are_told_with_their_outcome(name: str) -> None:
    assert "failed" in MEMORIES[name](FAILED_RUNS, SETTING).guide(chat("pay_fine"), None, BUDGET).text
    assert "succeeded" in MEMORIES[name](DESK, SETTING).guide(chat("pay_fine"), None, BUDGET).text


def test_few_shot_is_the_same_whatever_is_asked() -> None:
    memory = FewShot.build(DESK, SETTING)
    texts = {memory.guide(chat(wish), None, BUDGET).text for wish in WISHES}
    assert len(texts) == 1 and memory.guide([], None, BUDGET).text in texts
    assert len(read_tools(texts.pop()) & set(WISHES)) == 3  # three examples, no write twice


def test_bm25_puts_successes_first() -> None:
    memory = MEMORIES["bm25"]([*FAILED_RUNS[16:24], *DESK[:16]], SETTING)  # the failures would pay the fine
    assert "A run that failed" not in memory.guide(chat("pay_fine"), None, BUDGET).text


def test_distilled_lessons_of_failed_runs() -> None:
    memory = MEMORIES["distilled"](split()[0], SETTING)
    texts = [memory.guide(messages, tools_of(run), BUDGET).text for run, messages in moments()]
    assert any("Avoid: calling" in text and "before the user has agreed" in text for text in texts)
    assert any("again unchanged" in text for text in texts)


def test_facts_say_what_comes_first_until_it_is_done() -> None:
    memory = Facts.build(DESK, SETTING)
    assert "before pay_fine: call get_loan" in memory.guide(chat("pay_fine"), None, BUDGET).text
    assert "call get_loan" not in memory.guide(chat("pay_fine", *LOOKED_UP), None, BUDGET).text


def test_facts_are_kept_once() -> None:
    once, twice = Facts.build(DESK, SETTING), Facts.build([*DESK, *DESK], SETTING)
    assert once.size() == twice.size()


def test_h_epm_follows_a_routine_and_recalls_where_there_is_none() -> None:
    memory = HybridMemory.build(DESK, SETTING)
    routine = memory.guide(chat("pay_fine", LOOKED_UP[0]), None, BUDGET).text
    assert "nearly always" in routine and read_tools(routine) == {"get_loan"}
    open_ = memory.guide(chat("pay_fine", *LOOKED_UP), None, BUDGET).text
    assert "In a state like this" in open_ and "pay_fine" in read_tools(open_)


@pytest.mark.parametrize("memory", [Draft, ExpG])
def test_tool_lists_are_described_anew_and_left_as_they_were(memory: type[Draft] | type[ExpG]) -> None:
    run_, messages = moments()[0]
    tools = tools_of(run_)
    before = copy.deepcopy(tools)
    advice = memory.build(split()[0], SETTING).guide(messages, tools, BUDGET)
    assert tools == before and advice.tools is not None and len(advice.tools) == len(tools)
    assert [t["function"]["name"] for t in advice.tools] == [t["function"]["name"] for t in tools]
    assert json.dumps(advice.tools) != json.dumps(tools)
    assert memory.build(split()[0], SETTING).guide(messages, None, BUDGET).tools is None


def test_draft_describes_tools_of_any_shape() -> None:
    memory = Draft.build(split()[0], SETTING)
    flat = {"name": "get_order", "description": "Old words", "input_schema": {"type": "object"}}
    odd = [flat, {"name": "never_seen", "description": "kept"}, {"type": "web_search"}]
    tools = memory.guide([], odd, BUDGET).tools
    assert tools is not None and tools[1:] == tuple(odd[1:])
    assert "get_order(order_id=<ORDER_ID>)" in tools[0]["description"] and "Old words" not in tools[0]["description"]


def test_draft_tells_where_a_value_is_found_until_it_is_seen() -> None:
    memory = Draft.build(split()[0], SETTING)
    told = {True: 0, False: 0}
    for run_, messages in moments():
        text = memory.guide(messages, tools_of(run_), 600).text
        for source in re.findall(r"^call (\w+) to get", text, re.MULTILINE):
            done = any(source in json.dumps(m.get("tool_calls", "")) for m in messages)
            told[done] += 1
    assert told[False] and not told[True]


def test_expg_speaks_without_counts_and_quotes_errors() -> None:
    memory = ExpG.build(split()[0], SETTING)
    texts = [memory.guide(messages, tools_of(run_), BUDGET).text for run_, messages in moments()]
    assert any("Worked: " in text for text in texts) and any('fails with "' in text for text in texts)
    assert not any(re.search(r"\(\d+ of \d+ calls", text) for text in texts)
