import random
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from math import floor

import pytest
from expg_builders import PERFECT, experience, many
from hypothesis import given
from hypothesis import strategies as st

from fresh.expg.classes import partition
from fresh.expg.select import Amount, allocate, quota, sample, select_experiences
from fresh.expg.stats import is_stable
from graph_schema.errors import ConfigError

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def allocate_by_the_book(sizes: list[int], q: int) -> list[int]:
    """Algorithm 1 read again, step by step, with exact fractions and nothing shared with the code under test."""
    n, k = sum(sizes), len(sizes)
    ranking = sorted(range(k), key=lambda i: (-sizes[i], i))
    if k > q:
        chosen = set(ranking[:q])
        return [1 if i in chosen else 0 for i in range(k)]
    amounts = [min(1 + floor(Fraction((q - k) * sizes[i], n)), sizes[i]) for i in range(k)]
    rest = q - sum(amounts)
    queue = [i for i in ranking if amounts[i] < sizes[i]]
    while rest > 0 and queue:
        i = queue.pop(0)
        amounts[i] += 1
        rest -= 1
        if amounts[i] < sizes[i]:
            queue.append(i)
    return amounts


def quota_by_trying(lengths: list[int], budget: int) -> int:
    ordered = sorted(lengths)[::-1]
    return max(q for q in range(len(ordered) + 1) if sum(ordered[:q]) <= budget)


@pytest.mark.parametrize(
    ("sizes", "q", "expected"),
    [
        # K > Q: one from each of the two largest.
        ([3, 9, 5], 2, [0, 1, 1]),
        # Q = K: one each, nothing to share out.
        ([50, 1, 1], 3, [1, 1, 1]),
        # N = 20, Q = 10, K = 3, spare 7: 1 + floor(4.2), 1 + floor(2.1), 1 + floor(0.7) = 5, 3, 1; one left.
        ([12, 6, 2], 10, [6, 3, 1]),
        # N = 10, Q = 8, K = 3: 1 + 4, 1 + 0, 1 + 0 capped at 1; one left: 8 has the most, takes it: 6, 1, 1.
        ([8, 1, 1], 8, [6, 1, 1]),
        # N = 12, Q = 9, K = 4: spare 5; 1 + floor(5 * 7/12) = 3, 1 + 1 = 2 (3/12), 1, 1; two left: to 7 and to 3.
        ([7, 3, 1, 1], 9, [4, 3, 1, 1]),
        # Everything fits: all of it.
        ([2, 3], 99, [2, 3]),
        # A second round: N = 9, Q = 8, K = 2, spare 6: 1 + 5 = 6 and 1 + 0 = 1; one left goes to the largest.
        ([8, 1], 8, [7, 1]),
        # Ties fall to the earlier class.
        ([4, 4], 5, [3, 2]),
        ([1, 1, 1], 2, [1, 1, 0]),
        ([5], 0, [0]),
    ],
)
def test_algorithm_1_by_hand(sizes: list[int], q: int, expected: list[int]) -> None:
    assert allocate(sizes, q) == expected


@given(SIZES, st.integers(0, 300))
def test_algorithm_1_equals_an_independent_reading(sizes: list[int], q: int) -> None:
    assert allocate(sizes, q) == allocate_by_the_book(sizes, q)


@given(SIZES, st.integers(0, 300))
def test_amounts_use_the_quota_and_respect_sizes(sizes: list[int], q: int) -> None:
    taken = allocate(sizes, q)
    assert sum(taken) == min(q, sum(sizes))
    assert all(a <= n for a, n in zip(taken, sizes, strict=True))
    if len(sizes) <= q:
        assert min(taken) >= 1
    else:
        smallest_taken = min((n for a, n in zip(taken, sizes, strict=True) if a), default=0)
        largest_left = max(n for a, n in zip(taken, sizes, strict=True) if not a)
        assert q == 0 or smallest_taken >= largest_left


@given(SIZES, st.integers(1, 300))
def test_a_larger_class_never_gets_less(sizes: list[int], q: int) -> None:
    pairs = sorted(zip(sizes, allocate(sizes, q), strict=True))
    assert all(a <= b for (m, a), (n, b) in pairwise(pairs) if m < n)


def test_empty_class_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be positive"):
        allocate([3, 0], 2)


@pytest.mark.parametrize(
    ("lengths", "budget", "expected"),
    [([100, 300, 200], 500, 2), ([100, 300, 200], 499, 1), ([100, 300, 200], 600, 3), ([10], 9, 0), ([], 10, 0)],
)
def test_quota_by_hand(lengths: list[int], budget: int, expected: int) -> None:
    assert quota(lengths, budget) == expected


@given(st.lists(st.integers(0, 500), max_size=30), st.integers(0, 4000))
def test_quota_equals_trying_every_q(lengths: list[int], budget: int) -> None:
    assert quota(lengths, budget) == quota_by_trying(lengths, budget)


CLASSES = st.dictionaries(st.text("01", min_size=10, max_size=10), st.integers(1, 8), min_size=1, max_size=6)


@given(CLASSES, st.integers(40, 1500), st.integers(0, 3), st.randoms(use_true_random=False))
def test_selection_ignores_the_order_of_input(
    sizes: dict[str, int], budget: int, seed: int, shuffler: random.Random
) -> None:
    found = many(sizes)
    shuffled = list(found)
    shuffler.shuffle(shuffled)
    first, second = (
        select_experiences(found, budget=budget, seed=seed),
        select_experiences(shuffled, budget=budget, seed=seed),
    )
    assert [e.key for e in first.experiences] == [e.key for e in second.experiences]
    assert first.quota == second.quota


@given(CLASSES, st.integers(40, 1500))
def test_every_class_is_covered_when_the_quota_allows(sizes: dict[str, int], budget: int) -> None:
    selection = select_experiences(many(sizes), budget=budget)
    total = sum(sizes.values())
    if total == 1:
        assert selection.amount is Amount.ONE and not selection.experiences
        return
    covered = {e.scores for e in selection.experiences}
    assert len(selection.experiences) == min(selection.quota, total)
    assert len({e.key for e in selection.experiences}) == len(selection.experiences)
    assert len(covered) == min(len(sizes), selection.quota)


def test_one_few_many() -> None:
    each = experience(number=1).tokens
    assert select_experiences([experience()], budget=10 * each).amount is Amount.ONE
    few = select_experiences(many({PERFECT: 5}), budget=5 * each)
    assert (few.amount, len(few.experiences)) == (Amount.FEW, 5)
    more = select_experiences(many({PERFECT: 5, "1111110000": 1}), budget=5 * each)
    assert (more.amount, more.quota) == (Amount.MANY, 5)
    assert Counter(e.scores for e in more.experiences)[(1,) * 10] == 4


def test_seed_decides_the_draw_and_classes_draw_apart() -> None:
    big = many({PERFECT: 30})
    draws = {tuple(e.key for e in sample(partition(big), [5], seed)) for seed in range(5)}
    assert len(draws) == 5
    other = [experience("1111110000", number=1000 + i) for i in range(4)]
    alone = sample(partition(big), [5], 3)
    together = sample(partition([*big, *other]), [5, 2], 3)
    assert [e.key for e in together[:5]] == [e.key for e in alone]


def test_no_budget_is_refused() -> None:
    with pytest.raises(ConfigError, match="budget"):
        select_experiences(many({PERFECT: 3}), budget=0)


def stable_by_the_book(sizes: dict[str, int], q: int, alpha: Fraction | None) -> bool:
    total = sum(sizes.values())
    others = [n for bits, n in sizes.items() if bits != PERFECT]
    if not others or q == 0:
        return False
    limit = Fraction(len(sizes), q) if alpha is None else alpha
    return Fraction(total) >= Fraction(q, 2) and Fraction(max(others)) >= limit * total


def counted(sizes: dict[str, int]) -> Counter:  # type: ignore[type-arg]
    return Counter({tuple(map(int, bits)): n for bits, n in sizes.items()})


@pytest.mark.parametrize(
    ("sizes", "q", "alpha", "expected"),
    [
        # |E| = 10 >= 10/2; alpha = 2/10; 2 >= 2.
        ({PERFECT: 8, "1111110000": 2}, 10, None, True),
        # 1 < 2.
        ({PERFECT: 9, "1111110000": 1}, 10, None, False),
        # The paper's 0.8: 8 >= 8, and 7 is not.
        ({PERFECT: 2, "1111110000": 8}, 10, 0.8, True),
        ({PERFECT: 3, "1111110000": 7}, 10, 0.8, False),
        # |E| = 4 < 9/2; with Q = 8 it is enough.
        ({"1111110000": 4}, 9, 0.8, False),
        ({"1111110000": 4}, 8, 0.8, True),
        # Only perfect calls are never stable, however many.
        ({PERFECT: 50}, 10, None, False),
        # More classes than quota: alpha above 1.
        ({"1111110000": 6, "0111110000": 1, "1011110000": 1}, 2, None, False),
    ],
)
def test_stability_by_hand(sizes: dict[str, int], q: int, alpha: float | None, expected: bool) -> None:
    assert is_stable(counted(sizes), q, alpha) is expected


@given(
    st.dictionaries(
        st.sampled_from([PERFECT, "1111110000", "1111111110", "0111111111"]), st.integers(1, 20), min_size=1
    ),
    st.integers(0, 40),
    st.sampled_from([None, 0.0, 0.2, 0.5, 0.8, 1.0]),
)
def test_stability_equals_an_independent_reading(sizes: dict[str, int], q: int, alpha: float | None) -> None:
    exact = None if alpha is None else Fraction(str(alpha))
    assert is_stable(counted(sizes), q, alpha) is stable_by_the_book(sizes, q, exact)
