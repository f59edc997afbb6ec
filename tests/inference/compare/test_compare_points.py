from __future__ import annotations

import pytest

from fresh.traces.messages import parse_messages
from graph_schema.trajectory import GoldAction, Outcome, Role, ToolSpec, Turn
from inference.compare.points import chat_before, held_out, openai_tools, tools_by_domain
from tests.compare_world import agent, call, desk_runs, run, user

GOLD = (
    GoldAction(tool="get_order", arguments={"order_id": "1"}),
    GoldAction(tool="cancel_order", arguments={"order_id": "1"}),
    GoldAction(tool="reboot", arguments={}, by_user=True),
)


def test_gold_that_is_still_to_come_is_needed() -> None:
    made = run(
        user("cancel order 1"),
        agent(call("get_order", "Error: no such order", error=True, order_id="9")),
        agent(call("get_order", order_id="1")),
        agent(text="Shall I?"),
        user("yes"),
        agent(call("cancel_order", order_id="1")),
        agent(call("get_order", order_id="1")),
        gold=GOLD,
    )
    points = held_out(made, 0, count=0).points
    assert [point.turn for point in points] == [1, 2, 5, 6]
    assert [point.needed for point in points] == [{"get_order", "cancel_order"}] * 2 + [{"cancel_order"}, None]


def test_without_gold_the_verified_calls_of_a_success_are_needed() -> None:
    turns = (
        user("x"),
        agent(call("get_order", "{}", order_id="1"), call("get_user", '{"a": 1}')),
        agent(call("cancel_order", "Error: not pending", error=True, order_id="1")),
        agent(call("cancel_order", "done", order_id="1")),
    )
    good = held_out(run(*turns, outcome=Outcome.SUCCESS), 0, count=0)
    assert [p.needed for p in good.points] == [{"get_user", "cancel_order"}, {"cancel_order"}, {"cancel_order"}]
    bad = held_out(run(*turns, outcome=Outcome.FAILURE), 0, count=0)
    assert [p.needed for p in bad.points] == [None] * 3


def test_failures_are_known_by_tool_kind_and_pattern() -> None:
    made = run(
        user("x"),
        agent(call("cancel_order", "Error: order 17 is not pending", error=True, order_id="17")),
        agent(call("cancel_order", "Error: order 18 is not pending", error=True, order_id="18", reason="none")),
        agent(call("cancel_order", "Error: no reason", error=True, order_id="18")),
        agent(call("get_order", None, order_id="18"), call("reboot", "Error: x", error=True, by_user=True)),
    )
    held = held_out(made, 3, count=0)
    assert [(f.turn, f.tool, sorted(f.arguments)) for f in held.failures] == [
        (1, "cancel_order", ["order_id"]),
        (2, "cancel_order", ["order_id", "reason"]),
        (3, "cancel_order", ["order_id"]),
    ]
    assert held.failures[0].kind == held.failures[1].kind != held.failures[2].kind
    assert [f.turn for f in held.first_failures] == [1, 3]
    assert [f.turn for f in held.first_failing_actions] == [1, 2]
    assert held.group == 3 and held.task == made.task_key


def test_writes_that_are_not_the_solutions_are_wrong() -> None:
    made = run(
        user("cancel order 1"),
        agent(call("cancel_order", order_id="1")),
        agent(call("refund_order", order_id="1")),
        gold=GOLD,
        outcome=Outcome.FAILURE,
    )
    assert held_out(made, 0, count=0).wrong == ((2, "refund_order"),)


def test_the_first_point_is_always_drawn_and_the_draw_repeats() -> None:
    made = run(user("x"), *(agent(call("get_order", order_id=str(i))) for i in range(20)))
    drawn = held_out(made, 0, count=4, seed=1).points
    assert len(drawn) == 4 and drawn[0].turn == 1 and drawn == held_out(made, 0, count=4, seed=1).points
    assert [p.turn for p in drawn] == sorted(p.turn for p in drawn)
    assert drawn != held_out(made, 0, count=4, seed=2).points
    assert held_out(run(user("x")), 0, count=4).points == ()


def test_the_chat_is_what_the_agent_saw() -> None:
    made = run(
        user("hello"),
        agent(call("get_order", "{}", order_id="1"), call("get_user", "not there", error=True), text="One moment."),
        user("", call("reboot", by_user=True)),
        Turn(role=Role.OTHER, text="checker: fine"),
        user("I rebooted", call("reboot", by_user=True)),
        agent(call("cancel_order", None)),
        policy="Be kind.",
    )
    chat = chat_before(made, 5)
    assert [m["role"] for m in chat] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert chat[0]["content"] == "Be kind." and chat[-1] == {"role": "user", "content": "I rebooted"}
    assert chat[2]["tool_calls"][0]["function"] == {"name": "get_order", "arguments": '{"order_id":"1"}'}
    assert chat[3]["tool_call_id"] == chat[2]["tool_calls"][0]["id"]
    assert "is_error" not in chat[3] and chat[4]["is_error"] is True
    assert len(chat_before(made, 99)) == 7  # the call without a result is there, no result is made up


def test_the_chat_reads_back_as_the_run() -> None:
    for made in desk_runs():
        back = parse_messages(chat_before(made, len(made.turns)))
        calls = [(c.tool, c.arguments, c.status) for turn in back for c in turn.calls]
        assert calls == [(c.tool, c.arguments, c.status) for _, c in made.calls()]
        assert [t.text for t in back if t.role is Role.USER] == [t.text for t in made.turns if t.role is Role.USER]


def test_tools_are_those_that_worked_in_the_domain() -> None:
    runs = [
        run(agent(call("get_order", order_id="1", full=True), call("made_up", "Error: unknown tool", error=True))),
        run(agent(call("get_order", order_id="2", limit=3), call("get_order", order_id="3", limit=0.5))),
        run(agent(call("send", to="x")), domain="mail", tools=(ToolSpec(name="listed", description="only listed"),)),
    ]
    found = tools_by_domain(runs, {"send": ToolSpec(name="send", description="Sends.")})
    assert set(found["desk"]) == {"get_order"} and set(found["mail"]) == {"send", "listed"}
    assert found["desk"]["get_order"].parameters == {
        "type": "object",
        "properties": {"full": {"type": "boolean"}, "limit": {"type": "number"}, "order_id": {"type": "string"}},
        "required": ["order_id"],
    }
    (listed,) = (t for t in openai_tools(found["mail"]) if t["function"]["name"] == "send")
    assert listed["type"] == "function" and listed["function"]["description"] == "Sends."


@pytest.mark.parametrize("values", [(1, "x"), ([], {}), (None, True)])
def test_arguments_of_several_types_have_none(values: tuple[object, object]) -> None:
    found = tools_by_domain([run(agent(*(call("get", x=value) for value in values)))])
    assert found["desk"]["get"].parameters["properties"] == {"x": {}}
