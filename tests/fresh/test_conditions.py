from __future__ import annotations

import pytest
from hand_made import Refused, says, step, user
from pydantic import ValidationError

from fresh.conditions import (
    Asked,
    AtMost,
    CalledBefore,
    ComesFrom,
    Condition,
    Confirmed,
    FieldIs,
    FieldTest,
    Grounded,
    Never,
    ReadBefore,
    SameCount,
    SingledOut,
    Together,
    Within,
    argument_values,
    parse_condition,
)
from fresh.conditions.words import forms_of, speaks_of, stems
from fresh.history import History
from fresh.traces.messages import parse_messages

ORDER = {
    "order_id": "#G7",
    "customer_id": "C-11",
    "state": "Open",
    "address": {"town": "Ulm"},
    "items": [{"item_id": "10011"}],
}
CUSTOMER = {
    "customer_id": "C-11",
    "cards": {"card_9001": {"kind": "chip", "amount": 20}},
    "people": [{"name": "Nora Vale", "born": "1980-02-03"}, {"name": "Ida Vale", "born": "1991-05-06"}],
    "homes": [{"town": "Ulm", "street": "Elm 2"}, {"town": "Trier", "street": "Oak 9"}],
}
SEEN = [
    user("My order is #G7, it is about item 10011"),
    step("get_order", {"order_id": "#G7"}, ORDER),
    step("get_customer", {"customer_id": "C-11"}, CUSTOMER),
    step("get_plant", {"plant": "P-1"}, {"kinds": {"10011": {"size": "small"}, "10012": {"size": "large"}}}),
    step("get_plant", {"plant": "P-2"}, {"kinds": {"20001": {"size": "small"}}}),
    says("Shall I?"),
    user("Yes"),
]
READ = ReadBefore(tool="get_order", parameter="order_id", argument="order_id")
IN_ORDER = Within(argument="item_ids[]", anchor="order_id")
CARD = Within(argument="card_id", anchor="order_id", via="customer_id")
OPEN = FieldIs(argument="order_id", path="state", values=("open",))
PERSON = Together(argument="people[].born", other="people[].name")
PLACE = Together(argument="street", other="town")
IN_STEP = Together(argument="new_ids[]", other="old_ids[]", whole_result=True)
BALANCE = AtMost(argument="amount", anchor="card_id", path="amount")
STATE_OPEN = FieldTest(argument="order_id", path="state", op="is", values=("open",))
FAST = FieldTest(argument="speed", op="is", values=("fast",))
IN_ULM = FieldIs(argument="order_id", path="address.town", values=("ulm", "trier"))


@pytest.mark.parametrize(
    ("condition", "arguments", "expected"),
    [
        (READ, {"order_id": "#g7"}, True),
        (READ, {"order_id": "#G8"}, False),
        (READ, {}, None),
        (CalledBefore(tool="get_order"), {}, True),
        (CalledBefore(tool="get_seeds"), {}, False),
        (Confirmed(), {}, True),
        (Grounded(argument="order_id"), {"order_id": "#G7"}, True),
        (Grounded(argument="order_id"), {"order_id": "#G8"}, False),
        (Grounded(argument="order_id"), {"order_id": "elsewhere"}, False),
        (Grounded(argument="reason"), {"reason": "lost"}, None),
        (IN_ORDER, {"order_id": "#G7", "item_ids": ["10011"]}, True),
        (IN_ORDER, {"order_id": "#G7", "item_ids": ["10011", "10012"]}, False),
        (IN_ORDER, {"order_id": "#G8", "item_ids": ["10011"]}, None),
        (IN_ORDER, {"item_ids": ["10011"]}, None),
        (CARD, {"order_id": "#G7", "card_id": "card_9001"}, True),
        (CARD, {"order_id": "#G7", "card_id": "card_9002"}, False),
        (OPEN, {"order_id": "#G7"}, True),
        (FieldIs(argument="order_id", path="state", values=("sent",)), {"order_id": "#G7"}, False),
        (OPEN, {"order_id": "#G8"}, None),
        (IN_ULM, {"order_id": "#G7"}, True),
        (FieldIs(argument="order_id", path="address.zip", values=("1",)), {"order_id": "#G7"}, None),
        (Asked(words=("order",)), {}, True),
        (Asked(words=("cancel", "refund")), {}, False),
        (Grounded(argument="note", plain=True), {"note": "Nobody has ever said Nora"}, None),
        (Grounded(argument="note", plain=True), {"note": "Nora Vale unheard of"}, False),
        (ComesFrom(argument="order_id", places=("request",)), {"order_id": "#G7"}, True),
        (ComesFrom(argument="card_id", places=("get_customer:cards{}",)), {"card_id": "card_9001"}, True),
        (ComesFrom(argument="card_id", places=("request",)), {"card_id": "card_9001"}, False),
        (ComesFrom(argument="card_id", places=("request",)), {"card_id": "card_9002"}, None),
        (PERSON, {"people": [{"name": "Nora Vale", "born": "1980-02-03"}]}, True),
        (PERSON, {"people": [{"name": "Nora Vale", "born": "1991-05-06"}]}, False),
        (PERSON, {"people": [{"name": "Nobody", "born": "1980-02-03"}]}, None),
        (PERSON, {"people": []}, None),
        (PLACE, {"town": "Ulm", "street": "Elm 2"}, True),
        (PLACE, {"town": "Ulm", "street": "Oak 9"}, False),
        (IN_STEP, {"old_ids": ["10011"], "new_ids": ["10012"]}, True),
        (IN_STEP, {"old_ids": ["10011"], "new_ids": ["20001"]}, False),
        (SingledOut(argument="order_id"), {"order_id": "#G7"}, True),
        (SingledOut(argument="card_id"), {"card_id": "card_9001"}, False),
        (SingledOut(argument="card_id"), {"card_id": "card_9002"}, None),
        (SameCount(argument="new_ids", other="old_ids"), {"old_ids": ["1"], "new_ids": ["2"]}, True),
        (SameCount(argument="new_ids", other="old_ids"), {"old_ids": ["1"], "new_ids": ["2", "3"]}, False),
        (SameCount(argument="new_ids", other="old_ids"), {"new_ids": ["2", "3"]}, None),
        (SameCount(argument="items", other="order_id", path="items"), {"order_id": "#G7", "items": ["a"]}, True),
        (SameCount(argument="items", other="order_id", path="items"), {"order_id": "#G8", "items": ["a"]}, None),
        (BALANCE, {"amount": 20, "card_id": "card_9001"}, True),
        (BALANCE, {"amount": 20.5, "card_id": "card_9001"}, False),
        (BALANCE, {"amount": 20.5, "card_id": "card_9002"}, None),
        (Never(tests=(STATE_OPEN,)), {"order_id": "#G7"}, False),
        (Never(tests=(STATE_OPEN, FAST)), {"order_id": "#G7", "speed": "fast"}, False),
        (Never(tests=(STATE_OPEN, FAST)), {"order_id": "#G7", "speed": "slow"}, True),
        (Never(tests=(STATE_OPEN, FAST)), {"order_id": "#G8", "speed": "slow"}, True),
        (Never(tests=(STATE_OPEN, FAST)), {"order_id": "#G8", "speed": "fast"}, None),
    ],
)
def test_holds(condition: Condition, arguments: dict[str, object], expected: bool | None) -> None:
    assert condition.holds(arguments, History.live(SEEN)) is expected


@pytest.mark.parametrize("condition", [READ, CalledBefore(tool="get_order"), Confirmed()])
def test_nothing_holds_at_the_start(condition: Condition) -> None:
    assert condition.holds({"order_id": "#G7"}, History.live([])) is False


def test_a_refused_read_fulfils_nothing() -> None:
    history = History.live([step("get_order", {"order_id": "#G7"}, Refused("down for today"))])
    assert READ.holds({"order_id": "#G7"}, history) is False
    assert CalledBefore(tool="get_order").holds({}, history) is False


def test_what_may_stand_inside() -> None:
    assert set(IN_ORDER.candidates({"order_id": "#G7"}, History.live(SEEN)) or ()) == {"#G7", "C-11", "10011"}


@pytest.mark.parametrize(
    "condition",
    [
        READ,
        CalledBefore(tool="t"),
        Confirmed(),
        Grounded(argument="a"),
        CARD,
        IN_ULM,
        PERSON,
        BALANCE,
        Asked(words=("x",)),
    ],
)
def test_a_condition_is_plain_data(condition: Condition) -> None:
    assert parse_condition(condition.model_dump(mode="json")) == condition
    assert condition.text("lend").startswith("before lend: ")


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValidationError):
        parse_condition({"kind": "full_moon"})


def test_argument_values_by_path() -> None:
    arguments = {"items": [{"id": "A-1"}, {"id": ""}, {"id": "A-2"}], "x": {"y": 0}}
    assert argument_values(arguments, "items[].id") == ["A-1", "A-2"]
    assert argument_values(arguments, "x.y") == [0]
    assert argument_values(arguments, "absent") == []


def test_plain_grounding_is_of_names_and_numbers_not_of_choices():
    history = History.live(parse_messages([{"role": "user", "content": "I moved to 12 Elm Street, Oslo"}]))
    condition = Grounded(argument="street", plain=True)
    assert condition.holds({"street": "12 Elm Street"}, history) is True
    assert condition.holds({"street": "9 Oak Road"}, history) is False
    assert condition.holds({"street": "as before"}, history) is None
    assert Grounded(argument="street").holds({"street": "9 Oak Road"}, history) is None


@pytest.mark.parametrize(
    ("op", "values", "number", "seen", "fits"),
    [
        ("is", ("open",), None, ("open", "sent"), True),
        ("is", ("open",), None, ("sent",), False),
        ("is_not", ("open",), None, ("open", "sent"), True),
        ("is_not", ("open",), None, ("open",), False),
        ("is", ("open",), None, (), None),
        ("at_least", (), 3.0, ("2", "3"), True),
        ("at_least", (), 3.0, ("2.9",), False),
        ("at_most", (), 3.0, ("2", "9"), True),
        ("at_most", (), 3.0, ("none",), None),
        ("present", (), None, ("x",), True),
        ("present", (), None, (), False),
        ("missing", (), None, (), True),
        ("missing", (), None, None, None),
    ],
)
def test_a_field_test_says_yes_no_or_cannot_tell(
    op: str, values: tuple[str, ...], number: float | None, seen: tuple[str, ...] | None, fits: bool | None
) -> None:
    test = FieldTest(argument="a", path="b", op=op, values=values, number=number)  # type: ignore[arg-type]
    assert test.fits(seen) is fits
    assert parse_condition(Never(tests=(test,), error="no").model_dump(mode="json")) == Never(tests=(test,), error="no")
    assert test.words() in Never(tests=(test,)).text("lend")


def test_the_object_shown_by_another_call_has_been_looked_at() -> None:
    listed = step("list_all", {}, {"#G7001": {"order_id": "#G7001", "state": "open"}})
    mentioned = step("get_customer", {"customer_id": "C-11"}, {"customer_id": "C-11", "orders": ["#G7001"]})
    assert READ.holds({"order_id": "#G7001"}, History.live([listed])) is True
    assert READ.holds({"order_id": "#G7001"}, History.live([mentioned])) is False


@pytest.mark.parametrize(
    ("one", "other"), [("booking", "booked"), ("cancel", "Cancelled"), ("changes", "changing"), ("orders", "ORDER")]
)
def test_forms_of_a_word_meet(one: str, other: str) -> None:
    assert stems(one) == stems(other)


def test_different_words_do_not_meet() -> None:
    assert not stems("refund the order") & stems("change an address")


def test_an_object_is_singled_out_by_a_value_in_it() -> None:
    lines = [{"line_id": "LN-4001", "phone": "555-2001"}, {"line_id": "LN-4002", "phone": "555-2002"}]
    history = History.live([user("My phone 555-2002 is dead"), step("list_all", {"of": "C-11"}, lines)])
    assert SingledOut(argument="line_id").holds({"line_id": "LN-4002"}, history) is True
    assert SingledOut(argument="line_id").holds({"line_id": "LN-4001"}, history) is False


def test_what_a_text_asks_for_counts_as_asked_where_the_user_sent_the_agent_there() -> None:
    text = {"text": "Please refund the parcel that came broken."}
    asked = Asked(words=("refund",))
    sent = History.live([user("Do what page P-77 says"), step("get_page", {"page": "P-77"}, text)])
    found = History.live([user("What is new?"), step("get_page", {"page": "P-77"}, text)])
    assert asked.holds({}, sent) is True and asked.holds({}, found) is False


@pytest.mark.parametrize("verb", ["see", "free", "modify", "cancel", "e", "y", "", "pay", "Send"])
@pytest.mark.parametrize("text", ["", "see it", "freed", "modified", "CANCELLED", "paying", "send", "e", "y", "ye"])
def test_a_verb_is_spoken_of_where_its_forms_are_found(verb: str, text: str):
    assert speaks_of(text, verb) is (forms_of(verb).search(text.lower()) is not None)
