"""JSON text to values and back, made safe to store: no lone surrogates, no non-finite numbers.

A lone surrogate cannot be written as UTF-8, so one bad character in one observation would stop everything that is
saved later. They are replaced where text comes in, and nowhere else has to think of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import orjson

Note = Callable[[str], None]
"""Takes the kind of a repair, such as ``surrogates_replaced``."""

_OPTIONS = orjson.OPT_NON_STR_KEYS
UNWRITABLE = '"nested too deeply, or a number too long"'
"""What `dumps` gives for a value that it cannot write."""


def ignore(kind: str) -> None:
    """A :data:`Note` that forgets."""


def has_surrogate(text: str) -> bool:
    """Whether the text cannot be written as UTF-8."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def scrub(text: str, note: Note = ignore) -> str:
    """Returns the text with each lone surrogate replaced by U+FFFD; a proper pair becomes its character."""
    if not has_surrogate(text):
        return text
    note("surrogates_replaced")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def scrub_value(value: Any, note: Note = ignore) -> Any:
    """Scrubs every string and key of a JSON value."""
    if isinstance(value, str):
        return scrub(value, note)
    if isinstance(value, dict):
        return {scrub(str(key), note): scrub_value(item, note) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [scrub_value(item, note) for item in value]
    return value


def loads(data: bytes | str, note: Note = ignore) -> Any:
    """Parses JSON strictly and fast, then leniently.

    What strict parsers refuse and real traces hold is read by the second attempt: lone surrogates (replaced),
    NaN and Infinity (kept as the strings ``"NaN"`` and ``"Infinity"``, so that no later writer stumbles), control
    characters inside strings, and bytes that are not UTF-8.

    Raises:
        ValueError: The text is not JSON.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        strict_error = error
    if isinstance(data, bytes):
        text = data.decode("utf-8", "replace")
        if data.startswith(b"\xef\xbb\xbf"):
            text = text.removeprefix("\ufeff")
        bad_bytes = "\ufffd" in text and "\ufffd".encode() not in data
    else:
        text, bad_bytes = data, False

    def constant(name: str) -> str:
        note("non_finite_number")
        return name

    try:
        value = json.loads(text, strict=False, parse_constant=constant, parse_float=_finite)
        value = scrub_value(value, note)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError:
        raise ValueError(str(strict_error)) from None
    if bad_bytes:
        note("invalid_utf8_replaced")
    return value


def dumps(value: Any) -> str:
    """Writes a JSON value compactly, keys in their own order, whatever it holds.

    What no JSON can hold, a value that contains itself, say, becomes a string that says so.
    """
    try:
        return orjson.dumps(value, option=_OPTIONS, default=str).decode()
    except (TypeError, ValueError):  # integers beyond 64 bits, surrogates
        pass
    try:
        return json.dumps(scrub_value(value), ensure_ascii=False, default=str, separators=(",", ":"))
    except (RecursionError, ValueError):  # thousands of levels or of digits
        return UNWRITABLE


def _finite(literal: str) -> float | str:
    number = float(literal)
    return literal if number in (float("inf"), float("-inf")) else number
