from __future__ import annotations

from uses import use

from fresh.conditions import FieldTest, Never
from fresh.mining.field_rules import field_rules
from fresh.mining.use import PARTICULAR, Use, held_in

STATE, KIND, PRICE = ("book", "state"), ("kind", ""), ("book", "price")


def seen(task: int, sign: int, state: str, kind: str = "day", price: str = "10", **more: object) -> Use:
    fields = {STATE: (state,), KIND: (kind,), PRICE: (price,)}
    return use(task, sign, fields=fields, shown={"book": frozenset({"state", "price"})}, **more)


def test_a_state_in_which_the_write_always_failed_is_found() -> None:
    good = [seen(n, 1, "in") for n in range(20)]
    bad = [seen(n, -1, "lost", error="the book is gone") for n in range(20, 26)]
    (rule,) = field_rules([*good, *bad])
    assert rule.error == "the book is gone"
    assert all(held_in(rule, each) is True for each in good)
    assert all(held_in(rule, each) is False for each in bad)


def test_a_conjunction_of_a_state_and_the_calls_own_choice() -> None:
    good = [seen(n, 1, "old", "day") for n in range(12)] + [seen(n, 1, "new", "week") for n in range(12, 24)]
    bad = [seen(n, -1, "old", "week") for n in range(24, 34)]
    (rule,) = field_rules([*good, *bad])
    assert len(rule.tests) == 2
    assert {test.argument for test in rule.tests} == {"book", "kind"}
    assert held_in(rule, seen(40, 1, "old", "week")) is False
    assert held_in(rule, seen(40, 1, "new", "week")) is True


def test_numbers_are_cut_between_what_was_seen_and_rounded() -> None:
    good = [seen(n, 1, "in", price=str(100 + n)) for n in range(20)]
    bad = [seen(n, -1, "in", price=str(517 + n)) for n in range(20, 40)]
    (rule,) = field_rules([*good, *bad])
    (test,) = rule.tests
    assert test.op == "at_least" and test.number is not None and 119 < test.number <= 537
    figures = {float(each.fields[PRICE][0]) for each in (*good, *bad)}
    assert test.number not in figures


def test_an_absent_field_can_be_what_fails() -> None:
    having, lacking = {"book": frozenset({"state", "shelf"})}, {"book": frozenset({"state"})}
    good = [use(n, 1, shown=having, fields={STATE: ("in",)}) for n in range(20)]
    bad = [use(n, -1, shown=lacking, fields={STATE: ("in",)}) for n in range(20, 28)]
    (rule,) = field_rules([*good, *bad])
    assert rule == Never(tests=(FieldTest(argument="book", path="shelf", op="missing"),))


def test_what_a_verified_use_had_too_is_no_rule() -> None:
    good = [seen(n, 1, "in") for n in range(20)] + [seen(20, 1, "lost")]
    bad = [seen(n, -1, "lost") for n in range(21, 27)]
    assert field_rules([*good, *bad]) == []


def test_one_customers_failures_prove_nothing() -> None:
    good = [seen(n, 1, "in") for n in range(20)]
    assert field_rules([*good, *(seen(99, -1, "lost") for _ in range(10))]) == []
    assert field_rules([*good, *(seen(n, -1, "lost") for n in (97, 98))]) == []


def test_a_few_successes_prove_nothing_either() -> None:
    good = [seen(n, 1, "in") for n in range(4)]
    assert field_rules([*good, *(seen(n, -1, "lost") for n in range(20, 40))]) == []


def test_no_value_that_names_something_stands_in_a_rule() -> None:
    good = [seen(n, 1, "in") for n in range(20)]
    bad = [use(n, -1, fields={STATE: (PARTICULAR,)}, shown={"book": frozenset({"state"})}) for n in range(20, 30)]
    for rule in field_rules([*good, *bad]):
        assert all(PARTICULAR not in test.values for test in rule.tests)
