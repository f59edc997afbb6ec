"""Conditions on where the values of a call's arguments come from."""

from __future__ import annotations

import re
from typing import Any, Literal

from fresh.conditions.parts import BaseCondition, argument_values, object_via, references
from fresh.history import History
from fresh.values import is_reference, leaves, normalise

_BARE = re.compile(r"[\d\s:.,/+TZ-]+")
"""A date, a time or a number and nothing else."""


class Grounded(BaseCondition):
    """Each value in the argument was said by the user or seen in an observation.

    Attributes:
        plain: Names and numbers in ordinary text count too, such as a street; otherwise only values that name an
            object do. Words in small letters are choices, and never count.
    """

    kind: Literal["grounded"] = "grounded"
    argument: str
    plain: bool = False

    def values(self, arguments: dict[str, Any]) -> list[Any]:
        """The values that must have been said or seen."""
        if not self.plain:
            return references(arguments, self.argument)
        return [v for v in argument_values(arguments, self.argument) if isinstance(v, str) and _is_particular(v)]

    def holds(self, arguments: dict[str, Any], history: History) -> bool | None:
        """True, False, or None where the argument holds no such value."""
        values = self.values(arguments)
        if not values:
            return None
        return all(history.origin(value).kind != "nowhere" for value in values)

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        return f"before {action}: {self.argument} was given by the user or seen in a result"


class Within(BaseCondition):
    """Each identifier in ``argument`` stands inside the object that ``anchor`` names, or inside the one that names.

    Attributes:
        via: A field of the anchor's object that names the object meant, such as an order's ``user_id``; empty where
            the anchor's own object is meant.
    """

    kind: Literal["within"] = "within"
    argument: str
    anchor: str
    via: str = ""

    def holds(self, arguments: dict[str, Any], history: History) -> bool | None:
        """True, False, or None where an argument is absent or the object has not been seen."""
        inside = self.candidates(arguments, history)
        values = references(arguments, self.argument)
        if inside is None or not values:
            return None
        known = {normalise(value) for value in inside}
        return all(normalise(value) in known for value in values)

    def candidates(self, arguments: dict[str, Any], history: History) -> list[Any] | None:
        """Identifiers inside the object meant; None where it has not been seen."""
        anchors = argument_values(arguments, self.anchor)
        if len(anchors) != 1:
            return None
        found = object_via(history, anchors[0], self.via)
        if found is None:
            return None
        return [value for path, value in leaves(found) if is_reference(path, value)]

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        owner = f"the {self.via} of {self.anchor}" if self.via else self.anchor
        return f"before {action}: {self.argument} belongs to the object that {owner} names"


def _is_particular(text: str) -> bool:
    """Whether a text holds a name or a number; a bare date is often said in other words ("the 19th of May")."""
    if len(text) < 2 or _BARE.fullmatch(text):
        return False
    return any(c.isdigit() or c.isupper() for c in text)
