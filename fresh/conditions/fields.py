"""Conditions on the fields of the objects that a call's arguments name."""

from __future__ import annotations

from typing import Any, Literal

from fresh.conditions.parts import BaseCondition, argument_values, field_of
from fresh.history import History


class FieldIs(BaseCondition):
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
