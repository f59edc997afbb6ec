"""Values inside arguments and observations: flattening, comparing, and telling identifiers from ordinary words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

_HAS_DIGIT = re.compile(r"\d")
_IDENTIFIER = re.compile(r"[#$]?[A-Za-z0-9][\w.@:#/+-]{2,}", re.ASCII)
_TOKEN = re.compile(r"[#$]?[A-Za-z0-9][\w.@:#/+-]*\w", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?")
_FIELD_NAME = re.compile(r"[A-Za-z_$][\w$.-]*")
_ID_NAME = re.compile(r"(?:^|_|\.)ids?$|[a-z]Ids?$")
_NUMBERED_NAME = re.compile(r"[A-Za-z_]*[A-Za-z]\d{1,2}")
"""``address1``, ``line2``: a field's name although it mixes letters and digits."""
_MAX_LEAVES = 5_000
"""Bounds the work on one giant observation; later leaves are not indexed."""


def normalise(value: Any) -> str | None:
    """A scalar as a comparable string; None for null, booleans, containers and empty strings.

    ``1``, ``1.0`` and ``"1"`` compare equal, and so do strings that differ in case or outer space.
    """
    if value is None or isinstance(value, (bool, dict, list)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip().lower() or None


def is_identifier(value: Any) -> bool:
    """Whether a value looks like the name of one particular object rather than a word, a count or a date.

    One token that mixes letters or signs with digits, an e-mail address, or a number of at least five digits.
    """
    if isinstance(value, bool) or value is None:
        return False
    text = str(value).strip()
    return len(text) <= 80 and _is_identifier(text)


@lru_cache(maxsize=65_536)
def _is_identifier(text: str) -> bool:
    if _DATE.fullmatch(text) or not _IDENTIFIER.fullmatch(text):
        return False
    if "@" in text:
        return True
    if text.isdigit():
        return len(text) >= 5
    if not _HAS_DIGIT.search(text):
        return False
    return not re.fullmatch(r"[\d.,:/+-]+", text)


def identifiers_in(text: str) -> Iterator[re.Match[str]]:
    """Where identifiers stand in running text, in order."""
    return (match for match in _TOKEN.finditer(text) if is_identifier(match.group()))


def is_reference(path: str, value: Any) -> bool:
    """Whether a value at a path names an object: it looks like an identifier, or the path says that it is one.

    The path decides for identifiers that are letters only, such as a booking code under ``booking_id``.
    """
    if is_identifier(value):
        return True
    if not isinstance(value, str) or not 3 <= len(value) <= 80 or " " in value:
        return False
    return bool(_ID_NAME.search(path.rstrip("[]{}")))


@lru_cache(maxsize=65_536)
def is_data_key(key: str) -> bool:
    """Whether a key of an object is data, such as an identifier, a date or a title, rather than a field's name."""
    if not _FIELD_NAME.fullmatch(key):
        return True
    return is_identifier(key) and not _NUMBERED_NAME.fullmatch(key)


def leaves(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields ``(path, scalar)`` for every scalar in a structured value.

    A list adds ``[]`` to the path. A key that is itself data adds ``{}`` and is yielded as a value too, so that
    ``{"card_17": {"id": "card_17"}}`` gives the paths ``{}`` and ``{}.id`` whatever the card.
    """
    count = 0
    stack: list[tuple[str, Any]] = [(path, data)]
    while stack and count < _MAX_LEAVES:
        where, value = stack.pop()
        if isinstance(value, dict):
            for key, item in reversed(list(value.items())):
                if is_data_key(str(key)):
                    count += 1
                    yield f"{where}{{}}", key
                    stack.append((f"{where}{{}}", item))
                else:
                    stack.append((f"{where}.{key}" if where else str(key), item))
        elif isinstance(value, list):
            stack.extend((f"{where}[]", item) for item in reversed(value))
        else:
            count += 1
            yield where, value


def argument_name(path: str) -> str:
    """The argument that a path begins with: ``flights`` of ``flights[].date``."""
    return path.replace("{", ".").replace("[", ".").split(".", 1)[0]


def argument_leaves(arguments: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    """Yields ``(path, scalar)`` of an arguments object, whose own keys are always names."""
    for name, value in (arguments or {}).items():
        yield from leaves(value, name)


def scalars(data: Any) -> list[Any]:
    """All scalars of a value, in order; identifier-like keys included."""
    return [value for _, value in leaves(data)]


def same_value(left: Any, right: Any) -> bool:
    """Equality of arguments: numbers by value, strings by case-folded text, lists without regard to order."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_value(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return sorted(map(_order_key, left)) == sorted(map(_order_key, right))
    if isinstance(left, (dict, list)) or isinstance(right, (dict, list)):
        return False
    return left == right or (normalise(left) is not None and normalise(left) == normalise(right))


def _order_key(value: Any) -> str:
    if isinstance(value, dict):
        return repr(sorted((key, _order_key(item)) for key, item in value.items()))
    if isinstance(value, list):
        return repr(sorted(map(_order_key, value)))
    return normalise(value) or repr(value)


def same_arguments(left: dict[str, Any] | None, right: dict[str, Any] | None) -> bool:
    """Whether two argument objects ask for the same thing."""
    if left is None or right is None:
        return left is right
    return same_value(left, right)
