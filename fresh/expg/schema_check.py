"""What JSON Schema says of a call's arguments, sorted into the three aspects it can decide."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError as InvalidSchema
from jsonschema.exceptions import ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from fresh.expg.experience import Aspect, canonical

_ASPECT_OF_KEYWORD = {
    "required": Aspect.REQUIRED_GIVEN,
    "dependentRequired": Aspect.REQUIRED_GIVEN,
    "type": Aspect.FORMAT_RIGHT,
    "format": Aspect.FORMAT_RIGHT,
    "pattern": Aspect.FORMAT_RIGHT,
}


class SchemaVerdict(NamedTuple):
    """Faults found, by aspect; ``decided`` is False when there is no usable schema."""

    decided: bool
    faults: Mapping[Aspect, str]


UNDECIDED = SchemaVerdict(False, {})


class SchemaChecker:
    """Validates arguments; compiles each schema once.

    Parameters that a schema does not list count as unsupported unless it allows them in words
    (``additionalProperties``): JSON Schema itself lets them pass, a tool does not. References are resolved inside
    the schema only, never over the network.
    """

    def __init__(self) -> None:
        self._compiled: dict[str, Draft202012Validator | None] = {}
        self._by_identity: dict[int, tuple[Mapping[str, Any], Draft202012Validator | None]] = {}

    def check(self, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> SchemaVerdict:
        """Judges an arguments object by a tool's parameter schema.

        Args:
            schema: JSON Schema of the arguments; an empty one decides nothing.
            arguments: The arguments object.
        """
        validator = self._validator(schema)
        if validator is None:
            return UNDECIDED
        try:
            return SchemaVerdict(True, _sort(validator.iter_errors(dict(arguments))))
        except (Unresolvable, re.error, RecursionError, TypeError, ValueError):
            return UNDECIDED  # the schema is at fault, not the call

    def _validator(self, schema: Mapping[str, Any]) -> Draft202012Validator | None:
        known = self._by_identity.get(id(schema))
        if known is not None and known[0] is schema:
            return known[1]
        text = canonical(schema)
        if text not in self._compiled:
            self._compiled[text] = _compile(schema)
        self._by_identity[id(schema)] = (schema, self._compiled[text])
        return self._compiled[text]


def _compile(schema: Mapping[str, Any]) -> Draft202012Validator | None:
    if not schema:
        return None
    closed = dict(schema)
    if closed.get("properties"):
        closed.setdefault("additionalProperties", False)
    try:
        Draft202012Validator.check_schema(closed)
    except (InvalidSchema, Unresolvable, RecursionError):
        return None
    checker = Draft202012Validator.FORMAT_CHECKER
    registry: Registry[Any] = Registry()
    return Draft202012Validator(closed, format_checker=checker, registry=registry)


def _sort(errors: Iterable[ValidationError]) -> dict[Aspect, str]:
    faults: dict[Aspect, str] = {}
    for error in errors:
        faults.setdefault(_aspect(error), _phrase(error))
    return faults


def _aspect(error: ValidationError) -> Aspect:
    if error.validator in {"anyOf", "oneOf"} and error.context:
        kinds = {_aspect(inner) for inner in error.context}
        return Aspect.FORMAT_RIGHT if kinds == {Aspect.FORMAT_RIGHT} else Aspect.VALUES_VALID
    return _ASPECT_OF_KEYWORD.get(str(error.validator), Aspect.VALUES_VALID)


def _phrase(error: ValidationError) -> str:
    """Names the parameter and the keyword broken, never the value."""
    where = str(error.absolute_path[0]) if error.absolute_path else ""
    if error.validator == "required":
        needed = error.validator_value if isinstance(error.validator_value, list) else []
        missing = [name for name in needed if isinstance(error.instance, dict) and name not in error.instance]
        return f"missing {', '.join(missing)}" + (f" in {where}" if where else "")
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
        extra = sorted(str(name) for name in error.instance if name not in known)
        return f"unsupported {', '.join(extra)}" + (f" in {where}" if where else "")
    return f"{where or 'arguments'} break {error.validator}"
