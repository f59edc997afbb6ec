"""Conditions on the fields of the objects that a call's arguments name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fresh.conditions.parts import (
    BaseCondition,
    argument_values,
    as_number,
    at_path,
    field_of,
    references,
    scalar_text,
    siblings,
)
from fresh.history import History


class FieldIs(BaseCondition):
    """A field of the object that ``argument`` names has one of the values seen in verified uses.

    Attributes:
        error: The environment's own refusal that speaks of the field's value, if there is one.
    """

    kind: Literal["field_is"] = "field_is"
    argument: str
    path: str
    values: tuple[str, ...]
    error: str = ""

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
        why = f' (else it answers "{self.error}")' if self.error else ""
        return f"before {action}: {self.path} of the object that {self.argument} names is {allowed}{why}"


class FieldTest(BaseCondition):
    """One predicate over a field of the object that ``argument`` names, or over the argument itself.

    Attributes:
        path: The field; empty where the argument's own value is meant.
        op: ``is`` one of ``values``, ``is_not`` any of them, ``at_least`` or ``at_most`` ``number``, ``present``,
            ``missing``. Of several objects, one that fits is enough.
    """

    argument: str
    path: str = ""
    op: Literal["is", "is_not", "at_least", "at_most", "present", "missing"]
    values: tuple[str, ...] = ()
    number: float | None = None

    def observe(self, arguments: dict[str, Any], history: History) -> tuple[str, ...] | None:
        """What stands there now: compared texts, empty where the field is missing; None where nothing was seen."""
        if not self.path:
            return tuple(filter(None, map(scalar_text, argument_values(arguments, self.argument)))) or None
        found = [history.object_of(name) for name in references(arguments, self.argument)]
        if not found or any(item is None for item in found):
            return None
        texts = (scalar_text(at_path(item[1], self.path)) for item in found if item is not None)
        return tuple(text for text in texts if text is not None)

    def fits(self, seen: Sequence[str] | None) -> bool | None:
        """Whether what was seen fits; None where it cannot be told."""
        if seen is None:
            return None
        match self.op:
            case "present":
                return bool(seen)
            case "missing":
                return not seen
            case "is":
                return any(text in self.values for text in seen) if seen else None
            case "is_not":
                return any(text not in self.values for text in seen) if seen else None
        numbers = [number for text in seen if (number := as_number(text)) is not None]
        if not numbers or self.number is None:
            return None
        return max(numbers) >= self.number if self.op == "at_least" else min(numbers) <= self.number

    def words(self) -> str:
        """The predicate in words."""
        what = f"{self.path} of the object that {self.argument} names" if self.path else self.argument
        match self.op:
            case "present" | "missing":
                return f"{what} is {self.op}"
            case "is" | "is_not":
                return f"{what} is {'not ' if self.op == 'is_not' else ''}{' or '.join(self.values)}"
        return f"{what} is {self.op.replace('_', ' ')} {self.number:g}"


class Never(BaseCondition):
    """Not all of a few predicates hold together: no verified use had them all, and failed ones did.

    Attributes:
        tests: One to three predicates.
        error: The environment's own message where it refused such calls; empty where it took them.
    """

    kind: Literal["never"] = "never"
    tests: tuple[FieldTest, ...]
    error: str = ""

    @property
    def argument(self) -> str:
        """The argument that the first predicate is about."""
        return self.tests[0].argument

    def holds(self, arguments: dict[str, Any], history: History) -> bool | None:
        """True, False, or None where a predicate that matters cannot be told."""
        return unless_all(test.fits(test.observe(arguments, history)) for test in self.tests)

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        why = f' (it answers "{self.error}")' if self.error else ""
        return f"no {action} while " + " and ".join(test.words() for test in self.tests) + why


class AtMost(BaseCondition):
    """A number in the call is no larger than a field of the object that the argument beside it names.

    Attributes:
        argument: Path of the number, such as ``amount`` or ``payments[].amount``.
        anchor: Path of the identifier that stands beside it.
        path: The field that bounds it, such as ``balance``.
    """

    kind: Literal["at_most"] = "at_most"
    argument: str
    anchor: str
    path: str

    def compared(self, arguments: dict[str, Any], history: History) -> list[tuple[float, Any, float]]:
        """``(number, identifier, bound)`` wherever all three are known."""
        found = []
        for number, name in siblings(arguments, self.argument, self.anchor):
            bound = as_number(field_of(history, name, self.path) or "")
            value = as_number(scalar_text(number) or "")
            if bound is not None and value is not None:
                found.append((value, name, bound))
        return found

    def holds(self, arguments: dict[str, Any], history: History) -> bool | None:
        """True, False, or None where a number or the field has not been seen."""
        found = self.compared(arguments, history)
        return all(value <= bound for value, _, bound in found) if found else None

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        return f"before {action}: {self.argument} is at most {self.path} of the object that {self.anchor} names"


def unless_all(fits: Any) -> bool | None:
    """False where all fit, True where one does not, None where neither can be told."""
    unknown = False
    for fit in fits:
        if fit is False:
            return True
        unknown |= fit is None
    return None if unknown else False
