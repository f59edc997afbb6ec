"""Whether the user's words name a tool: the verb that says what it does, and the other words of its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fresh.conditions.words import speaks_of, stems
from fresh.mining.patterns import in_words
from fresh.traces.tools import verb_of


class ToolNames:
    """Names of tools as words that a request can hold.

    Args:
        names: The tools, [K].
        writes: Whether each changes something, [K].
    """

    def __init__(self, names: Sequence[str], writes: Sequence[bool]) -> None:
        self._count = len(names)
        self._share = _shares(names)
        self._verbs: dict[str, list[int]] = {}
        for row, (name, is_write) in enumerate(zip(names, writes, strict=True)):
            if is_write:
                self._verbs.setdefault(verb_of(name), []).append(row)

    def share(self, text: str) -> NDArray[np.float64]:
        """Share of each name's words that a text holds, [K]; a word that few names have counts more."""
        found = np.zeros(self._count)
        for word in stems(text):
            rows, weights = self._share.get(word, ((), ()))
            found[list(rows)] += weights
        return found

    def asked(self, text: str) -> NDArray[np.float64]:
        """1 for each tool that changes something and whose verb a text names, [K]."""
        found = np.zeros(self._count)
        for verb, rows in self._verbs.items():
            found[rows] = speaks_of(text, verb)
        return found


def _shares(names: Sequence[str]) -> dict[str, tuple[list[int], list[float]]]:
    """For each word, the names that hold it and what it makes up of each of them."""
    words = [stems(in_words(name)) for name in names]
    counts = Counter(word for name in words for word in name)
    rarity = {word: np.log((len(names) + 1) / (count + 0.5)) for word, count in counts.items()}
    found: dict[str, tuple[list[int], list[float]]] = {}
    for row, name in enumerate(words):
        total = sum(rarity[word] for word in name)
        for word in name:
            rows, weights = found.setdefault(word, ([], []))
            rows.append(row)
            weights.append(float(rarity[word] / total))
    return found
