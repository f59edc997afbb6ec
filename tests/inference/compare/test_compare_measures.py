from __future__ import annotations

import pytest

from graph_schema.trajectory import GoldAction, Outcome
from inference.compare.measures import (
    borne_out,
    foreseen,
    harmful,
    matches,
    next_tool,
    score_run,
)
from inference.compare.points import Failure, HeldOut, held_out
from inference.compare.reading import Reader, Reading
from tests.compare_world import agent, call, run, user

READER = Reader({"get_order": ("order_id",), "cancel_order": ("order_id", "reason"), "refund": ("order_id",)})
NOTHING = Reading()


def says(*texts: str) -> list[Reading]:
    return [READER.read(text) for text in texts]


def held() -> HeldOut:
    """Three rounds: a look-up, a cancellation that fails, and the same with a reason, which fails in another way."""
    return held_out(
        run(
            user("cancel order 1"),
            agent(call("get_order", order_id="1")),
            agent(call("cancel_order", "Error: the reason is missing", error=True, order_id="1")),
            agent(call("cancel_order", "Error: order 1 is not pending", error=True, order_id="1", reason="x")),
            gold=[GoldAction(tool="get_order", arguments={"order_id": "1"})],
            outcome=Outcome.FAILURE,
        ),
        0,
        count=0,
    )


@pytest.mark.parametrize(
    ("recommended", "precision", "recall", "f1"),
    [
        (["a", "b"], 1.0, 1.0, 1.0),
        (["a"], 1.0, 0.5, 2 / 3),
        (["a", "a", "x"], 0.5, 0.5, 0.5),
        (["x"], 0.0, 0.0, 0.0),
        ([], 0.0, 0.0, 0.0),
    ],
)
def test_next_tool(recommended: list[str], precision: float, recall: float, f1: float) -> None:
    found = next_tool(recommended, frozenset({"a", "b"}))
    assert (found.precision, found.recall, found.f1) == pytest.approx((precision, recall, f1))


@pytest.mark.parametrize(
    ("warning", "kind", "named"),
    [
        ('cancel_order can fail with "order <ORDER_ID> is not pending"', "order <ORDER_ID> is not pending", True),
        ("cancel_order fails when the order is no longer pending", "order <ORDER_ID> is not pending", True),
        ("before cancel_order: status of the order must be pending", "order <ORDER_ID> is not pending", True),
        ("Never cancel_order a pending thing", "order <ORDER_ID> is not pending", False),  # one word of two
        ("Avoid cancel_order", "order <ORDER_ID> is not pending", False),
        ('get_order can fail with "order is not pending"', "order is not pending", False),  # another tool
        ("cancel_order fails: payment total wrong", "payment amount total price paid does not add up", False),
        ("cancel_order fails: payment amount and total", "payment amount total price paid does not add up", True),
        ("cancel_order fails with a timeout", "timeout", True),
        ("cancel_order fails with anything", "<NUMBER>", True),  # nothing more can be asked
        ("Avoid cancel_order", "<NUMBER>", False),
    ],
)
def test_a_kind_is_named_by_half_of_its_words(warning: str, kind: str, named: bool) -> None:
    (warned,) = READER.read(warning).warnings
    assert matches(warned, Failure(1, "cancel_order", kind, frozenset())) is named


def test_a_failure_is_foreseen_before_it_happens_and_not_after() -> None:
    missing = 'cancel_order can fail with "reason is missing"'
    assert foreseen(held(), says(missing, "", "")) == [True, False]
    assert foreseen(held(), says("", missing, "")) == [True, False]  # right before the round that fails
    assert foreseen(held(), says("", "", missing)) == [False, False]  # too late
    assert foreseen(held(), says("", "", 'cancel_order can fail with "order is not pending"')) == [False, True]


def test_warnings_are_borne_out_false_or_old_news() -> None:
    pending = 'cancel_order can fail with "order is not pending"'
    assert borne_out(held(), says(pending, pending, pending)) == [True]  # the same warning counts once
    assert borne_out(held(), says('cancel_order can fail with "payment was refused"', "", "")) == [False]
    assert borne_out(held(), says('get_order can fail with "order is not pending"', "", "")) == [False]
    assert borne_out(held(), says("", "", 'cancel_order can fail with "reason is missing"')) == []  # known by then
    assert borne_out(held(), says("Never call cancel_order", "", "")) == [True]  # any failure bears it out
    assert borne_out(held(), says("Never call get_order", "", "")) == [False]


def test_a_condition_is_borne_out_by_a_write_that_was_not_right() -> None:
    made = held_out(
        run(
            user("x"),
            agent(call("refund", order_id="1")),
            agent(call("get_order", order_id="1")),
            gold=(),
            outcome=Outcome.FAILURE,
        ),
        0,
        count=0,
    )
    assert made.wrong == ((1, "refund"),)
    assert borne_out(made, says("before refund: get a yes", "")) == [True]
    assert borne_out(made, says("", "before refund: get a yes")) == [False]
    assert borne_out(made, says('refund can fail with "no yes"', "")) == [False]  # it did not fail


@pytest.mark.parametrize(
    ("text", "at", "harm"),
    [
        ("call cancel_order with order_id", 0, True),
        ("call cancel_order with order_id", 1, True),
        ("call cancel_order with order_id", 2, True),  # still open for the second pattern, which has it too
        ("call cancel_order", 0, True),
        ("call cancel_order with order_id, reason", 2, True),
        ("call cancel_order with order_id, reason", 0, True),  # it fails later
        ("call get_order with order_id", 0, False),
        ("Avoid cancel_order", 0, False),
        ("", 0, False),
    ],
)
def test_harm(text: str, at: int, harm: bool) -> None:
    own = held()
    assert harmful(own, own.points[at], READER.read(text)) is harm


def test_harm_needs_the_arguments_that_failed_and_ends_with_the_failure() -> None:
    own = held_out(
        run(
            user("x"),
            agent(call("cancel_order", "Error: the reason is missing", error=True, order_id="1")),
            agent(call("cancel_order", order_id="1", reason="x")),
        ),
        0,
        count=0,
    )
    assert not harmful(own, own.points[0], READER.read("call cancel_order with order_id, reason"))
    assert harmful(own, own.points[0], READER.read("call cancel_order with order_id"))
    assert not harmful(own, own.points[1], READER.read("call cancel_order with order_id"))


def test_score_of_a_run() -> None:
    good = 'call get_order with order_id\ncancel_order can fail with "order is not pending"'
    score = score_run(held(), says(good, "call refund", "call cancel_order\nrefund can fail"))
    assert [round(point.f1, 3) for point in score.next] == [1.0]  # only the first point has gold to come
    assert (score.points, score.harmful) == (3, 1)
    assert (score.failures, score.foreseen) == (2, 1)
    assert (score.claims, score.borne) == (2, 1)


def test_silence_claims_nothing_and_harms_nobody() -> None:
    score = score_run(held(), [NOTHING] * 3)
    assert (score.harmful, score.foreseen, score.claims, score.borne) == (0, 0, 0, 0)
    assert [point.f1 for point in score.next] == [0.0]
    with pytest.raises(ValueError):
        score_run(held(), [NOTHING])
