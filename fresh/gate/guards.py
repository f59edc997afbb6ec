"""What each guard of a tool says on the live history, with the place that shows it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from fresh.conditions import (
    CalledBefore,
    Condition,
    Confirmed,
    ReadBefore,
    argument_values,
    field_of,
)
from fresh.gate.context import Context
from fresh.gate.decision import Evidence, Finding, GuardState, State
from fresh.gate.rules import place, places_at_home
from fresh.history import History, agrees
from graph_schema.trajectory import Role, ToolCall

_MAX_EVIDENCE = 4
_SHORT = 60
_STATES = {True: State.SATISFIED, False: State.VIOLATED, None: State.UNKNOWN}


def guard_states(context: Context, findings: Sequence[Finding], *, provenance: bool = False) -> tuple[GuardState, ...]:
    """The state of every enforced guard, violated ones first.

    A guard that a finding names is violated, whatever made the gate find so.

    Args:
        context: The call and its guards.
        findings: What the checks found.
        provenance: Name the runs behind each guard.
    """
    blamed = {(finding.node, finding.check) for finding in findings if finding.node is not None}
    homes = places_at_home(context)
    states = []
    for rule in context.rules:
        condition, node = rule.condition, rule.node if rule.node >= 0 else None
        state = _STATES[condition.holds(context.arguments, context.live.history)]
        if (node, condition.kind) in blamed:
            state = State.VIOLATED
        elif state is State.VIOLATED and place(condition) in homes:
            state = State.SATISFIED  # the value stands in another of the objects meant
        states.append(
            GuardState(
                check=condition.kind,
                state=state,
                text=condition.text(context.call.tool),
                support=rule.support,
                confidence=round(rule.confidence, 3),
                node=node,
                evidence=evidence(condition, context.arguments, context.live.history),
                runs=context.index.runs(node) if provenance and node is not None else (),
            )
        )
    return tuple(sorted(states, key=lambda guard: _ORDER[guard.state]))


_ORDER = {State.VIOLATED: 0, State.UNKNOWN: 1, State.SATISFIED: 2}


def evidence(condition: Condition, arguments: dict[str, Any], history: History) -> tuple[Evidence, ...]:
    """Where the history shows what a condition speaks of; the first few places.

    A condition on values is shown by where they stand, one on a field by what the field holds.
    """
    match condition:
        case ReadBefore():
            found = _reads(condition, arguments, history)
        case CalledBefore():
            found = _seen(history.answered(condition.tool), history, condition.tool)
        case Confirmed():
            found = _consent(history)
        case _:
            parts = getattr(condition, "tests", (condition,))
            found = itertools.chain.from_iterable(_values(part, arguments, history) for part in parts)
    return tuple(itertools.islice(found, _MAX_EVIDENCE))


def _reads(condition: ReadBefore, arguments: dict[str, Any], history: History) -> Iterator[Evidence]:
    for value in argument_values(arguments, condition.argument):
        call = history.answered(condition.tool, {condition.parameter: value})
        yield from _seen(call, history, f"{condition.tool} with {condition.parameter} {_short(value)}")


def _values(part: Any, arguments: dict[str, Any], history: History) -> Iterator[Evidence]:
    """What a condition, or one of its predicates, compares: a field of an object, or the values themselves."""
    argument, anchor, other, path = (str(getattr(part, n, "")) for n in ("argument", "anchor", "other", "path"))
    if path:
        yield from _field(anchor or argument, path, arguments, history)
        return
    for name in filter(None, (argument, anchor, other)):
        yield from _origins(name, arguments, history)


def _field(argument: str, path: str, arguments: dict[str, Any], history: History) -> Iterator[Evidence]:
    for value in argument_values(arguments, argument):
        found = history.object_of(value)
        if found is not None:
            now = field_of(history, value, path)
            yield from _seen(found[0], history, f"{found[0].tool}: {path} of {_short(value)} is {now}")


def _origins(path: str, arguments: dict[str, Any], history: History) -> Iterator[Evidence]:
    for value in argument_values(arguments, path):
        seen = history.sightings(value)
        if seen:
            last = seen[-1]
            yield Evidence(turn=last.turn, call=last.call.id, text=f"{last.call.tool}: {last.path} {_short(value)}")
            continue
        turn = next((turn for turn, text in history.index.speech if str(value).lower() in text), None)
        if turn is not None and turn < history.now and history.said(value):
            yield Evidence(turn=turn, text=f"the user said {_short(value)}")


def _consent(history: History) -> Iterator[Evidence]:
    """The user's latest words, whether they agree or not."""
    for turn in range(history.now - 1, -1, -1):
        said = history.index.turns[turn]
        if said.role is Role.USER and said.text:
            unasked = "nothing had been put to the user" if agrees(said.text) else "the user did not say yes"
            words = "the user agreed" if history.confirmed() else unasked
            yield Evidence(turn=turn, text=f"{words}: {_short(said.text)}")
            return


def _seen(call: ToolCall | None, history: History, text: str) -> Iterator[Evidence]:
    if call is None:
        return
    turn = next((turn for turn, other in reversed(history.calls) if other is call), 0)
    yield Evidence(turn=turn, call=call.id, text=text)


def _short(value: Any) -> str:
    text = " ".join(str(value)[: 4 * _SHORT].split())
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"
