from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.values import (
    argument_leaves,
    is_data_key,
    is_identifier,
    is_reference,
    leaves,
    normalise,
    same_arguments,
    same_value,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.floats(allow_nan=False, width=16) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "value",
    ["#W5918442", "sara_doe_496", "credit_card_4421486", "HAT047", "a@b.example", "18675309", 1234567, "CP-300-1"],
)
def test_identifiers(value: object) -> None:
    assert is_identifier(value)


@pytest.mark.parametrize(
    "value",
    [
        "pending",
        "economy",
        12,
        "12",
        "4.50",
        "2031-05-01",
        "2031-05-01T10:00:00",
        "10:30",
        "two words 77",
        None,
        True,
        "",
        "x1",
    ],
)
def test_no_identifiers(value: object) -> None:
    assert not is_identifier(value)


def test_the_path_tells_identifiers_that_look_like_words() -> None:
    assert is_reference("booking_id", "XKCDQZ") and is_reference("bookings[].bookingId", "XKCDQZ")
    assert is_reference("booking_ids[]", "XKCDQZ")
    assert not is_reference("cabin", "economy") and not is_reference("paid", "cash")
    assert not is_reference("booking_id", "two words") and not is_reference("booking_id", "x")
    assert not is_reference("booking_id", True)


def test_keys_that_are_data() -> None:
    assert all(is_data_key(key) for key in ("card_4421", "2031-05-01", "T shirt", "1008292230", "a@b.example"))
    assert not any(is_data_key(key) for key in ("address1", "first_name", "$ref", "line2", "status"))


def test_leaves_name_the_place_and_not_the_case() -> None:
    data = {"items": [{"item_id": "7"}, {"item_id": "8"}], "cards": {"card_17": {"kind": "chip"}}, "none": None}
    assert list(leaves(data)) == [
        ("items[].item_id", "7"),
        ("items[].item_id", "8"),
        ("cards{}", "card_17"),
        ("cards{}.kind", "chip"),
        ("none", None),
    ]


def test_an_arguments_own_keys_are_names_even_if_they_look_like_data() -> None:
    assert list(argument_leaves({"card_4421": "a", "x y": {"b": 1}})) == [("card_4421", "a"), ("x y.b", 1)]
    assert list(argument_leaves(None)) == []


def test_one_giant_value_is_bounded() -> None:
    assert len(list(leaves(list(range(100_000))))) == 5_000


@given(JSON)
def test_every_value_equals_itself_and_its_mirror(value: object) -> None:
    assert same_value(value, value)
    if isinstance(value, list):
        assert same_value(value, value[::-1])
    if isinstance(value, dict):
        assert same_arguments(value, dict(reversed(value.items())))


@given(JSON, JSON)
def test_sameness_is_mutual(left: object, right: object) -> None:
    assert same_value(left, right) == same_value(right, left)


@given(JSON)
def test_leaves_yield_scalars_alone(value: object) -> None:
    assert not any(isinstance(leaf, dict | list) for _, leaf in leaves(value))


@given(st.integers(-(10**9), 10**9))
def test_a_number_is_the_same_as_its_text(number: int) -> None:
    assert normalise(number) == normalise(float(number)) == normalise(f" {number} ")


def test_different_things_are_not_the_same() -> None:
    assert not same_value([1, 1, 2], [1, 2, 2])
    assert not same_value({"a": 1}, {"a": 1, "b": None})
    assert not same_value(True, "true")
    assert not same_value([1], 1)
    assert not same_arguments(None, {})
    assert same_arguments(None, None)
