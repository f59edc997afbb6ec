from __future__ import annotations

import pytest
from hand_made import Refused, call, calls, effect_of, run, says, step, user
from hypothesis import given
from hypothesis import strategies as st

from fresh.mining import Credit, credit_run, is_gold
from graph_schema import GoldAction, Outcome, Trajectory

LEND = ("lend", {"book": "BK-71"})
SEEN = step("look", {"book": "BK-71"}, {"book": "BK-71", "state": "in"})


def credits(trajectory: Trajectory) -> list[str]:
    return [str(item.credit) for item in credit_run(trajectory, effect_of)]


def test_a_failed_run_keeps_its_good_reads() -> None:
    failed = run(user("Lend me BK-71"), SEEN, step("end", {"book": "BK-71"}), outcome=Outcome.FAILURE, gold=[LEND])
    assert credits(failed) == ["verified_read", "wrong"]


def test_a_successful_run_does_not_whitewash_its_failed_calls() -> None:
    won = run(user("Lend me BK-71"), step("lend", {"book": "BK-17"}, Refused("no such book")), SEEN, step(*LEND))
    assert credits(won) == ["failed", "verified_read", "verified_write"]


def test_a_gold_write_in_a_failed_run_is_verified() -> None:
    failed = run(user("Lend me BK-71"), step(*LEND), outcome=Outcome.FAILURE, gold=[LEND, ("end", {"book": "BK-9"})])
    assert credits(failed) == ["verified_write"]


def test_gold_actions_are_never_required() -> None:
    assert credits(run(user("BK-71"), step(*LEND), outcome=Outcome.FAILURE)) == ["unverified"]
    assert credits(run(user("BK-71"), step(*LEND))) == ["verified_write"]


def test_an_unknown_outcome_never_fails_an_action() -> None:
    unknown = run(
        user("BK-71"), SEEN, step(*LEND), step("lend", {"book": "QX-99"}), outcome=Outcome.UNKNOWN, gold=[LEND]
    )
    assert credits(unknown) == ["verified_read", "verified_write", "unverified"]


def test_a_write_with_an_identifier_from_nowhere_is_premature_only_where_the_run_failed() -> None:
    turns = user("Lend me something"), step("lend", {"book": "BK-71"})
    assert credits(run(*turns, outcome=Outcome.FAILURE, gold=[("lend", {"book": "BK-2"})])) == ["premature"]
    assert credits(run(*turns)) == ["verified_write"]
    assert credits(run(*turns, outcome=Outcome.UNKNOWN)) == ["unverified"]


def test_the_same_look_again_is_a_repetition_unless_something_may_have_changed() -> None:
    assert credits(run(user("x"), SEEN, SEEN)) == ["verified_read", "repeated"]
    assert credits(run(user("x"), SEEN, step(*LEND), SEEN)) == ["verified_read", "verified_write", "verified_read"]
    other = step("look", {"book": "BK-71"}, {"book": "BK-71", "state": "out"})
    assert credits(run(user("x"), SEEN, other)) == ["verified_read", "verified_read"]


def test_the_same_refused_call_again_is_a_repetition() -> None:
    refused = step("lend", {"book": "BK-1"}, Refused("no"))
    assert credits(run(user("x"), refused, refused, SEEN, refused)) == [
        "failed",
        "repeated",
        "verified_read",
        "repeated",
    ]


def test_a_call_without_result_is_nothing_yet() -> None:
    assert credits(run(user("BK-71"), step(*LEND, None), outcome=Outcome.FAILURE, gold=[])) == ["unanswered"]
    assert Credit.UNANSWERED.sign == 0


def test_arguments_that_could_not_be_read_fail_whatever_came_back() -> None:
    assert credits(run(user("x"), step("lend", None, "done"))) == ["failed"]


def test_an_empty_answer_verifies_nothing() -> None:
    assert (
        credits(run(user("x"), step("list_all", {}, "[]"), step("look", {"book": "B-1"}, "  "))) == ["unverified"] * 2
    )


def test_all_parallel_calls_are_credited_in_order() -> None:
    both = calls(call("look", {"book": "BK-71"}, {"a": 1}), call("look", {"book": "BK-72"}, Refused("no")))
    items = credit_run(run(user("x"), both), effect_of)
    assert [(i.turn, i.call.id, str(i.credit)) for i in items] == [
        (1, "r/1/0", "verified_read"),
        (1, "r/1/1", "failed"),
    ]


def test_the_users_own_calls_are_not_the_agents_experience() -> None:
    own = call("look", {"book": "BK-71"}, {"a": 1}).model_copy(update={"by_user": True})
    assert credits(run(user("x"), calls(own))) == []


@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        ({"book": "BK-71", "weeks": 2}, True),
        ({"book": "bk-71 ", "weeks": 2.0}, True),
        ({"book": "BK-71", "weeks": "2", "note": None}, True),
        ({"book": "BK-71", "weeks": 2, "note": "x"}, False),
        ({"book": "BK-71"}, False),
        ({"book": "BK-72", "weeks": 2}, False),
        (None, False),
    ],
)
def test_what_counts_as_the_gold_action(arguments: dict[str, object] | None, same: bool) -> None:
    gold = GoldAction(tool="lend", arguments={"book": "BK-71", "weeks": 2})
    assert is_gold(call("lend", arguments), gold) is same
    assert not is_gold(call("end", arguments), gold)


def test_lists_of_gold_arguments_may_stand_in_any_order() -> None:
    gold = GoldAction(tool="lend", arguments={"books": ["A-1", "A-2"]})
    assert is_gold(call("lend", {"books": ["A-2", "A-1"]}), gold)
    assert not is_gold(call("lend", {"books": ["A-1", "A-1"]}), gold)


_STEPS = st.builds(
    step,
    st.sampled_from(["look", "lend", "end", "ask_person"]),
    st.sampled_from([{"book": "BK-71"}, {"book": "BK-72"}, {}, None]),
    st.sampled_from([{"book": "BK-71"}, "done", "[]", Refused("no"), None]),
)


@given(st.lists(_STEPS, max_size=8), st.sampled_from(Outcome), st.sampled_from([None, [], [LEND]]))
def test_signs_follow_what_a_call_itself_showed(steps, outcome, gold) -> None:  # type: ignore[no-untyped-def]
    items = credit_run(run(user("Hello"), says("Hi"), *steps, outcome=outcome, gold=gold), effect_of)
    assert len(items) == len(steps)
    for item in items:
        if item.call.status == "error":
            assert item.credit.sign == -1
        if item.call.status == "unanswered":
            assert item.credit.sign == 0
        if outcome is Outcome.UNKNOWN and item.call.status == "ok" and item.effect == "write":
            assert item.call.arguments is None or item.credit.sign >= 0
        if outcome is Outcome.SUCCESS and item.credit.sign < 0:
            assert item.call.status == "error" or item.call.arguments is None or item.credit is Credit.REPEATED
