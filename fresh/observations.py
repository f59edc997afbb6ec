"""What one observation shows: which values stand where in it, and which objects it holds.

Everything here depends on the text of the observation alone, and is kept: the same answer comes back in many runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fresh.traces.structure import parse_observation
from fresh.values import is_data_key, is_identifier, is_reference, leaves, normalise

SHORT_TEXT = 120
"""An unstructured observation up to this length is taken as one value."""
MAX_OBJECTS = 2_000
"""Objects of one observation that are looked at."""


def text_leaves(text: str) -> list[tuple[str, Any]]:
    """``(path, scalar)`` of an observation; a short unstructured text is one value at the empty path."""
    data = parse_observation(text)
    if data is not None:
        return list(leaves(data))
    return [("", text)] if text and len(text) <= SHORT_TEXT else []


@lru_cache(maxsize=512)
def paths_by_value(text: str) -> Mapping[str, tuple[str, ...]]:
    """Where each comparable value stands in an observation; the same answer comes back in many runs."""
    found: dict[str, list[str]] = {}
    for path, value in text_leaves(text):
        key = normalise(value)
        if key is not None:
            found.setdefault(key, []).append(path)
    return {key: tuple(paths) for key, paths in found.items()}


def named_objects(text: str, arguments: dict[str, Any]) -> list[tuple[str, dict[str, Any], bool]]:
    """Pairs an identifier with the object it names, and whether the object was shown as such or only in passing.

    An object is named by the first identifier among its own fields, by the identifier-like key it stands under, and,
    if it is the whole answer to a look-up, by the one identifier that was looked up. Other identifiers in it name
    other things: an order's ``user_id`` does not name the order.
    """
    found = list(shown_objects(text))
    root = parse_observation(text)
    if isinstance(root, dict):
        looked_up = [value for name, value in arguments.items() if is_reference(name, value)]
        if len(looked_up) == 1:
            found.append((str(normalise(looked_up[0])), root, True))
    return found


@lru_cache(maxsize=512)
def shown_objects(text: str) -> tuple[tuple[str, dict[str, Any], bool], ...]:
    """The part of `named_objects` that depends on the observation alone."""
    root = parse_observation(text)
    found: list[tuple[str, dict[str, Any], bool]] = []
    stack: list[tuple[str | None, Any]] = [(None, root)]
    while stack and len(found) < MAX_OBJECTS:
        name, value = stack.pop()
        if isinstance(value, list):
            stack.extend((None, item) for item in value)
            continue
        if not isinstance(value, dict):
            continue
        own = next((normalise(item) for key, item in value.items() if is_reference(str(key), item)), None)
        if name is not None:
            found.append((name, value, True))
        elif own is not None:
            found.append((own, value, value is root))
        for key, item in value.items():
            if isinstance(item, (dict, list)):
                stack.append((normalise(key) if is_identifier(key) else None, item))
    return tuple(found)


@lru_cache(maxsize=512)
def values_by_object(text: str) -> tuple[frozenset[str | None], ...]:
    """For each object in an observation, its own scalars and those of the objects around it."""
    found: list[frozenset[str | None]] = []
    stack: list[tuple[Any, frozenset[str | None]]] = [(parse_observation(text), frozenset())]
    while stack and len(found) < MAX_OBJECTS:
        value, around = stack.pop()
        if isinstance(value, list):
            inside = around | {normalise(item) for item in value if not isinstance(item, dict | list)}
            stack.extend((item, inside) for item in value if isinstance(item, dict | list))
        elif isinstance(value, dict):
            own = around | {normalise(item) for item in value.values() if not isinstance(item, dict | list)}
            found.append(own)
            for key, item in value.items():
                if isinstance(item, dict | list):
                    stack.append((item, own | {normalise(key)} if is_data_key(str(key)) else own))
    return tuple(found)
