"""Conditions on an action: what they say, whether they hold on a history, and what would make them hold.

A condition is plain data, so that it can be stored in a node, printed, and edited. The same `holds` is used when
the miner counts how verified and failed uses differ and when the gate decides.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from fresh.history import History
from fresh.values import is_reference, leaves, normalise

_BARE = re.compile(r"[\d\s:.,/+TZ-]+")
"""A date, a time or a number and nothing else."""


class _Condition(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ReadBefore(_Condition):
    """A successful call of ``tool`` has been made with each identifier that ``argument`` has now.

    Attributes:
        parameter: The parameter of ``tool`` that took the value.
        argument: Path of the argument of the guarded action, such as ``order_id`` or ``items[].id``.
    """

    kind: Literal["read_before"] = "read_before"
    tool: str
    parameter: str
    argument: str

    def holds(self, arguments: dict[str, Any], history: History) -> bool | None:
        """True, False, or None where the argument holds no identifier."""
        values = references(arguments, self.argument)
        if not values:
            return None
        return all(history.answered(self.tool, {self.parameter: value}) is not None for value in values)

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        return f"before {action}: {self.tool} has been called with the same {self.argument}"


class CalledBefore(_Condition):
    """A successful call of ``tool`` has been made, whatever its arguments."""

    kind: Literal["called_before"] = "called_before"
    tool: str

    def holds(self, arguments: dict[str, Any], history: History) -> bool | None:
        """True or False."""
        return history.answered(self.tool) is not None

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        return f"before {action}: {self.tool} has been called"


class Confirmed(_Condition):
    """The user has agreed in their latest words."""

    kind: Literal["confirmed"] = "confirmed"

    def holds(self, arguments: dict[str, Any], history: History) -> bool | None:
        """True or False."""
        return history.confirmed()

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        return f"before {action}: the user has been told what will be done and has said yes"


class Grounded(_Condition):
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


class Within(_Condition):
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


class FieldIs(_Condition):
    """A field of the object that ``argument`` names has one of the values seen in verified uses."""

    kind: Literal["field_is"] = "field_is"
    argument: str
    path: str
    values: tuple[str, ...]

    def holds(self, arguments: dict[str, Any], history: History) -> bool | None:
        """True, False, or None where the object or the field has not been seen."""
        names = argument_values(arguments, self.argument)
        if not names:
            return None
        found = [field_of(history, name, self.path) for name in names]
        if any(value is None for value in found):
            return None
        return all(value in self.values for value in found)

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        allowed = " or ".join(self.values)
        return f"before {action}: {self.path} of the object that {self.argument} names is {allowed}"


Condition = Annotated[ReadBefore | CalledBefore | Confirmed | Grounded | Within | FieldIs, Field(discriminator="kind")]

_ADAPTER: TypeAdapter[Condition] = TypeAdapter(Condition)


def parse_condition(data: dict[str, Any]) -> Condition:
    """Reads a condition from the plain data in a Precondition node."""
    return _ADAPTER.validate_python(data)


def argument_values(arguments: dict[str, Any], path: str) -> list[Any]:
    """Scalars of an arguments object at a path as `fresh.values.leaves` writes it."""
    root = path.replace("{", ".").replace("[", ".").split(".", 1)[0]
    if root not in arguments:
        return []
    return [value for where, value in leaves(arguments[root], root) if where == path and value not in (None, "")]


def _is_particular(text: str) -> bool:
    """Whether a text holds a name or a number; a bare date is often said in other words ("the 19th of May")."""
    if len(text) < 2 or _BARE.fullmatch(text):
        return False
    return any(c.isdigit() or c.isupper() for c in text)


def references(arguments: dict[str, Any], path: str) -> list[Any]:
    """Those values of an argument that name an object."""
    return [value for value in argument_values(arguments, path) if is_reference(path, value)]


def object_via(history: History, name: Any, via: str = "") -> dict[str, Any] | None:
    """The object that an identifier names, or the one that its field ``via`` names; None when not seen."""
    found = history.object_of(name)
    if found is None or not via:
        return found[1] if found else None
    named = found[1].get(via)
    target = history.object_of(named) if is_reference(via, named) else None
    return target[1] if target else None


def field_of(history: History, name: Any, path: str) -> str | None:
    """Lower-cased scalar at a path of the object that an identifier names; None when not seen."""
    found = history.object_of(name)
    if found is None:
        return None
    value: Any = found[1]
    for step in path.split("."):
        if not isinstance(value, dict) or step not in value:
            return None
        value = value[step]
    return str(value).lower() if isinstance(value, bool) else normalise(value)
