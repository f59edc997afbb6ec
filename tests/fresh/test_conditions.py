from __future__ import annotations

import pytest
from hand_made import Refused, says, step, user
from pydantic import ValidationError

from fresh.conditions import (
    CalledBefore,
    Condition,
    Confirmed,
    FieldIs,
    Grounded,
    ReadBefore,
    Within,
    argument_values,
    parse_condition,
)
from fresh.history import History
from fresh.traces.messages import parse_messages

ORDER = {
    "order_id": "#G7",
    "customer_id": "C-11",
    "state": "Open",
    "address": {"town": "Ulm"},
    "items": [{"item_id": "10011"}],
}
CUSTOMER = {"customer_id": "C-11", "cards": {"card_9001": {"kind": "chip"}}}
SEEN = [
    user("My order is #G7, it is about item 10011"),
    step("get_order", {"order_id": "#G7"}, ORDER),
    step("get_customer", {"customer_id": "C-11"}, CUSTOMER),
    says("Shall I?"),
    user("Yes"),
]
READ = ReadBefore(tool="get_order", parameter="order_id", argument="order_id")
IN_ORDER = Within(argument="item_ids[]", anchor="order_id")
CARD = Within(argument="card_id", anchor="order_id", via="customer_id")
OPEN = FieldIs(argument="order_id", path="state", values=("open",))
IN_ULM = FieldIs(argument="order_id", path="address.town", values=("ulm", "trier"))


@pytest.mark.parametrize(
    ("condition", "arguments", "expected"),
    [
        (READ, {"order_id": "#g7"}, True),
        (READ, {"order_id": "#G8"}, False),
        (READ, {}, None),
        (CalledBefore(tool="get_order"), {}, True),
        (CalledBefore(tool="get_plant"), {}, False),
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


@pytest.mark.parametrize("condition", [READ, CalledBefore(tool="t"), Confirmed(), Grounded(argument="a"), CARD, IN_ULM])
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
