"""What an identifier stands for, in the words of the result that shows it: ``#W12 (pending)``, ``4983 (Thermostat)``.

A model that has to choose among bare identifiers picks one at random; the title beside it says which is meant.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from functools import lru_cache
from typing import Any

from fresh.history import History
from fresh.mining.patterns import in_words
from fresh.observations import MAX_OBJECTS
from fresh.traces.structure import parse_observation
from fresh.values import is_data_key, is_identifier, is_reference, normalise

_TITLE_FIELD = re.compile(r"(?:^|_)(?:name|title|subject|label|summary)$")
_CODE_FIELD = re.compile(r"(?:^|_)(?:number|code|key|no|ref|reference|sku|uuid)$")
_PLAIN = re.compile(r"(?![\d.]+$)[\w&'%.+/ -]{2,30}")
"""A few ordinary words. Results hold what anybody wrote, so nothing that reads like a sentence goes into guidance."""
_MAX_WORDS = 4
_LONGEST_CODE = 8
"""A word with digits up to this length can describe a thing, as ``500ml`` does; a longer one names another thing."""
_MAX_TEXTS = 3


def title_of(value: Any, history: History, tools: Set[str] = frozenset()) -> str:
    """The title of the object that an identifier names, as its newest observation shows it.

    Args:
        value: An identifier.
        history: Only what it has shown is used.
        tools: Names in words, as `in_words` gives them. A title that speaks of a tool could be read as an order, and is
            left out.

    Returns:
        The object's name or title; where it has none, up to three short texts that describe it, its own or those of
        one object inside it. Empty if the observations say nothing of the kind.
    """
    key = normalise(value)
    if key is None:
        return ""
    for sighting in reversed(history.sightings(value)):
        observation = sighting.call.observation
        title = _titles(observation.text).get(key, "") if observation is not None else ""
        if title:
            return "" if not tools.isdisjoint(_phrases(title)) else title
    return ""


def with_title(value: Any, history: History, tools: Set[str] = frozenset()) -> str:
    """A value with its title in brackets, if it has one that is not the value itself."""
    title = title_of(value, history, tools)
    return f"{value} ({title})" if title and normalise(title) != normalise(value) else str(value)


def _phrases(text: str) -> Iterator[str]:
    """All runs of words in a text."""
    words = in_words(text).split()
    return (" ".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, len(words) + 1))


@lru_cache(maxsize=512)
def _titles(text: str) -> Mapping[str, str]:
    """Titles of an observation's objects by comparable identifier.

    The key that an object stands under and its first identifier name it. Another identifier in it may name something
    else, and is only taken where it tells the entries of a list apart, as a line's number tells apart an order's lines.
    """
    titles: dict[str, str] = {}
    columns: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for path, name, entry in _objects(text):
        own = _own_title(entry)
        title = own or _description(entry)
        if not title:
            continue
        keys = [(field, normalise(value)) for field, value in entry.items() if _names_object(str(field), value)]
        for key in [name] if name is not None else [key for _, key in keys[:1]]:
            if key is not None:
                titles.setdefault(key, title)
        for field, key in keys[1:] if own else ():
            columns[path, field].append((str(key), own))
    for column in columns.values():
        if len(column) == len({key for key, _ in column}) > 1:
            for key, own in column:
                titles.setdefault(key, own)
    return titles


def _objects(text: str) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    """``(path, identifying key it stands under, object)`` of an observation, outermost first."""
    queue: list[tuple[str, str | None, Any]] = [("", None, parse_observation(text))]
    for count, (path, name, value) in enumerate(queue):
        if count >= MAX_OBJECTS:
            return
        if isinstance(value, list):
            queue.extend((f"{path}[]", None, item) for item in value if isinstance(item, dict | list))
        elif isinstance(value, dict):
            yield path, name, value
            for field, item in value.items():
                if isinstance(item, dict | list):
                    data = is_data_key(str(field))
                    queue.append(
                        (f"{path}{{}}" if data else f"{path}.{field}", normalise(field) if data else None, item)
                    )


def _names_object(field: str, value: Any) -> bool:
    """Whether a field holds what its object is called by; a postal code looks like an identifier and is none."""
    return is_reference(field, value) and _is_name_field(field)


def _is_name_field(field: str) -> bool:
    return is_reference(field, "letters") or _CODE_FIELD.search(field) is not None


def _own_title(entry: Mapping[str, Any]) -> str:
    return next((value for field, value in entry.items() if _TITLE_FIELD.search(str(field)) and _is_plain(value)), "")


def _description(entry: Mapping[str, Any]) -> str:
    """The object's own short texts, or else those of the first object right inside it that has some."""
    inside = [item for item in entry.values() if isinstance(item, dict)]
    found = next((texts for item in (entry, *inside) if (texts := _texts(item))), [])
    return ", ".join(found[:_MAX_TEXTS])


def _texts(entry: Mapping[str, Any]) -> list[str]:
    """Short texts of an object that are no identifiers, by their looks or by their field's name."""
    return [value for field, value in entry.items() if _is_plain(value) and not _is_name_field(str(field))]


def _is_plain(value: Any) -> bool:
    if not isinstance(value, str) or not _PLAIN.fullmatch(value) or len(value.split()) > _MAX_WORDS:
        return False
    return len(value) <= _LONGEST_CODE or not is_identifier(value)
