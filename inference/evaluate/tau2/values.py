"""Values inside call arguments and observations: where they stand, and which others are of their kind."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Path = tuple[str | int, ...]
Scalar = str | int | float

_DIGIT = re.compile(r"\d")
_NAMES_ONE = re.compile(r"\S*\d\S*")


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Scalar]]:
    """Yields ``(path, scalar)`` of a JSON value; booleans, nulls and empty texts carry nothing and are left out."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from leaves(item, (*path, position))
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
        yield path, value


def replaced(value: Any, path: Path, new: Any) -> Any:
    """A copy of a JSON value with one leaf replaced."""
    if not path:
        return new
    head, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {key: replaced(item, rest, new) if key == head else item for key, item in value.items()}
    return [replaced(item, rest, new) if position == head else item for position, item in enumerate(value)]


def at(value: Any, path: Path) -> Any:
    """The part of a JSON value that a path leads to."""
    for step in path:
        value = value[step]
    return value


def field_name(path: Path) -> str:
    """The last name on a path, as the name of one thing: ``("item_ids", 0)`` gives ``item_id``."""
    names = [step for step in path if isinstance(step, str)]
    return singular(names[-1]) if names else ""


def singular(name: str) -> str:
    """``orders`` to ``order``; names that end otherwise stay."""
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def parse(text: str) -> Any:
    """An observation as JSON, or the text itself where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


@dataclass
class Knowledge:
    """What a run has been told and has seen so far.

    Attributes:
        seen: Every scalar of the observations, dict keys included, as text.
        by_name: Values by field name, the newest last.
    """

    seen: set[str] = field(default_factory=set)
    by_name: dict[str, list[Scalar]] = field(default_factory=lambda: defaultdict(list))
    _told: list[str] = field(default_factory=list)

    def copy(self) -> Knowledge:
        """A second store with the same contents."""
        twin = Knowledge(set(self.seen), defaultdict(list), list(self._told))
        twin.by_name.update({name: list(values) for name, values in self.by_name.items()})
        return twin

    def tell(self, text: str) -> None:
        """Takes in what the user said."""
        self._told.append(text.lower())

    def observe(self, observation: str) -> None:
        """Takes in a tool's result."""
        value = parse(observation)
        self.name(value)
        self.seen.update(str(leaf) for _, leaf in leaves(value))
        self.seen.update(_keys(value))

    def name(self, value: Any) -> None:
        """Files the named values of a JSON value under their names."""
        for path, leaf in leaves(value):
            name = field_name(path)
            for alias in (name, f"{name}_id"):
                values = self.by_name[alias]
                if leaf in values:
                    values.remove(leaf)
                values.append(leaf)

    def knows(self, leaf: Scalar) -> bool:
        """Whether a value was observed, or said by the user as a word of its own."""
        text = str(leaf)
        if text in self.seen:
            return True
        word = re.compile(rf"(?<![\w]){re.escape(text.lower())}(?![\w])")
        return any(word.search(told) for told in self._told)


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item)


Holder = tuple[str, str]
"""A record: its collection and its key."""


class ValueIndex:
    """All texts of a database by the kind of field they stand in, to draw others of the same kind from.

    Args:
        collections: Records by collection and key.
    """

    def __init__(self, collections: dict[str, dict[str, Any]]) -> None:
        self._collections = collections
        self._holders: dict[str, set[Holder]] = defaultdict(set)
        self._kinds: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        self._of_kind: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for collection, records in collections.items():
            for key, record in records.items():
                for kind, text in _kinds(record, (collection,)):
                    self._holders[text].add((collection, key))
                    self._kinds[text].add(kind)
                    self._of_kind[kind].add(text)

    def others(self, value: str, name: str, seen: set[str] | None = None) -> list[str]:
        """Values of the same kind that belong to another object.

        The key of a record is the object itself: every other key of its collection is another one. Any other value
        belongs to the records that hold it, and another object's value stands in none of them.

        Args:
            value: The value to replace.
            name: The argument's name for one such thing; decides between several kinds.
            seen: Values the run has seen; of the records that hold the value, those it has seen count, if any.

        Returns:
            The values, sorted; empty if the database does not hold the value.
        """
        for records in self._collections.values():
            if value in records:
                return sorted(records.keys() - {value})
        holders = self._holders.get(value, set())
        own = {holder for holder in holders if seen and holder[1] in seen} or holders
        for kind in sorted(self._kinds.get(value, ()), key=lambda kind: (kind[-1] != name, kind)):
            others = sorted(o for o in self._of_kind[kind] if o != value and not self._holders[o] & own)
            if others:
                return others
        return []

    def is_seen(self, value: str, seen: set[str]) -> bool:
        """Whether a run that saw these values has met this one, or a record that holds it."""
        return value in seen or any(key in seen for _, key in self._holders.get(value, ()))


def _kinds(value: Any, kind: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if _DIGIT.search(key) and isinstance(item, dict):  # keyed by identifiers: one kind for all
                yield (*kind, "*"), key
                yield from _kinds(item, (*kind, "*"))
            else:
                yield from _kinds(item, (*kind, key))
    elif isinstance(value, list):
        for item in value:
            yield from _kinds(item, kind)
    elif isinstance(value, str) and value:
        yield kind, value


def is_date(value: Scalar) -> bool:
    """Whether a value is a date, which users say in words."""
    return bool(re.fullmatch(r"\d{4}-\d{2}-\d{2}", str(value)))


def is_reference(value: Scalar) -> bool:
    """Whether a value looks as if it names one thing: a text of one word that holds a digit and is no date."""
    return isinstance(value, str) and len(value) > 3 and bool(_NAMES_ONE.fullmatch(value)) and not is_date(value)


def same_arguments(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two argument objects are the same JSON."""
    return json.dumps(first, sort_keys=True, default=str) == json.dumps(second, sort_keys=True, default=str)


def first_new(values: Iterable[str], old: str) -> Iterator[str]:
    """The values that differ from the old one, each once."""
    yielded = {old}
    for value in values:
        if value and value not in yielded:
            yielded.add(value)
            yield value
