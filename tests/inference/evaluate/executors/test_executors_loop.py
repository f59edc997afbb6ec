"""Whole runs in the real environment against a server with scripted answers, well-behaved and not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import ORDER, ChatServer, action, calls, chat_model, say

from fresh.gate import Decision, Todo, Verdict
from fresh.live import live_call
from graph_schema.errors import EvaluatorError
from inference.evaluate.executors import Executor, LoopSettings, Protocol, ScriptedUser, SlotFile
from inference.evaluate.executors.episode import End, Episode, Runner
from inference.evaluate.executors.measure import measure, score
from inference.evaluate.tau2.environment import Domain

if TYPE_CHECKING:
    from tau2.data_model.tasks import Task

Run = Callable[..., Episode]
FIND = action("find_user_id_by_email", email="daiki.silva6295@example.com")
LOOK = action("get_order_details", order_id="#W8835847")
ASK = say(json.dumps({"say": "Shall I cancel order #W8835847 because it was ordered by mistake (yes/no)?"}))
CANCEL = action("cancel_pending_order", **ORDER)
OTHER = action("cancel_pending_order", order_id="#W2890441", reason="no longer needed")


def tool_answers(episode: Episode) -> list[str]:
    return [m["content"] for m in episode.dialogue.history if m["role"] == "tool"]


def executed(episode: Episode) -> list[str]:
    return [call.name for message in episode.dialogue.messages for call in getattr(message, "tool_calls", None) or ()]


def test_a_run_that_does_what_is_wanted_is_rewarded(run: Run, retail: Domain, server: ChatServer) -> None:
    server.script([FIND, LOOK, ASK, CANCEL])
    episode = run()
    measured = measure(retail, episode, score(retail, episode))
    assert (episode.ended, measured.reward, measured.right_writes, measured.wrong_writes) == (End.DONE, 1.0, 1, 0)
    assert executed(episode) == ["find_user_id_by_email", "get_order_details", "cancel_pending_order"]
    assert (measured.steps, measured.prompt_tokens, measured.cached_tokens) == (4, 400, 240)
    assert [m["content"] for m in episode.dialogue.history if m["role"] == "user"][1] == "Yes, please go ahead."


def test_requests_do_not_stream_and_keep_the_prefix(run: Run, server: ChatServer) -> None:
    server.script([FIND, LOOK, ASK, CANCEL])
    run()
    assert all(request["stream"] is False and request["temperature"] == 0 for request in server.requests)
    for before, after in zip(server.requests, server.requests[1:], strict=False):
        assert after["messages"][: len(before["messages"])] == before["messages"]
    assert all("tools" not in request for request in server.requests)


def test_a_write_that_nobody_wanted_counts_as_harm(run: Run, retail: Domain, server: ChatServer) -> None:
    pending = next(key for key, order in retail.records["orders"].items() if order["status"] == "pending")
    server.script([action("cancel_pending_order", order_id=pending, reason="no longer needed"), FIND, CANCEL])
    episode = run()
    measured = measure(retail, episode, score(retail, episode))
    assert (measured.wrong_writes, measured.right_writes, measured.reward) == (1, 1, 0.0)


def test_a_write_that_the_environment_refuses_is_no_harm(run: Run, retail: Domain, server: ChatServer) -> None:
    server.script([OTHER, CANCEL])
    measured = measure(retail, episode := run(), score(retail, episode))
    assert (measured.refused_writes, measured.wrong_writes, measured.reward) == (1, 0, 1.0)


def test_several_native_calls_in_one_message_are_answered_one_by_one(run: Run, server: ChatServer) -> None:
    both = calls(
        ("find_user_id_by_email", {"email": "daiki.silva6295@example.com"}),
        ("no_such_tool", {}),
        ("get_order_details", '{"order_id": "#W88'),
        ("get_order_details", {"order_id": "#W8835847"}),
    )
    server.script([both, calls(("cancel_pending_order", ORDER))])
    episode = run(Protocol.TOOLS)
    answers = tool_answers(episode)
    assert answers[0] == "daiki_silva_2903"
    assert "no_such_tool" in answers[1]
    assert answers[2].startswith("Error: the arguments of get_order_details cannot be read: not JSON")
    assert json.loads(answers[3])["order_id"] == "#W8835847"
    assert [m["tool_call_id"] for m in server.requests[1]["messages"] if m["role"] == "tool"] == [
        "id0",
        "id1",
        "id2",
        "id3",
    ]
    sent = [c for m in server.requests[1]["messages"] for c in m.get("tool_calls", ())]
    assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in sent)
    assert episode.ended is End.DONE
    assert episode.unreadable == 1


def test_calls_after_the_end_of_the_conversation_are_not_made(run: Run, server: ChatServer) -> None:
    server.script([calls(("cancel_pending_order", ORDER), ("transfer_to_human_agents", {"summary": "x"}))])
    episode = run(Protocol.TOOLS)
    assert executed(episode) == ["cancel_pending_order"]
    assert tool_answers(episode)[1] == "Error: the conversation is over."


@pytest.mark.parametrize("unusable", [say(None), say(""), say("I would say: no."), say('{"tool": 3}'), say("[" * 5000)])
def test_unusable_answers_are_complained_of_once_and_end_the_run(
    run: Run, server: ChatServer, unusable: dict[str, Any]
) -> None:
    server.script([unusable])
    episode = run()
    assert (episode.ended, episode.unreadable, len(episode.steps)) == (End.STUCK, 2, 3)
    assert "Your last answer could not be used" in server.requests[1]["messages"][-1]["content"]
    assert "Your last answer" not in json.dumps(episode.dialogue.history)


def test_a_call_without_a_name_is_unusable(run: Run, server: ChatServer) -> None:
    server.script([{"role": "assistant", "content": None, "tool_calls": [{"id": "a", "type": "function"}]}])
    assert run(Protocol.TOOLS).unreadable == 2


@pytest.mark.parametrize(("script", "steps"), [([LOOK], 3), ([FIND, LOOK] * 3, 6)])
def test_going_round_in_circles_is_stuck(
    run: Run, retail: Domain, server: ChatServer, script: list[dict[str, Any]], steps: int
) -> None:
    server.script(script)
    episode = run(max_steps=20)
    assert (episode.ended, len(episode.steps)) == (End.STUCK, steps)
    reward = score(retail, episode)
    assert reward.reward == 0.0
    assert reward.action_checks


def test_too_many_steps_are_stuck(run: Run, server: ChatServer) -> None:
    server.choose = lambda body: action("calculate", expression=f"{len(body['messages'])} + 1")
    assert (run(max_steps=5).ended, len(server.requests)) == (End.STUCK, 5)


def test_the_user_gives_up(run: Run, server: ChatServer) -> None:
    server.choose = lambda body: say(json.dumps({"say": f"Message {len(body['messages'])}."}))
    episode = run(max_user_turns=2)
    assert episode.ended is End.USER_LEFT
    assert episode.dialogue.messages[-1].content.endswith("###STOP###")


def test_a_handover_ends_the_run(run: Run, server: ChatServer) -> None:
    server.script([action("transfer_to_human_agents", summary="too hard")])
    assert (run().ended, len(server.requests)) == (End.TRANSFERRED, 1)


def test_a_server_error_is_tried_again(run: Run, server: ChatServer) -> None:
    server.script([500, b"not json", b'{"choices": []}', FIND, CANCEL])
    assert run().ended is End.DONE
    assert len(server.requests) == 5


def test_a_wrong_model_name_ends_with_one_line(retail: Domain, task: Task, server: ChatServer) -> None:
    executor = Executor(chat_model(server, model="wrong"), Protocol.JSON, "policy", retail.tools, max_tokens=10)
    runner = Runner(retail, task, executor, ScriptedUser(task, [], 3), LoopSettings())
    with pytest.raises(EvaluatorError, match="no model wrong") as raised:
        runner.run()
    assert "\n" not in str(raised.value)
    assert "secret-key" not in str(raised.value)
    assert len(server.requests) == 1


class Notes:
    """A note that says how long the conversation is."""

    def note(self, messages: Sequence[Any], tools: Sequence[Any], budget: int) -> str:
        return f"NOTE {len(messages)} of {budget}"


def test_notes_stand_at_the_end_of_the_request_and_not_in_the_history(run: Run, server: ChatServer) -> None:
    server.script([FIND, LOOK, CANCEL])
    episode = run(adviser=Notes(), guidance_tokens=77)
    assert "NOTE" not in json.dumps(episode.dialogue.history)
    for request, at in zip(server.requests, (3, 5, 7), strict=True):
        assert request["messages"][-1]["role"] != "system"
        assert request["messages"][-1]["content"].endswith(f"\n\nNOTE {at} of 77")
        assert json.dumps(request["messages"]).count("NOTE") == 1


class FakeJudge:
    """Judges writes as told; reads pass."""

    def __init__(self, judge: Callable[[Any, list[Mapping[str, Any]]], dict[str, Any]]) -> None:
        self.judge = judge
        self.asked: list[str] = []

    def reads(self, tool: str, tools: Sequence[Any] | None = None) -> bool:
        return tool.startswith(("get", "find"))

    def gate(self, tool_call: Any, messages: Sequence[Any], tools: Any = None, **_: Any) -> Decision:
        call = live_call(tool_call)
        if self.reads(call.tool):
            return Decision(verdict=Verdict.ALLOW, reason="a read", call=call)
        self.asked.append(call.tool)
        return Decision(call=call, **self.judge(call, list(messages)))


ALLOW = {"verdict": Verdict.ALLOW, "reason": "fine"}
QUESTION = Todo(kind="ask_user", tool="cancel_pending_order", text="Shall I cancel order #W8835847 (yes or no)?")
READ = Todo(kind="call", tool="get_order_details", arguments={"order_id": "#W8835847"}, text="look first")


def said(messages: Sequence[Mapping[str, Any]], words: str) -> bool:
    return any(words in str(message.get("content")) for message in messages)


def test_a_missing_yes_is_asked_for_and_the_call_made_once_it_came(run: Run, server: ChatServer) -> None:
    revise = {"verdict": Verdict.REVISE, "reason": "no yes", "todo": (QUESTION,), "allowed_tools": ()}
    gate = FakeJudge(lambda call, messages: ALLOW if said(messages, "Yes, please go ahead.") else revise)
    server.script([CANCEL])
    episode = run(gate=gate)
    assert (episode.ended, episode.held, len(episode.steps)) == (End.DONE, 1, 1)
    assert executed(episode) == ["cancel_pending_order"]
    assert tool_answers(episode)[0].startswith("Error: this call was not executed.")
    assert said(episode.dialogue.history, "Shall I cancel order #W8835847")


def test_a_no_holds_the_call_back_and_narrows_the_next_step(run: Run, server: ChatServer) -> None:
    question = QUESTION.model_copy(update={"text": "Shall I cancel order #W1111111 (yes or no)?"})
    revise = {
        "verdict": Verdict.REVISE,
        "reason": "no yes",
        "todo": (question,),
        "allowed_tools": ("get_user_details",),
    }
    server.script([OTHER, say(json.dumps({"say": "I see."}))])
    episode = run(gate=FakeJudge(lambda call, messages: revise), max_user_turns=2)
    assert executed(episode) == []
    assert said(episode.dialogue.history, "No. I want to change the book shelf")
    forms = server.requests[1]["response_format"]["json_schema"]["schema"]["anyOf"]
    assert [form["properties"].get("tool", {}).get("const") for form in forms] == ["get_user_details", None]
    assert len(server.requests[2]["response_format"]["json_schema"]["schema"]["anyOf"]) > 10


@pytest.mark.parametrize("run_reads", [True, False])
def test_reads_that_are_asked_for_are_made_by_the_loop_if_wanted(run: Run, server: ChatServer, run_reads: bool) -> None:
    revise = {
        "verdict": Verdict.REVISE,
        "reason": "not looked at",
        "todo": (READ,),
        "allowed_tools": ("get_order_details",),
    }
    gate = FakeJudge(lambda call, messages: ALLOW if said(messages, '"order_id": "#W8835847", "user') else revise)
    server.script([CANCEL, CANCEL, CANCEL] if run_reads else [CANCEL, LOOK, CANCEL])
    episode = run(gate=gate, run_reads=run_reads)
    assert episode.ended is End.DONE
    assert executed(episode) == ["get_order_details", "cancel_pending_order"]
    assert len(episode.steps) == (2 if run_reads else 3)
    second = server.requests[1]["response_format"]["json_schema"]["schema"]["anyOf"]
    assert (len(second) == 2) is not run_reads


def test_a_correction_leaves_only_its_candidates(run: Run, server: ChatServer) -> None:
    fix = Todo(
        kind="correct_argument",
        tool="cancel_pending_order",
        argument="order_id",
        value="#W2890441",
        candidates=("#W8835847",),
        text="replace order_id",
    )
    revise = {
        "verdict": Verdict.REVISE,
        "reason": "another order",
        "todo": (fix,),
        "allowed_tools": ("cancel_pending_order",),
    }
    gate = FakeJudge(lambda call, messages: ALLOW if call.arguments["order_id"] == "#W8835847" else revise)
    server.script([OTHER, CANCEL])
    assert run(gate=gate).ended is End.DONE
    form = server.requests[1]["response_format"]["json_schema"]["schema"]["anyOf"][0]
    assert form["properties"]["arguments"]["properties"]["order_id"]["enum"] == ["#W8835847"]


def test_a_transfer_hands_over_and_ends(run: Run, retail: Domain, server: ChatServer) -> None:
    handover = Todo(kind="call", tool="transfer_to_human_agents", arguments={"summary": "stuck"}, text="hand over")
    server.script([OTHER])
    episode = run(gate=FakeJudge(lambda c, m: {"verdict": Verdict.TRANSFER, "reason": "over", "todo": (handover,)}))
    assert episode.ended is End.TRANSFERRED
    assert executed(episode) == ["transfer_to_human_agents"]
    assert score(retail, episode).reward == 0.0


def test_one_refusal_does_not_discard_the_other_calls(run: Run, server: ChatServer) -> None:
    block = {"verdict": Verdict.BLOCK, "reason": "never", "allowed_tools": ()}
    gate = FakeJudge(
        lambda c, m: block if c.arguments is None or c.arguments["order_id"] != ORDER["order_id"] else ALLOW
    )
    wrong = {"order_id": "#W2890441", "reason": "no longer needed"}
    server.script(
        [calls(("cancel_pending_order", wrong), ("cancel_pending_order", "{oops"), ("cancel_pending_order", ORDER))]
    )
    episode = run(Protocol.TOOLS, gate=gate)
    assert [answer.startswith("Error: this call was not executed.") for answer in tool_answers(episode)] == [
        True,
        True,
        False,
    ]
    assert (executed(episode), episode.held) == (["cancel_pending_order"], 2)


def test_every_run_starts_from_the_saved_prefix(retail: Domain, task: Task, server: ChatServer) -> None:
    slot = SlotFile(server.base_url, "m")
    executor = Executor(chat_model(server), Protocol.JSON, retail.policy, retail.tools, max_tokens=10, prefix=slot)
    for _ in range(2):
        server.script([CANCEL])
        Runner(retail, task, executor, ScriptedUser(task, [], 3), LoopSettings()).run()
    assert [done for done, _ in server.slots] == ["erase", "save", "restore"]
    assert server.slots[1][1] == server.slots[2][1] != ""
    assert server.requests[0]["max_tokens"] == 1


def test_a_server_without_slots_is_said(retail: Domain, server: ChatServer) -> None:
    server.has_slots = False
    slot = SlotFile(server.base_url, "m")
    executor = Executor(chat_model(server), Protocol.JSON, "policy", retail.tools, max_tokens=10, prefix=slot)
    with pytest.raises(EvaluatorError, match="--slot-save-path"):
        executor.start()
