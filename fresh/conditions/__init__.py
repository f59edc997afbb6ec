"""Conditions on an action: what they say, whether they hold on a history, and what would make them hold.

A condition is plain data, so that it can be stored in a node, printed, and edited. The same `holds` is used when
the miner counts how verified and failed uses differ and when the gate decides.
"""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import Field, TypeAdapter

from fresh.conditions.fields import AtMost, FieldIs, FieldTest, Never
from fresh.conditions.parts import argument_values, field_of, object_via, references
from fresh.conditions.steps import Asked, CalledBefore, Confirmed, ReadBefore
from fresh.conditions.values import ComesFrom, Grounded, SameCount, SingledOut, Together, Within

Condition = Annotated[
    ReadBefore
    | CalledBefore
    | Confirmed
    | Asked
    | Grounded
    | ComesFrom
    | Within
    | Together
    | SameCount
    | SingledOut
    | FieldIs
    | AtMost
    | Never,
    Field(discriminator="kind"),
]

KINDS = frozenset(kind.model_fields["kind"].default for kind in get_args(get_args(Condition)[0]))
"""The kinds of conditions, by name."""

_ADAPTER: TypeAdapter[Condition] = TypeAdapter(Condition)


def parse_condition(data: dict[str, Any]) -> Condition:
    """Reads a condition from the plain data in a Precondition node."""
    return _ADAPTER.validate_python(data)


__all__ = [
    "KINDS",
    "Asked",
    "AtMost",
    "CalledBefore",
    "ComesFrom",
    "Condition",
    "Confirmed",
    "FieldIs",
    "FieldTest",
    "Grounded",
    "Never",
    "ReadBefore",
    "SameCount",
    "SingledOut",
    "Together",
    "Within",
    "argument_values",
    "field_of",
    "object_via",
    "parse_condition",
    "references",
]
