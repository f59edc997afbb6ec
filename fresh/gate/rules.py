"""Mined conditions at the gate: those that do not hold, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterable

from fresh.conditions import (
    Asked,
    AtMost,
    CalledBefore,
    ComesFrom,
    Condition,
    Confirmed,
    FieldIs,
    Grounded,
    Never,
    ReadBefore,
    SameCount,
    SingledOut,
    Together,
    Within,
)
from fresh.gate import remedies
from fresh.gate.context import Context
from fresh.gate.decision import Finding, Todo, Verdict
from fresh.knowledge import Rule


def check_rules(context: Context) -> list[Finding]:
    """A finding for each enforced condition that does not hold; what cannot be decided holds nothing back."""
    verdicts = [(r, _holds(context, r)) for r in context.rules]
    at_home = places_at_home(context)
    violated = [r for r, holds in verdicts if holds is False and place(r.condition) not in at_home]
    findings: list[Finding] = []
    doubted = {argument for argument in _arguments(violated) if remedies.ungrounded(context, argument)}
    doubted |= {r.condition.argument for r in violated if isinstance(r.condition, Grounded)}
    for rule in sorted(violated, key=lambda rule: _ORDER[rule.condition.kind]):
        if isinstance(rule.condition, Confirmed) and any(f.verdict is Verdict.REVISE for f in findings):
            continue  # what the user is asked to confirm should be the corrected call
        finding = _finding(context, rule, doubted)
        if finding.todo and finding.todo[0].kind == "correct_argument":
            named = {todo.argument for found in findings for todo in found.todo}
            if finding.todo[0].argument in named:
                continue
        findings.append(finding)
    return findings


def _holds(context: Context, rule: Rule) -> bool | None:
    """Whether a condition holds; an argument that always named an object must not hold something made up instead."""
    holds = rule.condition.holds(context.arguments, context.live.history)
    if holds is None and isinstance(rule.condition, Grounded):
        return False if remedies.ungrounded(context, rule.condition.argument) else None
    return holds


_ORDER = {
    kind: place
    for place, kind in enumerate(
        (
            "within",
            "singled_out",
            "together",
            "comes_from",
            "field_is",
            "never",
            "same_count",
            "at_most",
            "grounded",
            "read_before",
            "called_before",
            "asked",
            "confirmed",
        )
    )
}
"""What is wrong with the call itself comes before what is missing around it."""


def place(condition: Condition) -> tuple[str, str] | None:
    """Argument and anchor of a `Within`; None for any other condition."""
    return (condition.argument, condition.anchor) if isinstance(condition, Within) else None


def places_at_home(context: Context) -> set[tuple[str, str]]:
    """Places where some `Within` of the memory holds, enforced or not.

    A value that stands inside one of the objects meant, the anchor's own or its owner's, is no stranger, though it
    stands in no other.
    """
    history = context.live.history
    conditions = (rule.condition for rule in context.known_rules if isinstance(rule.condition, Within))
    return {(c.argument, c.anchor) for c in conditions if c.holds(context.arguments, history) is True}


def _arguments(rules: Iterable[Rule]) -> set[str]:
    named = ReadBefore | Grounded | ComesFrom | Within | FieldIs
    return {r.condition.argument for r in rules if isinstance(r.condition, named)}


def _finding(context: Context, rule: Rule, doubted: set[str]) -> Finding:
    condition = rule.condition
    name = getattr(condition, "argument", "")
    if name in doubted:
        return _result(context, rule, *remedies.ground(context, name))
    match condition:
        case ReadBefore():
            return _result(context, rule, *remedies.read_first(context, condition))
        case CalledBefore():
            return _result(context, rule, *remedies.call_first(context, condition))
        case Within():
            return _result(context, rule, *remedies.stay_within(context, condition))
        case SingledOut():
            return _result(context, rule, *remedies.point_out(context, condition))
        case Together():
            return _result(context, rule, *remedies.keep_together(context, condition))
        case ComesFrom():
            return _result(context, rule, *remedies.take_from(context, condition))
        case SameCount():
            return _result(context, rule, *remedies.count_alike(context, condition))
        case AtMost():
            return _result(context, rule, *remedies.stay_below(context, condition))
        case FieldIs():
            return _state(context, rule, *remedies.other_state(context, condition))
        case Never():
            return _state(context, rule, *remedies.forbidden(context, condition))
        case Asked():
            return _result(context, rule, *remedies.ask_whether(context))
        case Confirmed() if remedies.refused(context):
            return _result(
                context, rule, "the user was asked about this and said no: go by what they answered", [], Verdict.BLOCK
            )
        case Confirmed():
            return _result(context, rule, *remedies.confirm(context))
        case _:
            return _result(context, rule, *remedies.ground(context, name))


def _state(context: Context, rule: Rule, reason: str, todos: list[Todo]) -> Finding:
    """An object in a state that no verified use had.

    What is seen now counts more than any memory, so the state itself is not argued with: either the call means
    another object, or it must not be made.
    """
    if todos:
        return _result(context, rule, reason, todos)
    hands_over = context.tool is not None and any(
        repair.kind == "handover" for error in context.tool.errors for repair in error.repairs
    )
    return _result(context, rule, reason, [], Verdict.TRANSFER if hands_over and context.handover else Verdict.BLOCK)


def _result(context: Context, rule: Rule, reason: str, todos: list[Todo], verdict: Verdict | None = None) -> Finding:
    """A finding; one with nothing left to do is a warning, or a case for a person."""
    if verdict is None:
        verdict = Verdict.REVISE if todos else Verdict.ALLOW
        if not todos and context.settings.unsatisfiable == "transfer":
            verdict = Verdict.TRANSFER if context.handover else Verdict.BLOCK
    return Finding(
        check=rule.condition.kind,
        verdict=verdict,
        reason=reason,
        todo=tuple(todos),
        confidence=round(rule.confidence, 3),
        node=rule.node if rule.node >= 0 else None,
    )
