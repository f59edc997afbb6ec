"""Values inside arguments and responses, and what they look like.

Everything here works on the text of values alone: it knows no tool and no field name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from fresh.traces.structure import parse_observation

MAX_LEAVES = 400
"""Leaves read from one response; a longer one is judged by its beginning."""

_WORD = re.compile(r"[^\W_]+(?:[_.@#+:/-]+[^\W_]+)*")
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*")
_IDENTIFIER = re.compile(r"#?[^\W_][\w@.#:/+-]*")
_DATE = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}:\d{2}(?::\d{2})?\S*)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\d{1,2}:\d{2}"
)


def leaves(value: Any, path: str = "", *, innermost: bool = False) -> Iterator[tuple[str, Any]]:
    """Yields ``(key, scalar)`` of a nested value in order; lists take the key they stand under.

    Args:
        value: Any JSON-like value.
        path: Key that the value stands under.
        innermost: Give each scalar its own key; by default it has the top-level one.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, str(key) if innermost else path or str(key), innermost=innermost)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner, path, innermost=innermost)
    else:
        yield path, value


def is_date(text: str) -> bool:
    """A date, a time, or both, in a common notation."""
    return _DATE.fullmatch(text.strip()) is not None


def is_identifier(value: Any) -> bool:
    """A string that is looked up and not composed: one word of letters with a digit or an ``@`` in it.

    Dates, plain numbers and sums are not identifiers: they are often rewritten or computed.
    """
    if not isinstance(value, str):
        return False
    text = value.strip()
    if len(text) < 3 or _IDENTIFIER.fullmatch(text) is None or is_date(text):
        return False
    return any(c.isalpha() for c in text) and ("@" in text or any(c.isdigit() for c in text))


def words(text: str) -> list[str]:
    """Lower-case words of a text; what punctuation joins inside a word stays one word, as in ids and e-mails."""
    return _WORD.findall(text.lower())


def value_words(value: Any) -> list[str]:
    """Words of a scalar; numbers in the one notation of :func:`number_text`."""
    if value is None or isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [number_text(value)]
    return words(str(value))


def number_text(value: float) -> str:
    """A number as it would be written: without a trailing ``.0`` and without sign.

    >>> number_text(12.50), number_text(-3.0)
    ('12.5', '3')
    """
    try:
        return f"{abs(value):.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(abs(value))
    except (OverflowError, ValueError):  # infinities format fine; an int of thousands of digits does not
        return "0"


def numbers(text: str) -> Iterator[str]:
    """Numbers in a text, in the notation of :func:`number_text`, thousands separators removed."""
    for found in _NUMBER.findall(text):
        bare = found.lstrip("+-")
        if "," in bare:
            bare = bare.replace(",", "")
        if bare.count(".") > 1:
            continue
        whole, dot, fraction = bare.partition(".")
        if dot:
            fraction = fraction.rstrip("0")
        yield f"{whole}.{fraction}" if fraction else whole


@lru_cache(maxsize=1024)
def vocabulary(text: str) -> tuple[str, ...]:
    """The different words and numbers of a text. Policies and results recur from run to run, hence the cache."""
    return tuple(dict.fromkeys((*words(text), *numbers(text))))


def scalars(text: str) -> list[tuple[str, Any]]:
    """The leaves of a response, at most :data:`MAX_LEAVES`; a response without structure has none."""
    value = parse_observation(text)
    if not isinstance(value, dict | list):
        return []
    found: list[tuple[str, Any]] = []
    for leaf in leaves(value):
        found.append(leaf)
        if len(found) == MAX_LEAVES:
            break
    return found
