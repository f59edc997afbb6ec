import json
import random

import pytest
from expg_builders import GET_PARCEL, SEND_PARCEL, agent, call, run, user
from hypothesis import given
from hypothesis import strategies as st

from fresh.expg import ASPECTS, Aspect, AspectGroup, Experience, Party, RuleEvaluator
from fresh.expg.shapes import collect_shapes
from graph_schema.trajectory import Outcome, ToolSpec, Trajectory

PARCEL = {"parcel_id": "P00017", "state": "waiting", "depot": "Northgate"}


def judge(trajectory: Trajectory) -> list[Experience]:
    return RuleEvaluator().evaluate_trajectory(trajectory)


def verdict(experience: Experience, aspect: Aspect) -> int | None:
    return None if aspect.place in experience.judgement.unknown else experience.scores[aspect.place]


def clean_run(**more: object) -> Trajectory:
    return run(
        user("Please send P00017 within 3 days"),
        agent(call("get_parcel", {"parcel_id": "P00017"}, PARCEL)),
        agent(call("send_parcel", {"parcel_id": "P00017", "days": 3}, {"parcel_id": "P00017", "state": "sent"})),
        agent(text="It was waiting at Northgate and is sent now."),
        **more,  # type: ignore[arg-type]
    )


def test_aspects_are_ten_in_order_and_grouped() -> None:
    assert len(ASPECTS) == 10
    assert [a.place for a in ASPECTS] == list(range(10))
    groups = [a.group for a in ASPECTS]
    assert groups == [AspectGroup.USE] * 2 + [AspectGroup.INPUT] * 4 + [AspectGroup.RESPONSE] * 4
    parties = [Party.ENVIRONMENT] * 2 + [Party.AGENT] * 4 + [Party.TOOL] * 4
    assert [a.party for a in ASPECTS] == parties


def test_a_clean_run_is_perfect_and_says_what_it_could_not_decide() -> None:
    read, write = judge(clean_run())
    assert read.scores == write.scores == (1,) * 10
    assert read.invocation.origins == {"parcel_id": "request"}
    assert verdict(read, Aspect.MATCHES_FUNCTION) is None  # no usual shape is known from one call
    assert "counted as passed: matches_function" in read.judgement.explanation
    assert verdict(read, Aspect.HELPS_TASK) == 1
    assert read.invocation.previous is None and write.invocation.previous == "get_parcel"


@pytest.mark.parametrize(
    ("arguments", "faulty", "why"),
    [
        ({}, Aspect.REQUIRED_GIVEN, "missing parcel_id"),
        ({"parcel_id": "P00017", "colour": "red"}, Aspect.VALUES_VALID, "unsupported colour"),
        ({"parcel_id": "P00017", "detail": "medium"}, Aspect.VALUES_VALID, "detail break enum"),
        ({"parcel_id": 17}, Aspect.FORMAT_RIGHT, "parcel_id break type"),
        ({"parcel_id": "P99999"}, Aspect.MATCHES_CONTEXT, "parcel_id stood nowhere"),
        ({"parcel_id": "P99999"}, Aspect.NEEDED_NOW, "before parcel_id was known"),
    ],
)
def test_input_faults(arguments: dict[str, object], faulty: Aspect, why: str) -> None:
    (found,) = judge(run(user("Where is P00017?"), agent(call("get_parcel", arguments, PARCEL))))
    assert verdict(found, faulty) == 0
    assert why in found.judgement.explanation
    if faulty in {Aspect.REQUIRED_GIVEN, Aspect.VALUES_VALID, Aspect.FORMAT_RIGHT}:
        others = {Aspect.REQUIRED_GIVEN, Aspect.VALUES_VALID, Aspect.FORMAT_RIGHT} - {faulty}
        assert {verdict(found, other) for other in others} == {1}


def test_unreadable_arguments_fail_the_format_and_are_kept() -> None:
    (found,) = judge(
        run(user("Where is P00017?"), agent(call("get_parcel", "{parcel_id: P00017", "Error: bad JSON", error=True)))
    )
    assert verdict(found, Aspect.FORMAT_RIGHT) == 0 and verdict(found, Aspect.REQUIRED_GIVEN) == 0
    assert verdict(found, Aspect.VALUES_VALID) is None
    assert found.invocation.input is None and found.invocation.raw_input == "{parcel_id: P00017"


def test_without_a_schema_its_aspects_are_unknown() -> None:
    (found,) = judge(run(user("Where is P00017?"), agent(call("get_parcel", {"x": "P00017"}, PARCEL)), tools=None))
    for aspect in (Aspect.REQUIRED_GIVEN, Aspect.VALUES_VALID, Aspect.FORMAT_RIGHT):
        assert verdict(found, aspect) is None
        assert found.scores[aspect.place] == 1


def test_remote_references_and_broken_schemas_decide_nothing_and_open_no_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import socket

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    for schema in (
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}},
        {"type": "nonsense"},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
    ):
        spec = ToolSpec(name="odd", parameters=schema)
        (found,) = judge(run(user("Use A1B2"), agent(call("odd", {"a": "A1B2"}, "fine")), tools=(spec,)))
        assert verdict(found, Aspect.FORMAT_RIGHT) is None


def test_an_error_scores_zero_on_all_of_response() -> None:
    (found,) = judge(
        run(user("Where is P00017?"), agent(call("get_parcel", {"parcel_id": "P00017"}, "Error: closed", error=True)))
    )
    assert found.scores[6:] == (0, 0, 0, 0)
    assert found.scores[2:6] == (1, 1, 1, 1)
    assert found.invocation.success is False


def test_empty_and_unused_responses() -> None:
    empty, unused = judge(
        run(
            user("Where are P00017 and P00018?"),
            agent(call("get_parcel", {"parcel_id": "P00017"}, [])),
            agent(call("get_parcel", {"parcel_id": "P00018"}, {"parcel_id": "P00018", "depot": "Southgate"})),
            agent(text="I cannot say."),
        )
    )
    assert verdict(empty, Aspect.MEANINGFUL) == 0
    assert verdict(empty, Aspect.HELPS_TASK) is None
    assert verdict(unused, Aspect.MEANINGFUL) == 1
    assert verdict(unused, Aspect.HELPS_TASK) == 0


def test_a_silent_agent_may_have_used_what_it_read() -> None:
    other = call("get_parcel", {"parcel_id": "P00018"}, {"parcel_id": "P00018", "depot": "Southgate"})
    first, _ = judge(
        run(user("P00017 or P00018?"), agent(call("get_parcel", {"parcel_id": "P00017"}, PARCEL)), agent(other))
    )
    assert verdict(first, Aspect.HELPS_TASK) is None


def test_only_a_read_can_be_of_no_use() -> None:
    note = ToolSpec(name="hand_over", parameters={})
    (found,) = judge(
        run(user("Help"), agent(call("hand_over", {}, "Transferred")), agent(text="Goodbye."), tools=(note,))
    )
    assert verdict(found, Aspect.HELPS_TASK) is None


def test_a_run_cut_off_after_the_call_decides_no_use() -> None:
    (found,) = judge(run(user("Where is P00017?"), agent(call("get_parcel", {"parcel_id": "P00017"}, PARCEL))))
    assert verdict(found, Aspect.HELPS_TASK) is None


def test_unusual_shape() -> None:
    usual = [
        run(
            user(f"Where is P{n:05d}?"),
            agent(call("get_parcel", {"parcel_id": f"P{n:05d}"}, {"parcel_id": f"P{n:05d}", "state": "waiting"})),
            id=f"run-{n}",
        )
        for n in range(6)
    ]
    odd = [
        run(user("Where is P00100?"), agent(call("get_parcel", {"parcel_id": "P00100"}, answer)), id=f"odd-{i}")
        for i, answer in enumerate(["queued for later", {"weight": 3, "height": 4}, {"parcel_id": "P00100"}])
    ]
    shapes = collect_shapes([*usual, *odd])
    verdicts = [verdict(RuleEvaluator().evaluate_trajectory(t, None, shapes)[0], Aspect.MATCHES_FUNCTION) for t in odd]
    assert verdicts == [0, 0, 1]
    other = run(user("Where is P00100?"), agent(call("get_parcel", {"parcel_id": "P00100"}, "text")), domain="shop")
    assert verdict(RuleEvaluator().evaluate_trajectory(other, None, shapes)[0], Aspect.MATCHES_FUNCTION) is None


def test_an_answer_about_another_object() -> None:
    (found,) = judge(
        run(user("Where is P00017?"), agent(call("get_parcel", {"parcel_id": "P00017"}, {"parcel_id": "P00099"})))
    )
    assert verdict(found, Aspect.RIGHT_FOR_INPUT) == 0


def test_a_repeat_for_nothing_and_a_repeat_after_a_change() -> None:
    read = call("get_parcel", {"parcel_id": "P00017"}, PARCEL)
    write = call("send_parcel", {"parcel_id": "P00017", "days": 1}, {"state": "sent"})
    asked = user("Send P00017 in 1 day")
    assert [verdict(e, Aspect.NEEDED_NOW) for e in judge(run(asked, agent(read), agent(read)))] == [1, 0]
    changed = judge(run(asked, agent(read), agent(write), agent(read)))
    assert [verdict(e, Aspect.NEEDED_NOW) for e in changed] == [1, 1, 1]
    spoken = judge(run(asked, agent(read), user("Look again, please"), agent(read)))
    assert verdict(spoken[1], Aspect.NEEDED_NOW) == 1


def test_calls_side_by_side_do_not_inform_each_other() -> None:
    answer = {"parcel_id": "P00017", "label": "LX-4411"}
    reading = call("get_parcel", {"parcel_id": "P00017"}, answer)
    guessing = call("get_parcel", {"parcel_id": "LX-4411"}, PARCEL)
    together = judge(run(user("P00017 please"), agent(reading, guessing)))
    in_turn = judge(run(user("P00017 please"), agent(reading), agent(guessing)))
    assert verdict(together[1], Aspect.MATCHES_CONTEXT) == 0
    assert verdict(in_turn[1], Aspect.MATCHES_CONTEXT) == 1
    assert in_turn[1].invocation.origins == {"parcel_id": "result"}


def test_a_tool_that_was_not_offered() -> None:
    (found,) = judge(run(user("Fly me to the moon"), agent(call("fly", {}, "Error: unknown tool fly", error=True))))
    assert verdict(found, Aspect.RIGHT_TOOL) == 0
    (unlisted,) = judge(run(user("Go"), agent(call("fly", {}, "Tool 'fly' not found", error=True)), tools=None))
    assert verdict(unlisted, Aspect.RIGHT_TOOL) == 0


def test_a_tool_replaced_at_once() -> None:
    wrong = call("get_letter", {"letter_id": "P00017"}, "Error: no letter", error=True)
    right = call("get_parcel", {"parcel_id": "P00017"}, PARCEL)
    letter = ToolSpec(name="get_letter", effect=GET_PARCEL.effect)
    found = judge(run(user("Find P00017"), agent(wrong), agent(right), tools=(letter, GET_PARCEL)))
    assert verdict(found[0], Aspect.RIGHT_TOOL) == 0


def test_dates_numbers_and_prose_may_be_composed() -> None:
    spec = ToolSpec(name="note", parameters={})
    arguments = {"day": "2024-05-15", "amount": 41.5, "text": "Parcel is late because of the snow storm up north"}
    (found,) = judge(run(user("Note it for May 15"), agent(call("note", arguments, "ok")), tools=(spec,)))
    assert verdict(found, Aspect.MATCHES_CONTEXT) is None


def test_unanswered_calls_and_the_users_own_are_no_experiences() -> None:
    own = call("get_parcel", {"parcel_id": "P00017"}, PARCEL, by_user=True)
    open_call = call("get_parcel", {"parcel_id": "P00017"}, None)
    assert judge(run(user("Hello", own), agent(open_call))) == []


def test_the_outcome_of_the_run_changes_nothing() -> None:
    found = [judge(clean_run(outcome=outcome)) for outcome in Outcome]
    assert found[0] == found[1] == found[2]


def test_h_depends_on_tool_context_input_and_response_alone() -> None:
    base = judge(clean_run())[1].key
    assert judge(clean_run(id="other", task="t9"))[1].key == base
    longer = clean_run()
    first = longer.turns[0].model_copy(update={"text": longer.turns[0].text + " " + "x" * 5000 + "!"})
    other = longer.turns[0].model_copy(update={"text": longer.turns[0].text + " " + "x" * 5000 + "?"})
    keys = {judge(run(t, *longer.turns[1:], request="same"))[1].key for t in (first, other)}
    assert len(keys) == 2 and base not in keys


def test_run_timestamp_and_given_time() -> None:
    trajectory = run(user("P00017", time=12.5), agent(call("get_parcel", {"parcel_id": "P00017"}, PARCEL)))
    assert judge(trajectory)[0].invocation.time == 12.5
    assert RuleEvaluator().evaluate_trajectory(trajectory, time=3.0)[0].invocation.time == 3.0


def test_the_callers_tools_come_first() -> None:
    stricter = GET_PARCEL.model_copy(
        update={"parameters": {**GET_PARCEL.parameters, "required": ["parcel_id", "detail"]}}
    )
    trajectory = run(user("P00017"), agent(call("get_parcel", {"parcel_id": "P00017"}, PARCEL)))
    (found,) = RuleEvaluator().evaluate([trajectory], {"get_parcel": stricter})
    assert verdict(found, Aspect.REQUIRED_GIVEN) == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["get_parcel", "send_parcel", "odd"]), st.dictionaries(st.text(max_size=8), JSON), JSON
        ),
        max_size=4,
    ),
    st.text(),
)
def test_any_run_is_judged_the_same_twice_and_errors_stay_zero(
    calls: list[tuple[str, dict[str, object], object]], text: str
) -> None:
    made = [
        agent(call(tool, arguments, json.dumps(answer), error=i % 2 == 1), text=text)
        for i, (tool, arguments, answer) in enumerate(calls)
    ]
    trajectory = run(user(text), *made, tools=(GET_PARCEL, SEND_PARCEL))
    first, second = judge(trajectory), judge(trajectory)
    assert first == second
    assert len(first) == len(calls)
    for i, experience in enumerate(first):
        assert all(experience.scores[place] == 1 for place in experience.judgement.unknown)
        if i % 2 == 1:
            assert experience.scores[6:] == (0, 0, 0, 0)
            assert not {6, 7, 8, 9} & set(experience.judgement.unknown)


def test_shapes_do_not_depend_on_the_order_of_runs() -> None:
    runs = [
        run(user("P00017"), agent(call("get_parcel", {"parcel_id": "P00017"}, answer)), id=f"r{i}")
        for i, answer in enumerate([PARCEL] * 4 + ["text", [1], {"a": 1}, 3.5])
    ]
    expected = {e.key: e.scores for e in RuleEvaluator().evaluate(runs)}
    random.Random(1).shuffle(runs)
    assert {e.key: e.scores for e in RuleEvaluator().evaluate(runs)} == expected
