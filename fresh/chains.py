"""Many short sequences of codes as flat arrays, and how much of one chain they share in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

UNKNOWN = -1
"""Fills up short rows; no code equals it."""

_WORD_BITS = 64


@dataclass(frozen=True)
class Ragged:
    """Lists of codes of different lengths, end to end: list i is ``codes[start[i]:start[i + 1]]``."""

    start: NDArray[np.int64]
    codes: NDArray[np.int32]

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Ragged:
        """Lays the lists end to end."""
        lengths = np.fromiter(map(len, lists), np.int64, count=len(lists))
        start = np.concatenate([np.zeros(1, np.int64), lengths.cumsum()])
        codes = np.fromiter((code for one in lists for code in one), np.int32, count=int(start[-1]))
        return cls(start, codes)

    def join(self, other: Ragged) -> Ragged:
        """These lists, then the others."""
        return Ragged(
            np.concatenate([self.start, other.start[1:] + self.start[-1]]),
            np.concatenate([self.codes, other.codes]),
        )

    def count(self, marked: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many codes of each list are marked, ``[n]``; ``marked`` holds a flag for each code."""
        running = np.concatenate([np.zeros(1, np.int64), marked[self.codes].cumsum()])
        return running[self.start[1:]] - running[self.start[:-1]]

    def padded(self) -> NDArray[np.int32]:
        """One row a list, filled up with :data:`UNKNOWN`, ``[n, longest]``."""
        lengths = np.diff(self.start)
        width = int(lengths.max(initial=0))
        out = np.full((len(lengths), width), UNKNOWN, dtype=np.int32)
        out[np.arange(width) < lengths[:, None]] = self.codes
        return out

    def fits(self, lists: int, codes: int) -> bool:
        """Whether these are so many lists of codes from 0 up to ``codes - 1``: a check of stored arrays."""
        return (
            self.start.shape == (lists + 1,)
            and self.start[0] == 0
            and self.codes.shape == (int(self.start[-1]),)
            and bool((np.diff(self.start) >= 0).all())
            and bool(((self.codes >= 0) & (self.codes < codes)).all())
        )


class DistinctChains:
    """Each of many chains once, ready to be compared with one chain after another.

    Args:
        chains: The chains of codes; repeated ones are compared once.
    """

    def __init__(self, chains: Ragged) -> None:
        padded = chains.padded()
        if padded.size:
            self._chains, number = np.unique(padded, axis=0, return_inverse=True)
        else:
            self._chains, number = padded[:1], np.zeros(len(padded), np.int64)
        self._number = number.reshape(-1)
        self._places: dict[int, NDArray[np.uint64]] = {}

    def common(self, chain: Sequence[int]) -> NDArray[np.int64]:
        """Length of the longest common subsequence of one chain with each of these, ``[n]``.

        Bit-parallel, 64 positions of every chain at once: a row of bits holds where the running length does *not*
        grow, and a step of the chain moves each match to the next such place by one addition.

        Source: Hyyrö, "Bit-Parallel LCS-Length Computation Revisited" (2004).
        """
        count, width = self._chains.shape
        words = -(-width // _WORD_BITS)
        row = np.full((words, count), ~np.uint64(0))
        for code in chain:
            carry = np.zeros(count, np.uint64)
            for i, match in enumerate(self._where(code, words)):
                both = row[i] & match
                with_carry = row[i] + both
                moved = with_carry + carry
                # A sum that came out below one of its parts has run over into the next word.
                carry = ((with_carry < both) | (moved < with_carry)).astype(np.uint64)
                row[i] = moved | (row[i] & ~match)
        grown = np.unpackbits((~row).view(np.uint8).reshape(words, count, 8), axis=-1)
        return grown.sum(axis=(0, 2), dtype=np.int64)[self._number]

    def _where(self, code: int, words: int) -> NDArray[np.uint64]:
        """The places of a code as bits, ``[words, m]``; kept, as an agent asks for the same tools at every step."""
        if code not in self._places:
            self._places[code] = _bits(self._chains == code, words)
        return self._places[code]


def _bits(flags: NDArray[np.bool_], words: int) -> NDArray[np.uint64]:
    """Packs flags ``[m, width]`` into words of 64, lowest bit first: ``[words, m]``."""
    padded = np.zeros((len(flags), words * _WORD_BITS), dtype=np.bool_)
    padded[:, : flags.shape[1]] = flags
    packed = np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    return np.ascontiguousarray(packed.reshape(len(flags), words).T)
