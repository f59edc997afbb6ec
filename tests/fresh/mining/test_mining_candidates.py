from __future__ import annotations

from uses import use

from fresh.conditions import Asked, AtMost, ComesFrom, Condition, FieldIs, SameCount, Together
from fresh.mining.preconditions import Thresholds, mine_preconditions
from fresh.mining.use import Use

READS = frozenset({"look"})


def conditions(uses: list[Use], kind: type) -> list[Condition]:
    return [m.condition for m in mine_preconditions(uses, Thresholds(), READS) if isinstance(m.condition, kind)]


def test_words_that_users_of_this_write_say_and_others_do_not() -> None:
    lend = [use(n, words=frozenset({"please", "borrow" if n % 2 else "loan", "book"})) for n in range(12)]
    end = [use(n, tool="end", words=frozenset({"please", "return", "book"})) for n in range(20, 32)]
    asked = [c for c in conditions([*lend, *end], Asked) if isinstance(c, Asked) and not c.by_name]
    assert {frozenset(c.words) for c in asked} == {frozenset({"borrow", "loan"}), frozenset({"return"})}


def test_without_other_writes_no_word_is_telling() -> None:
    assert conditions([use(n, words=frozenset({"borrow"})) for n in range(12)], Asked) == []


def test_words_of_the_tools_own_name() -> None:
    named = [use(n, tool="lend_book", words=frozenset({"lend" if n % 2 else "book", "me"})) for n in range(3)]
    assert conditions(named, Asked) == [Asked(words=("book", "lend"), by_name=True)]
    otherwise = [use(n, tool="lend_book", words=frozenset({"borrow"})) for n in range(3)]
    assert conditions([*named, *otherwise], Asked) == []


def test_places_of_values_from_several_tasks_only() -> None:
    seen = [use(n, places={"book": (frozenset({"look:book"}),)}) for n in range(10)]
    odd = use(10, places={"book": (frozenset({"list_all:x"}),)})
    assert conditions([*seen, odd], ComesFrom) == [ComesFrom(argument="book", places=("request", "look:book"))]


def test_values_from_anywhere_come_from_nowhere_in_particular() -> None:
    everywhere = [use(n, places={"book": (frozenset({f"tool{n // 2}:x"}),)}) for n in range(20)]
    assert conditions(everywhere, ComesFrom) == []


def test_lists_in_step_pairs_and_bounds() -> None:
    evidence = {
        "counts": {("new", "old", ""): True},
        "together": {("a", "b", False): True},
        "at_most": {("sum", "card", "sum"): True},
    }
    good = [use(n, **evidence) for n in range(6)]
    assert conditions(good, SameCount) == [SameCount(argument="new", other="old")]
    assert conditions(good, Together) == [Together(argument="a", other="b")]
    assert conditions(good, AtMost) == [AtMost(argument="sum", anchor="card", path="sum")]


def test_a_state_that_the_refusal_speaks_of_needs_no_many_tasks() -> None:
    where = ("book", "state")
    good = [use(n, fields={where: ("free",)}) for n in range(4)]
    silent = [use(9, -1, fields={where: ("lent",)}, error="no")]
    spoken = [use(9, -1, fields={where: ("lent",)}, error="only a free book can be lent")]
    assert conditions([*good, *silent], FieldIs) == []
    (found,) = conditions([*good, *spoken], FieldIs)
    assert found == FieldIs(argument="book", path="state", values=("free",), error="only a free book can be lent")
    assert "only a free book" in found.text("lend")


def test_a_number_is_no_state() -> None:
    good = [use(n, fields={("book", "pages"): ("100",)}) for n in range(30)]
    others = [use(n, tool="end", fields={("book", "pages"): (str(n),)}) for n in range(40, 80)]
    assert conditions([*good, *others], FieldIs) == []
