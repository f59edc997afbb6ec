"""Texts with the particulars taken out: action patterns, normalised errors, requests with placeholders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson

from fresh.redact import hide_secrets, is_secret_name
from fresh.values import argument_leaves, is_identifier, is_reference, normalise
from graph_schema.trajectory import ToolCall

MAX_TEXT = 300
_MAX_MESSAGE = 200

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[A-Za-z][\w+.-]*://\S+"), "<URL>"),
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "<EMAIL>"),
    (re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"), "<DATE>"),
    (re.compile(r"\b\d{1,2}:\d{2}(?::\d{2})?\b"), "<TIME>"),
    (re.compile(r"[$€£]\s?\d[\d,]*(?:\.\d+)?"), "<AMOUNT>"),
    (re.compile(r"\[[^\[\]]{0,400}\]"), "<LIST>"),
    (re.compile(r"\{[^{}]{0,400}\}"), "<OBJECT>"),
    (
        re.compile(r"#?\b[A-Za-z_]\w*(?:[-.]\w+)*[-.]\w*\d[\w-]*\b"),
        "<ID>",
    ),  # also where the digits stand in a later part
    (re.compile(r"#?\b(?=\w*\d)(?=\w*[A-Za-z_])\w[\w-]*\b"), "<ID>"),
    (re.compile(r"(?<![\w<])[+-]?\d[\d,]*(?:\.\d+)?\b"), "<NUMBER>"),
)
_INTRODUCTION = re.compile(
    r"\b((?i:my name is|name's|i am|i'm|this is|me llamo|mi nombre es|soy))\s+((?:[A-Z][\w'-]+\s?){1,3})"
)
_NUMBER = re.compile(r"[+-]?\d{1,4}(?:\.\d+)?")
_WORD = re.compile(r"[^\W\d_][\w'-]*|[\w-]{3,}")
_PARTICULAR = re.compile(r"[\d@\\/]|\.\w")
"""A number, an address, a path or a file's name."""
_CODE = re.compile(r"(?<![<\w])[A-Z]{5,}(?![\w>])")
"""A booking code of letters alone. It costs an emphasised word now and then; a code told would be worse."""
_LETTERS = re.compile(r"[^\W\d_]{2}")
_NAMES = frozenset({"first", "last", "given", "family", "middle", "maiden", "full"})
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
    text = hide_secrets(text)
    for pattern, name in _RULES:
        text = pattern.sub(name, text)
    return _SPACE.sub(" ", text).strip()


def request_text(text: str, calls: Iterable[ToolCall], shown: Iterable[Mapping[str, tuple[str, ...]]] = ()) -> str:
    """What was asked for, without whom it was for: identifiers and the values of argument calls become placeholders.

    Args:
        text: The request.
        calls: The run's calls.
        shown: For each observation of the run, the paths at which each comparable value stands in it; they tell names
            of people and identifiers that look like words.
    """
    known = _shown_particulars(text, list(shown))
    for call in calls:
        known.update(argument_placeholders(call.arguments))
    text = _INTRODUCTION.sub(lambda match: f"{match[1]} <NAME> ", text)
    if sum(map(str.islower, text)) > sum(map(str.isupper, text)):  # who writes in capitals writes words in capitals
        text = _CODE.sub("<ID>", text)
    return generic(hide_secrets(text, spoken=True), known)[:MAX_TEXT]


def _shown_particulars(text: str, shown: list[Mapping[str, tuple[str, ...]]]) -> dict[str, str]:
    known: dict[str, str] = {}
    for word in set(_WORD.findall(text)):
        key = word.lower()
        for path in (path for paths in shown for path in paths.get(key, ())):
            if word[0].isupper() and _names_a_person(path):
                known[key] = "<NAME>"
            elif is_reference(path, word):
                known.setdefault(key, "<ID>")
    return known


@lru_cache(maxsize=16_384)
def _names_a_person(path: str) -> bool:
    words = set(in_words(path.rsplit(".", 1)[-1]).split())
    return bool(words & {"surname", "forename"}) or ("name" in words and bool(words & _NAMES))


def argument_placeholders(arguments: Mapping[str, Any] | None) -> dict[str, str]:
    """Values of an arguments object, each with the placeholder of its argument; very short values are left alone."""
    known: dict[str, str] = {}
    for path, value in argument_leaves(arguments):
        text = None if isinstance(value, bool) else normalise(value)
        if text is None or not 3 <= len(text) <= 80 or _NUMBER.fullmatch(text):
            continue
        if text == str(value) and choice_at(path, value) is not None:
            continue  # plain lower-case words are a choice, not a particular
        name = path.replace("[]", "").replace("{}", "").rsplit(".", 1)[-1]
        known.setdefault(text, placeholder(name))
    return known


def error_message(text: str, arguments: Mapping[str, Any] | None = None) -> str:
    """The kind of an error: its message with every particular value replaced.

    ``Error: payment amount does not add up, total price is 52`` gives ``payment amount does not add up, total price is
    <NUMBER>``; values that the call itself had passed take the name of their argument.
    """
    lines = [line for line in _unwrap(text).splitlines() if _LETTERS.search(line)] or [text]
    message = lines[-1] if lines[0].lower().lstrip().startswith("traceback") else lines[0]
    message = re.sub(r"^(?:\[?\w*\s?error\]?|exception)\s*[:\-]\s*", "", message.strip(), flags=re.IGNORECASE)
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
    if text is None or len(text) > 30 or is_identifier(value) or _PARTICULAR.search(text):
        return None
    return text if hide_secrets(text) == text else None


def choice_at(path: str, value: Any) -> str | None:
    """As `choice`; None also where the name of the field says that the value is a secret."""
    return None if is_secret_name(path) else choice(value)
