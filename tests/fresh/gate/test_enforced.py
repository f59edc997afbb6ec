"""What a write that memory hardly knows is held to."""

from __future__ import annotations

import pytest
from memory_shop import make_graph

from fresh.conditions import Condition, Confirmed, Grounded, Within
from fresh.gate.enforced import Customs, conditions_by_form
from fresh.knowledge import Rule, ToolIndex
from graph_schema.trajectory import ToolCall

INDEX = ToolIndex(make_graph())
CARD = Grounded(argument="card_id", firm=True)
OWN_CARD = Within(argument="card_id", anchor="order_id", via="customer_id")


def customs(*conditions: Condition, tools: int = 2, min_tasks: int = 3) -> Customs:
    """Of a memory, so many of whose tools enforce these conditions."""
    names = set(INDEX.names[:tools])
    rules = [Rule(0, condition, 9) for condition in conditions]
    return Customs.of(INDEX, lambda name: rules if name in names else [], min_tasks)


def by_form(found: Customs, **arguments: object) -> list[Condition]:
    call = ToolCall.model_construct(
        id="1",
        tool="pay_order",
        arguments=arguments,
        raw_arguments="",
        parse_error=None,
        by_user=False,
        observation=None,
    )
    return [rule.condition for rule in conditions_by_form(call, INDEX, found)]


def test_what_several_writes_demand_of_an_argument_is_demanded_of_any() -> None:
    assert by_form(customs(CARD), card_id="card_1") == [CARD]
    assert by_form(customs(CARD, tools=1), card_id="card_1") == []
    assert by_form(customs(CARD), card="card_1") == []
    assert by_form(customs(Grounded(argument="cards[].id")), cards=[{"id": "c"}]) == [Grounded(argument="cards[].id")]


def test_whose_object_a_value_is_needs_both_arguments() -> None:
    assert OWN_CARD in by_form(customs(OWN_CARD), card_id="card_1", order_id="#W1")
    assert OWN_CARD not in by_form(customs(OWN_CARD), card_id="card_1")


def test_nothing_is_said_twice_and_plain_words_are_each_tools_own() -> None:
    same = Grounded(argument="order_id", firm=True)
    assert by_form(customs(same), order_id="#W1").count(same) == 1
    assert by_form(customs(Grounded(argument="note", plain=True)), note="Nora") == []


@pytest.mark.parametrize(
    ("conditions", "min_tasks", "asks"), [((Confirmed(),), 3, True), ((), 3, False), ((), 999, True)]
)
def test_a_yes_is_waited_for_where_others_wait_or_nothing_is_known_well(
    conditions: tuple[Condition, ...], min_tasks: int, asks: bool
) -> None:
    found = customs(*conditions, min_tasks=min_tasks)
    assert found.asks_first is asks and (Confirmed() in by_form(found)) is asks
