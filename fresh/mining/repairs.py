"""Repairs: the step that made a failed action work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fresh.mining.credit import CreditedCall
from fresh.traces.tools import is_handover
from fresh.values import is_identifier, normalise, same_value, scalars
from graph_schema.trajectory import CallStatus, Effect, Outcome

_HORIZON = 8
"""How many calls after a failure a repair may come."""


class RepairKind(StrEnum):
    """What resolved an error."""

    CHANGE_ARGUMENTS = "change_arguments"
    ADD_READ = "add_read"
    RETRY = "retry"
    FALLBACK_TOOL = "fallback_tool"
    HANDOVER = "handover"


@dataclass(frozen=True, slots=True, order=True)
class Fix:
    """One way an error was resolved; plain strings, so that equal fixes of different runs merge.

    Attributes:
        arguments: Names of the arguments that were changed, sorted.
        tool: The tool called in between, or instead.
    """

    kind: RepairKind
    arguments: tuple[str, ...] = ()
    tool: str = ""

    def text(self, failed: str, message: str) -> str:
        """One line for a person or a model."""
        after = f"after '{message}' from {failed}"
        match self.kind:
            case RepairKind.CHANGE_ARGUMENTS:
                first = f"call {self.tool} first, then " if self.tool else ""
                return f"{after}: {first}change {', '.join(self.arguments)} and call {failed} again"
            case RepairKind.ADD_READ:
                return f"{after}: call {self.tool} first, then {failed} again"
            case RepairKind.RETRY:
                return f"{after}: call {failed} once more"
            case RepairKind.FALLBACK_TOOL:
                return f"{after}: use {self.tool} instead"
            case RepairKind.HANDOVER:
                return f"{after}: hand over with {self.tool}"


def repairs_in_run(credited: Sequence[CreditedCall], outcome: Outcome) -> Iterator[tuple[int, Fix, int]]:
    """Yields ``(position of the failed call, fix, position of the call that worked)``.

    The nearest later success of the same tool resolves the failure; failing that, a verified call of another tool on
    the same object; failing that, a handover that ended a successful run.
    """
    for position, failed in enumerate(credited):
        if failed.call.status is not CallStatus.ERROR:
            continue
        worked = _same_tool_success(credited, position)
        if worked is not None:
            yield position, _fix(credited, position, worked), worked
            continue
        instead = _fallback(credited, position, outcome)
        if instead is not None:
            other = credited[instead]
            kind = RepairKind.HANDOVER if other.effect is Effect.OTHER else RepairKind.FALLBACK_TOOL
            yield position, Fix(kind, tool=other.call.tool), instead


def _same_tool_success(credited: Sequence[CreditedCall], position: int) -> int | None:
    tool = credited[position].call.tool
    for later in range(position + 1, min(len(credited), position + 1 + _HORIZON)):
        if credited[later].call.tool == tool and credited[later].call.status is CallStatus.OK:
            return later
    return None


def _fix(credited: Sequence[CreditedCall], position: int, worked: int) -> Fix:
    before, after = credited[position].call, credited[worked].call
    changed = changed_arguments(before.arguments, after.arguments)
    between = credited[position + 1 : worked]
    read = next((c.call.tool for c in reversed(between) if c.credit.sign > 0 and c.call.tool != before.tool), "")
    if changed:
        return Fix(RepairKind.CHANGE_ARGUMENTS, changed, read)
    return Fix(RepairKind.ADD_READ, tool=read) if read else Fix(RepairKind.RETRY)


def changed_arguments(before: dict[str, Any] | None, after: dict[str, Any] | None) -> tuple[str, ...]:
    """Names of the top-level arguments that differ, sorted."""
    before, after = before or {}, after or {}
    names = sorted(before.keys() | after.keys())
    return tuple(n for n in names if n not in before or n not in after or not same_value(before[n], after[n]))


def _fallback(credited: Sequence[CreditedCall], position: int, outcome: Outcome) -> int | None:
    failed = credited[position]
    named = {normalise(v) for v in scalars(failed.call.arguments or {}) if is_identifier(v)}
    for later in range(position + 1, min(len(credited), position + 1 + _HORIZON)):
        other = credited[later]
        if other.call.tool == failed.call.tool or other.credit.sign <= 0:
            continue
        if other.effect is Effect.OTHER:
            if outcome is Outcome.SUCCESS and is_handover(other.call.tool):
                return later
            continue
        shared = named & {normalise(v) for v in scalars(other.call.arguments or {})}
        same_role = other.effect is failed.effect
        if same_role and (shared or (failed.effect is Effect.READ and later == position + 1)):
            return later
    return None
