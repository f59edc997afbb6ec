"""Texts with the particulars taken out: action patterns, normalised errors, requests with placeholders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson

from fresh.values import argument_leaves, is_identifier, normalise
from graph_schema.trajectory import ToolCall

MAX_TEXT = 300
_MAX_MESSAGE = 200

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"https?://\S+"), "<URL>"),
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "<EMAIL>"),
    (re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"), "<DATE>"),
    (re.compile(r"\b\d{1,2}:\d{2}(?::\d{2})?\b"), "<TIME>"),
    (re.compile(r"[$€£]\s?\d[\d,]*(?:\.\d+)?"), "<AMOUNT>"),
    (re.compile(r"\[[^\[\]]{0,400}\]"), "<LIST>"),
    (re.compile(r"\{[^{}]{0,400}\}"), "<OBJECT>"),
    (re.compile(r"#?\b(?=\w*\d)(?=\w*[A-Za-z_])\w[\w-]*\b"), "<ID>"),
    (re.compile(r"(?<![\w<])[+-]?\d[\d,]*(?:\.\d+)?\b"), "<NUMBER>"),
)
_INTRODUCTION = re.compile(
    r"\b((?i:my name is|name's|i am|i'm|this is|me llamo|mi nombre es|soy))\s+((?:[A-Z][\w'-]+\s?){1,3})"
)
_NUMBER = re.compile(r"[+-]?\d{1,4}(?:\.\d+)?")
_SPACE = re.compile(r"\s+")
_WORD_BREAK = re.compile(r"[_\W]+|(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(maxsize=16_384)
def placeholder(name: str) -> str:
    """``order_id`` as ``<ORDER_ID>``."""
    return f"<{_WORD_BREAK.sub('_', name).strip('_').upper()}>"


@lru_cache(maxsize=16_384)
def in_words(name: str) -> str:
    """``cancelOrder`` or ``cancel_order`` as ``cancel order``."""
    return _WORD_BREAK.sub(" ", name).strip().lower()


def action_pattern(tool: str, arguments: Mapping[str, Any] | None) -> str:
    """The call with each argument's value replaced by its name: ``cancel_order(order_id=<ORDER_ID>)``.

    Arguments that could not be read as an object give ``tool(?)``, a pattern of its own.
    """
    if arguments is None:
        return f"{tool}(?)"
    inside = ", ".join(f"{name}={placeholder(name)}" for name in sorted(arguments))
    return f"{tool}({inside})"


def generic(text: str, known: Mapping[str, str] | None = None) -> str:
    """A text with identifiers, amounts, dates and numbers replaced by placeholders.

    Args:
        text: Any text.
        known: Values to replace first, each with its placeholder; longest first, as whole words.
    """
    for value, name in sorted((known or {}).items(), key=lambda item: (-len(item[0]), item)):
        if value.lower() not in text.lower():
            continue  # most are not, and a pattern costs more than a look
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", name, text, flags=re.IGNORECASE)
    for pattern, name in _RULES:
        text = pattern.sub(name, text)
    return _SPACE.sub(" ", text).strip()


def request_text(text: str, calls: Iterable[ToolCall]) -> str:
    """What was asked for, without whom it was for: identifiers and the values of argument calls become placeholders."""
    known = {}
    for call in calls:
        known.update(argument_placeholders(call.arguments))
    text = _INTRODUCTION.sub(lambda match: f"{match[1]} <NAME> ", text)
    return generic(text, known)[:MAX_TEXT]


def argument_placeholders(arguments: Mapping[str, Any] | None) -> dict[str, str]:
    """Values of an arguments object, each with the placeholder of its argument; very short values are left alone."""
    known: dict[str, str] = {}
    for path, value in argument_leaves(arguments):
        text = None if isinstance(value, bool) else normalise(value)
        if text is None or not 3 <= len(text) <= 80 or _NUMBER.fullmatch(text):
            continue
        if text.isalpha() and text == str(value):
            continue  # a plain lower-case word is a choice, not a particular
        name = path.replace("[]", "").replace("{}", "").rsplit(".", 1)[-1]
        known.setdefault(text, placeholder(name))
    return known


def error_message(text: str, arguments: Mapping[str, Any] | None = None) -> str:
    """The kind of an error: its message with every particular value replaced.

    ``Error: payment amount does not add up, total price is 52`` gives ``payment amount does not add up, total price is
    <NUMBER>``; values that the call itself had passed take the name of their argument.
    """
    message = _unwrap(text)
    message = re.sub(r"^(?:\[?\w*\s?error\]?|exception)\s*[:\-]\s*", "", message.strip(), flags=re.IGNORECASE)
    message = next((line for line in message.splitlines() if line.strip()), message)
    message = generic(message[: 4 * _MAX_MESSAGE], argument_placeholders(arguments))
    return _lower_outside_placeholders(message[:_MAX_MESSAGE].strip(" .")) or "no message"


def _lower_outside_placeholders(text: str) -> str:
    """Two services often differ only in the case of the same message."""
    return re.sub(r"<[A-Z_]+>|[^<]+|<", lambda match: match[0] if match[0][0] == "<" else match[0].lower(), text)


def _unwrap(text: str) -> str:
    """The message inside a JSON object such as ``{"error": "..."}``; other text as it is."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    for key in ("error", "message", "detail"):
        value = data.get(key) if isinstance(data, dict) else None
        if isinstance(value, dict):
            value = value.get("message")
        if isinstance(value, str) and value:
            return value
    return text


def choice(value: Any) -> str | None:
    """A value as one of few choices (an enum, a reason, a yes or no), or None where it names something particular."""
    if isinstance(value, bool):
        return str(value).lower()
    text = normalise(value)
    if text is None or len(text) > 30 or is_identifier(value) or any(c.isdigit() for c in text):
        return None
    return text
