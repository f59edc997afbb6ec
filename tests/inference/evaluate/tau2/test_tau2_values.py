from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from inference.evaluate.tau2.values import (
    Knowledge,
    ValueIndex,
    at,
    field_name,
    first_new,
    is_reference,
    leaves,
    replaced,
    same_arguments,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_every_leaf_is_found_where_its_path_says(value: object) -> None:
    before = json.dumps(value)
    for path, leaf in leaves(value):
        assert at(value, path) == leaf
        changed = replaced(value, path, "another value")
        assert at(changed, path) == "another value"
        others = [p for p, _ in leaves(value) if p != path]
        assert all(at(changed, p) == at(value, p) for p in others)
    assert json.dumps(value) == before


def test_leaves_leave_out_what_carries_nothing() -> None:
    assert list(leaves({"a": None, "b": True, "c": "", "d": [0, "x"]})) == [(("d", 0), 0), (("d", 1), "x")]


def test_names() -> None:
    assert field_name(("item_ids", 0)) == "item_id"
    assert field_name(("flights", 1, "date")) == "date"
    assert field_name(("address",)) == "address"
    assert field_name(()) == ""


def test_references() -> None:
    assert is_reference("#W12") and is_reference("ada_1") and is_reference("HAT001")
    assert not any(map(is_reference, ("economy", "12 Main Street", "1a", 12345, "", "2024-05-20")))


def test_knowledge_is_of_whole_values() -> None:
    knowledge = Knowledge()
    knowledge.tell("My order is #W12, I paid 1234.")
    knowledge.observe(json.dumps({"orders": ["#W77"], "methods": {"card_5": {"left": 30}}}))
    assert all(knowledge.knows(value) for value in ("#W12", "#w12", 1234, "#W77", "card_5", 30))
    assert not any(knowledge.knows(value) for value in ("#W1", 123, "#W7", "card", 3))
    assert knowledge.by_name["order_id"] == ["#W77"]
    twin = knowledge.copy()
    twin.observe("ada_1")
    assert twin.knows("ada_1") and not knowledge.knows("ada_1")


SHOP = {
    "users": {
        "ada_1": {"id": "ada_1", "cards": {"card_1": {"id": "card_1"}, "card_2": {"id": "card_2"}}},
        "bob_2": {"id": "bob_2", "cards": {"card_3": {"id": "card_3"}}},
    },
    "orders": {
        "#W1": {"order_id": "#W1", "items": [{"item_id": "i1"}, {"item_id": "i2"}], "user": "ada_1"},
        "#W2": {"order_id": "#W2", "items": [{"item_id": "i2"}, {"item_id": "i3"}], "user": "bob_2"},
        "#W3": {"order_id": "#W3", "items": [{"item_id": "i4"}], "user": "bob_2"},
    },
}


def test_other_values_belong_to_other_objects() -> None:
    index = ValueIndex(SHOP)
    assert index.others("#W1", "order_id") == ["#W2", "#W3"]
    assert index.others("card_1", "card_id") == ["card_3"]  # card_2 is of the same user
    assert index.others("i1", "item_id") == ["i3", "i4"]  # i2 is in the same order
    assert index.others("i2", "item_id") == ["i4"]
    assert index.others("i2", "item_id", {"#W1"}) == ["i3", "i4"]  # only order #W1 was seen
    assert index.others("unheard of", "item_id") == []


def test_what_a_run_has_seen() -> None:
    index = ValueIndex(SHOP)
    assert index.is_seen("i3", {"#W2"}) and index.is_seen("#W3", {"#W3"})
    assert not index.is_seen("i4", {"#W2", "i3"})


def test_small_helpers() -> None:
    assert same_arguments({"a": 1, "b": [2]}, {"b": [2], "a": 1})
    assert not same_arguments({"a": 1}, {"a": "1"})
    assert list(first_new(["x", "", "y", "x", "old"], "old")) == ["x", "y"]
