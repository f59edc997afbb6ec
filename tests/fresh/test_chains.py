from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fresh.chains import UNKNOWN, DistinctChains, Ragged

CHAINS = st.lists(st.lists(st.integers(0, 3), max_size=9), max_size=6)


def lcs(a: list[int], b: list[int]) -> int:
    """The textbook table."""
    row = [0] * (len(b) + 1)
    for x in a:
        above = row[:]
        for j, y in enumerate(b):
            row[j + 1] = above[j] + 1 if x == y else max(above[j + 1], row[j])
    return row[-1]


@settings(deadline=None)
@given(CHAINS, st.lists(st.integers(0, 4), max_size=9))
def test_common_is_the_textbook_length(chains: list[list[int]], chain: list[int]) -> None:
    got = DistinctChains(Ragged.of(chains)).common(chain)
    assert got.tolist() == [lcs(chain, other) for other in chains]


def test_chains_longer_than_a_word_of_bits() -> None:
    rng = np.random.default_rng(0)
    chains = [rng.integers(0, 3, size=n).tolist() for n in (63, 64, 65, 128, 129, 200, 3)] + [[1] * 150]
    distinct = DistinctChains(Ragged.of(chains))
    for chain in ([1] * 140, rng.integers(0, 3, size=170).tolist(), chains[5]):
        assert distinct.common(chain).tolist() == [lcs(chain, other) for other in chains]
        assert distinct.common(chain).tolist() == [lcs(chain, other) for other in chains], "kept places changed"


@given(CHAINS, CHAINS)
def test_ragged_joins_pads_and_counts(first: list[list[int]], second: list[list[int]]) -> None:
    both = Ragged.of(first).join(Ragged.of(second))
    rows = [row[row != UNKNOWN].tolist() for row in both.padded()]
    assert rows == first + second
    marked = np.array([True, False, True, False])
    assert both.count(marked).tolist() == [sum(c in (0, 2) for c in one) for one in first + second]
    assert both.fits(len(first + second), 4)


def test_fits_sees_wrong_arrays() -> None:
    good = Ragged.of([[0, 1], [2]])
    assert good.fits(2, 3)
    assert not good.fits(3, 3)
    assert not good.fits(2, 2)
    assert not Ragged(good.start, good.codes[:-1]).fits(2, 3)
    assert not Ragged(np.array([0, 4, 3]), good.codes).fits(2, 3)
    assert not Ragged(good.start + 1, good.codes).fits(2, 3)
