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


_NOT = re.compile(
    r"\b(?:not|never|no|without|cannot|don['’]?t|doesn['’]?t|won['’]?t|can['’]?t|shouldn['’]?t|mustn['’]?t)\W"
)
_BEFORE = 40
"""Characters before a word in which a *not* denies it."""


@lru_cache(maxsize=1024)
def forms_of(verb: str) -> re.Pattern[str]:
    """What finds a verb in lower-cased text: its regular forms and the nouns made of it.

    ``cancel`` finds *cancelled* and *cancellation*, ``modify`` finds *modified*, ``send`` does not find *sender*.
    Never matches for an empty verb.
    """
    word = verb.lower()
    if not word:
        return re.compile(r"(?!)")
    bases = {word, word + word[-1]} | ({word[:-1]} if word.endswith("e") else set())
    found = {base + ending for base in bases for ending in ("ed", "ing", "ings", "ation", "ations", "ment", "ments")}
    found |= {word, f"{word}s", f"{word}es", f"{word}d"}
    if word.endswith("y"):
        found |= {word[:-1] + ending for ending in ("ies", "ied", "ication", "ications")}
    return re.compile(rf"(?<![^\W\d_])(?:{'|'.join(sorted(map(re.escape, found), key=len, reverse=True))})(?![^\W\d_])")


@lru_cache(maxsize=4096)
def speaks_of(text: str, verb: str) -> bool:
    """Whether a text names an act and does not merely deny it: *do not cancel anything* asks for no cancelling."""
    lower = text.lower()
    if verb.lower().rstrip("ey") not in lower:  # all forms begin so; most verbs are told apart without their pattern
        return False
    places = forms_of(verb).finditer(lower)
    return any(not _NOT.search(_sentence_before(lower, place.start())) for place in places)


def _sentence_before(text: str, place: int) -> str:
    return re.split(r"[.!?;\n]", text[max(0, place - _BEFORE) : place])[-1] + " "
