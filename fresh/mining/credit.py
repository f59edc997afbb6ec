"""Credit for each action, from its own evidence first and the run's outcome second.

A failed run keeps its good reads, and a successful run does not whitewash its failed calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from fresh.history import RunIndex
from fresh.values import argument_leaves, is_reference, same_arguments, same_value
from graph_schema.trajectory import CallStatus, Effect, GoldAction, Outcome, ToolCall, Trajectory

EffectOf = Callable[[str], Effect]
_EMPTY_RESULTS = frozenset({"", "[]", "{}", "none", "null", '""'})


class Credit(StrEnum):
    """What an action turned out to be."""

    VERIFIED_READ = "verified_read"
    """A look-up, calculation or handover that returned something."""
    VERIFIED_WRITE = "verified_write"
    """A write that went through and is right: among the gold actions, or in a run that succeeded."""
    FAILED = "failed"
    """The result is an error, or the arguments could not be read."""
    REPEATED = "repeated"
    """The same call as before, and nothing had changed since."""
    PREMATURE = "premature"
    """A write that went through in a run that failed, with an identifier that nobody had said or shown."""
    WRONG = "wrong"
    """A write that went through although the task's own solution does not have it."""
    UNVERIFIED = "unverified"
    """Went through, and nothing tells whether it was right."""
    UNANSWERED = "unanswered"
    """No result was recorded."""

    @property
    def sign(self) -> int:
        """+1 for what to do again, -1 for what to avoid, 0 where nobody can tell."""
        if self in (Credit.VERIFIED_READ, Credit.VERIFIED_WRITE):
            return 1
        return 0 if self in (Credit.UNVERIFIED, Credit.UNANSWERED) else -1


@dataclass(frozen=True, slots=True)
class CreditedCall:
    """A call of the agent with the turn it was made in and its credit."""

    turn: int
    call: ToolCall
    effect: Effect
    credit: Credit


def credit_run(trajectory: Trajectory, effect_of: EffectOf, index: RunIndex | None = None) -> list[CreditedCall]:
    """Credits every call that the agent made, in order."""
    index = index or RunIndex(trajectory.turns)
    credited: list[CreditedCall] = []
    for turn, call in trajectory.calls():
        effect = effect_of(call.tool)
        credit = _credit(trajectory, index, credited, turn, call, effect)
        credited.append(CreditedCall(turn, call, effect, credit))
    return credited


def _credit(
    trajectory: Trajectory, index: RunIndex, before: list[CreditedCall], turn: int, call: ToolCall, effect: Effect
) -> Credit:
    if call.status is CallStatus.UNANSWERED:
        return Credit.UNANSWERED
    if call.status is CallStatus.ERROR or call.arguments is None:
        return Credit.REPEATED if _repeats_failure(before, call) else Credit.FAILED
    if effect is not Effect.WRITE:
        return _credit_read(before, call)
    return _credit_write(trajectory, index, turn, call)


def _credit_read(before: list[CreditedCall], call: ToolCall) -> Credit:
    text = call.observation.text if call.observation else ""
    for earlier in reversed(before):
        if earlier.effect is Effect.WRITE and earlier.call.status is CallStatus.OK:
            break  # the world may have changed, so looking again is no repetition
        same = earlier.call.tool == call.tool and same_arguments(earlier.call.arguments, call.arguments)
        if same and earlier.call.observation is not None and earlier.call.observation.text == text:
            return Credit.REPEATED
    return Credit.UNVERIFIED if text.strip().lower() in _EMPTY_RESULTS else Credit.VERIFIED_READ


def _credit_write(trajectory: Trajectory, index: RunIndex, turn: int, call: ToolCall) -> Credit:
    outcome = trajectory.feedback.outcome
    if outcome is Outcome.SUCCESS:
        return Credit.VERIFIED_WRITE
    if trajectory.gold and any(is_gold(call, gold) for gold in trajectory.gold):
        return Credit.VERIFIED_WRITE
    if outcome is Outcome.UNKNOWN:
        return Credit.UNVERIFIED
    history = index.at(turn)
    named = [value for path, value in argument_leaves(call.arguments) if is_reference(path, value)]
    if any(history.origin(value).kind == "nowhere" for value in named):
        return Credit.PREMATURE
    return Credit.UNVERIFIED if trajectory.gold is None else Credit.WRONG


def _repeats_failure(before: list[CreditedCall], call: ToolCall) -> bool:
    return any(
        earlier.call.tool == call.tool
        and earlier.call.status is CallStatus.ERROR
        and earlier.call.raw_arguments == call.raw_arguments
        for earlier in before
    )


def is_gold(call: ToolCall, gold: GoldAction) -> bool:
    """Whether a call is the gold action: same tool, and every gold argument given; extra arguments may be null.

    An agent that makes a call which the solution leaves to the user has been given the user's tools.
    """
    if call.tool != gold.tool or call.arguments is None or (call.by_user and not gold.by_user):
        return False
    extra = (value for name, value in call.arguments.items() if name not in gold.arguments)
    if any(value is not None for value in extra):
        return False
    return all(same_value(call.arguments.get(name), value) for name, value in gold.arguments.items())
