from __future__ import annotations

import random

import pytest
from uses import use

from fresh.conditions import CalledBefore, Confirmed, ReadBefore, Within
from fresh.mining.calibration import Trust, calibrate
from fresh.mining.preconditions import MinedCondition, Thresholds, enforceable, mine_preconditions
from fresh.mining.use import Use, held_in

READS = frozenset({"look", "list_all"})


def trusted(uses: list[Use], thresholds: Thresholds | None = None) -> dict[str, tuple[MinedCondition, Trust]]:
    thresholds = thresholds or Thresholds()
    mined = mine_preconditions(uses, thresholds, READS)
    trust = calibrate(uses, mined, thresholds, READS)
    return {m.condition.kind: (m, t) for m, t in zip(mined, trust, strict=True)}


def test_what_parts_right_from_wrong_is_trusted_more_than_what_does_not() -> None:
    good = [use(n) for n in range(40)]
    unread = [use(n, -1, reads=frozenset(), called=frozenset()) for n in range(40, 60)]
    found = trusted([*good, *unread])
    read, yes = found["read_before"][1], found["confirmed"][1]
    assert read.score > yes.score
    assert read.false_block <= 0.02
    assert 0 <= yes.score <= read.score <= 1


def test_a_condition_that_right_uses_break_on_other_tasks_costs_what_they_show() -> None:
    good = [use(n, confirmed=n % 12 != 0) for n in range(60)]
    bad = [use(n, -1, confirmed=n % 2 == 0) for n in range(60, 90)]
    mined, trust = trusted([*good, *bad])["confirmed"]
    assert mined.violated[0] == 5
    assert trust.false_block == pytest.approx(5 / 60, abs=1e-4)


def test_false_blocks_add_up_over_conditions_of_higher_score() -> None:
    good = [use(n, confirmed=n % 20 != 3, grounded={"book": n % 20 != 4}) for n in range(80)]
    bad = [use(n, -1, confirmed=n % 2 == 0, grounded={"book": n % 3 == 0}) for n in range(80, 120)]
    found = trusted([*good, *bad])
    pair = sorted((found[kind][1] for kind in ("confirmed", "grounded")), key=lambda trust: -trust.score)
    assert pair[0].false_block < pair[1].false_block
    assert pair[1].false_block == pytest.approx(8 / 80, abs=1e-4)


def test_without_failures_nothing_breaks_down() -> None:
    found = trusted([use(n) for n in range(6)])
    assert all(0 <= trust.score <= 1 for _, trust in found.values())


def test_a_condition_picked_out_of_many_needs_many_tasks() -> None:
    inside = {("page", "book", ""): True}
    few = [use(n, within=inside) for n in range(7)]
    mined, trust = trusted(few)["within"]
    assert isinstance(mined.condition, Within)
    assert enforceable([mined], Thresholds()) == [False] and trust.false_block == 1.0
    broken = [use(n, -1, within={("page", "book", ""): False}) for n in range(20, 26)]
    assert trusted([*few, use(8, within=inside), *broken])["within"][1].false_block < 0.2


def test_the_promised_false_block_rate_holds_on_unseen_tasks() -> None:
    """On simulated tools with accidental agreements, rules within 2% hold about that share of right uses back."""
    rng = random.Random(7)
    held = right = 0
    for world in range(12):
        real = rng.random()

        def draw(task: int, rng: random.Random = rng, real: float = real) -> Use:
            wrong = rng.random() < 0.3
            called = {"look"} | ({"list_all"} if rng.random() < 0.7 + 0.3 * real else set())
            return use(
                task,
                -1 if wrong else 1,
                reads=frozenset() if wrong and rng.random() < 0.6 else frozenset({("look", "book", "book")}),
                called=frozenset(called),
                confirmed=rng.random() < (0.5 if wrong else 0.97),
                within={("page", "book", ""): rng.random() < 0.9 + 0.1 * real},
            )

        known = [draw(1000 * world + n) for n in range(60)]
        fresh = [draw(1000 * world + 500 + n) for n in range(200)]
        mined = mine_preconditions(known, Thresholds(), READS)
        trust = calibrate(known, mined, Thresholds(), READS)
        enforced = [m.condition for m, t in zip(mined, trust, strict=True) if t.false_block <= 0.02]
        assert any(isinstance(condition, ReadBefore) for condition in enforced)
        for each in fresh:
            if each.sign > 0:
                right += 1
                held += any(held_in(condition, each) is False for condition in enforced)
    assert held / right <= 0.04


def test_kinds_are_told_apart() -> None:
    good = [use(n, called=frozenset({"look", "list_all"})) for n in range(30)]
    bad = [use(n, -1, called=frozenset(), reads=frozenset()) for n in range(30, 45)]
    mined = mine_preconditions([*good, *bad], Thresholds(), READS)
    assert {type(m.condition) for m in mined} >= {CalledBefore, ReadBefore, Confirmed}


def test_the_same_condition_on_several_tools_counts_once_for_all() -> None:
    inside = {("page", "book", ""): True}
    here = [use(n, within=inside) for n in range(6)]
    there = [use(n, tool="end", within=inside) for n in range(20, 30)]
    alone = [t for m, t in _trusted_all(here) if m.condition.kind == "within"]
    both = [t for m, t in _trusted_all([*here, *there]) if m.condition.kind == "within"]
    assert [t.false_block for t in alone] == [1.0]
    assert [t.false_block for t in both] == [0.0, 0.0]


def _trusted_all(uses: list[Use]) -> list[tuple[MinedCondition, Trust]]:
    mined = mine_preconditions(uses, Thresholds(), READS)
    return list(zip(mined, calibrate(uses, mined, Thresholds(), READS), strict=True))
