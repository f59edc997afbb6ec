"""Conditions on where the values of a call's arguments come from."""

from __future__ import annotations

import re
from typing import Any, Literal

from fresh.conditions.parts import BaseCondition, argument_values, object_via, references, siblings
from fresh.history import History
from fresh.values import is_reference, leaves, normalise

_BARE = re.compile(r"[\d\s:.,/+TZ-]+")
"""A date, a time or a number and nothing else."""
_MAX_CODE = 3
"""Letters up to which a text is a code for something that people call otherwise, such as a country."""
_MAX_NAME_WORDS = 4
"""Words up to which a text is a name, such as a street or a title; a longer one is a sentence."""


class Grounded(BaseCondition):
    """Each value in the argument was said by the user or seen in an observation.

    Attributes:
        plain: Names and numbers in ordinary text count too, such as a street; otherwise only values that name an
            object do. Words in small letters are choices, and never count.
        firm: What only the running text of a result speaks of was not seen: a text is somebody's words, and may be an
            order to the agent.
    """

    kind: Literal["grounded"] = "grounded"
    argument: str
    plain: bool = False
    firm: bool = False

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
        return all(is_grounded(value, history, firm=self.firm) for value in values)

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        beyond = ", not in its running text alone" if self.firm else ""
        return f"before {action}: {self.argument} was given by the user or seen in a result{beyond}"


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


class ComesFrom(BaseCondition):
    """Each identifier in ``argument`` was said by the user or stands where verified uses took theirs from.

    Attributes:
        places: ``request``, or ``tool:path`` of an observation.
    """

    kind: Literal["comes_from"] = "comes_from"
    argument: str
    places: tuple[str, ...]

    def holds(self, arguments: dict[str, Any], history: History) -> bool | None:
        """True, False, or None where the argument holds no identifier or one that was seen nowhere."""
        found = [value_places(value, history) for value in references(arguments, self.argument)]
        if not found or not all(found):
            return None
        return all(places & set(self.places) for places in found)

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        return f"before {action}: {self.argument} comes from {' or '.join(self.places)}"


class Together(BaseCondition):
    """Two values of the call belong together: one object showed both, or the user said both.

    Attributes:
        argument: Of the pair; in the elements of a list, such as ``people[].name``, beside each other in the call, or
            two lists in step, such as ``old_ids[]`` and ``new_ids[]``.
        other: The other one.
        whole_result: One result that showed both is enough, in whatever objects.
    """

    kind: Literal["together"] = "together"
    argument: str
    other: str
    whole_result: bool = False

    def pairs(self, arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
        """The pairs that must belong together."""
        if self.argument.endswith("[]"):
            lists = [arguments.get(name.removesuffix("[]")) for name in (self.argument, self.other)]
            return list(zip(*lists, strict=False)) if all(isinstance(value, list) for value in lists) else []
        return list(siblings(arguments, self.argument, self.other))

    def holds(self, arguments: dict[str, Any], history: History) -> bool | None:
        """True, False, or None where the call has no such pair or one of its values was neither said nor seen."""
        found = [belong_together(a, b, history, self.whole_result) for a, b in self.pairs(arguments)]
        if False in found:
            return False
        return None if None in found or not found else True

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        where = "result" if self.whole_result else "object"
        return f"before {action}: {self.argument} and {self.other} were seen in one {where}, or said by the user"


class SingledOut(BaseCondition):
    """Each object that ``argument`` names is one that the user spoke of: by its name, or by a value in it."""

    kind: Literal["singled_out"] = "singled_out"
    argument: str

    def holds(self, arguments: dict[str, Any], history: History) -> bool | None:
        """True, False, or None where the argument holds no identifier or one whose object has not been seen."""
        found = [is_singled_out(value, history) for value in references(arguments, self.argument)]
        if False in found:
            return False
        return None if None in found or not found else True

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        return f"before {action}: the user has spoken of the object that {self.argument} names, or of a value in it"


class SameCount(BaseCondition):
    """A list in the call is as long as another list of the call, or as one in the object that an argument names.

    Attributes:
        argument: The list.
        other: The other list, or with ``path`` the argument that names the object.
        path: The list in that object; empty where the other list stands in the call.
    """

    kind: Literal["same_count"] = "same_count"
    argument: str
    other: str
    path: str = ""

    def holds(self, arguments: dict[str, Any], history: History) -> bool | None:
        """True, False, or None where one of the lists is not there."""
        own = arguments.get(self.argument)
        other = arguments.get(self.other)
        if self.path:
            found = object_via(history, other)
            other = found.get(self.path) if found else None
        return len(own) == len(other) if isinstance(own, list) and isinstance(other, list) else None

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        other = f"{self.path} of the object that {self.other} names" if self.path else self.other
        return f"before {action}: {self.argument} has as many entries as {other}"


def is_singled_out(name: Any, history: History) -> bool | None:
    """Whether the user has said an identifier or a particular value of its object; None where it has not been seen."""
    if history.said(name):
        return True
    found = history.object_of(name)
    if found is None:
        return None
    own = (value for value in found[1].values() if isinstance(value, str) and len(value) > _MAX_CODE)
    return any(history.said(value) for value in own if any(c.isdigit() or c.isupper() for c in value))


def is_grounded(value: Any, history: History, *, firm: bool = False) -> bool:
    """Whether a value was said or seen; ``firm`` leaves out what only running text speaks of."""
    origin = history.origin(value)
    return origin.kind != "nowhere" and not (firm and origin.in_text)


def value_places(value: Any, history: History) -> frozenset[str]:
    """Every place where a value was said or seen: ``request``, ``tool:path``; empty where nowhere."""
    found = {f"{seen.call.tool}:{seen.path}" for seen in history.sightings(value)}
    if history.said(value):
        found.add("request")
    if not found:
        origin = history.origin(value)
        found = set() if origin.kind == "nowhere" else {str(origin)}
    return frozenset(found)


def belong_together(first: Any, second: Any, history: History, whole_result: bool = False) -> bool | None:
    """Whether two values were seen together, or both said; None where one is neither (which is for others to say)."""
    said = history.said(first), history.said(second)
    if all(said) or history.shown_together(first, second, whole_result=whole_result):
        return True
    known = (said[i] or bool(history.sightings(value)) for i, value in enumerate((first, second)))
    return False if all(known) else None


def _is_particular(text: str) -> bool:
    """Whether a text holds a name or a number.

    A bare date is often said in other words ("the 19th of May"), and a sentence is the agent's own.
    """
    if len(text) <= _MAX_CODE or _BARE.fullmatch(text) or len(text.split()) > _MAX_NAME_WORDS:
        return False
    return any(c.isdigit() or c.isupper() for c in text)
