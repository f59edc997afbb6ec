"""Words of the user, as conditions compare them."""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[^\W\d_]{3,}")
_ENDINGS = ("ations", "ation", "ings", "ing", "ers", "er", "ed", "es", "s", "e")
"""Taken off while at least four letters stay: ``booking``, ``booked`` and ``books`` meet. No stemmer of one language
would do for another; where these endings mean nothing, words are compared nearly as they stand."""


@lru_cache(maxsize=4096)
def stems(text: str) -> frozenset[str]:
    """The words of a text with their common endings taken off."""
    return frozenset(map(_stem, _WORD.findall(text.lower())))


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 4 and word[-1] == word[-2] else word
