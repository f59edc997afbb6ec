"""Mined conditions at the gate: which are enforced, and what to do about one that does not hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from fresh.conditions import (
    CalledBefore,
    Condition,
    Confirmed,
    FieldIs,
    Grounded,
    ReadBefore,
    Within,
    argument_values,
    field_of,
    object_via,
    references,
)
from fresh.fill import (
    REQUEST,
    Filled,
    alternatives,
    fill_call,
    shape,
    source_in_words,
    source_tool,
    unread_source,
)
from fresh.gate.checks import call_text, correction
from fresh.gate.context import Context
from fresh.gate.decision import Finding, Todo, Verdict
from fresh.gate.settings import GateSettings
from fresh.history import History
from fresh.knowledge import Rule, ToolIndex, ToolMemory
from fresh.values import is_identifier, is_reference, leaves, normalise, scalars
from graph_schema.trajectory import Role, ToolCall

_MAX_ANSWERED = 2
"""Times the user may be asked about one call before the gate stops asking: their yes is then one it cannot read."""


def enforced_rules(tool: ToolMemory | None, settings: GateSettings) -> tuple[Rule, ...]:
    """The conditions of a tool that hold calls back, the best first.

    A condition is taken if its support and necessity suffice, and as long as the verified uses that all taken
    conditions together would have held back stay within the settings' share.
    """
    if tool is None:
        return ()
    eligible = [rule for rule in tool.rules if _eligible(rule, settings)]
    eligible.sort(key=lambda rule: (-rule.contrast, -rule.necessity, -rule.support, rule.node))
    taken: list[Rule] = []
    spent = 0.0
    for rule in eligible:
        cost = 1 - rule.necessity
        if spent + cost <= settings.max_false_holds + 1e-9:
            taken.append(rule)
            spent += cost
    reads = {rule.condition.tool for rule in taken if isinstance(rule.condition, ReadBefore)}
    return tuple(r for r in taken if not (isinstance(r.condition, CalledBefore) and r.condition.tool in reads))


def conditions_by_form(call: ToolCall, index: ToolIndex, asks_first: bool) -> Iterator[Rule]:
    """What holds of a write by its form alone, while memory has too few uses of it to say more.

    An argument that a known look-up takes as its only parameter names an object: it must have been said or seen, and
    the object looked at. Where the memory's other writes wait for the user's yes, so does this one; a write that it has
    never seen always does.
    """
    for name, value in (call.arguments or {}).items():
        reader = index.lookups.get(name)
        if reader is None or not is_reference(name, value):
            continue
        tool, node = reader
        yield Rule(node, Grounded(argument=name), 0)
        yield Rule(node, ReadBefore(tool=tool, parameter=name, argument=name), 0)
    known = index.get(call.tool)
    if known is None or asks_first:
        yield Rule(known.node if known and known.node is not None else -1, Confirmed(), 0)


def _eligible(rule: Rule, settings: GateSettings) -> bool:
    condition = rule.condition
    if rule.support < settings.min_support or rule.necessity < settings.min_necessity:
        return False
    if isinstance(condition, ReadBefore | Grounded):
        return rule.tasks >= settings.min_tasks
    if isinstance(condition, Confirmed) and not settings.ask_confirmation:
        return False
    enough = settings.min_tasks_mined / (2 if rule.contrast >= settings.strong_contrast else 1)
    if rule.tasks < enough:
        return False
    return isinstance(condition, Within) or rule.contrast >= settings.min_contrast


def check_rules(context: Context) -> list[Finding]:
    """A finding for each enforced condition that does not hold; what cannot be decided holds nothing back."""
    verdicts = [(r, _holds(context, r)) for r in context.rules]
    at_home = (
        {_place(rule.condition) for rule in context.tool.rules if _is_home(context, rule)} if context.tool else set()
    )
    violated = [r for r, holds in verdicts if holds is False and _place(r.condition) not in at_home]
    findings: list[Finding] = []
    doubted = {argument for argument in _arguments(violated) if _ungrounded(context, argument)}
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
        return False if _ungrounded(context, rule.condition.argument) else None
    return holds


_ORDER = {"within": 0, "field_is": 1, "grounded": 2, "read_before": 3, "called_before": 4, "confirmed": 5}


def _is_home(context: Context, rule: Rule) -> bool:
    """Whether a `Within` holds, enforced or not."""
    if not isinstance(rule.condition, Within):
        return False
    return rule.condition.holds(context.arguments, context.live.history) is True


def _place(condition: Condition) -> tuple[str, str] | None:
    """Argument and anchor of a `Within`.

    A value that stands inside one of the objects meant, the anchor's own or its owner's, is no stranger, though it
    stands in no other.
    """
    return (condition.argument, condition.anchor) if isinstance(condition, Within) else None


def _arguments(rules: Iterable[Rule]) -> set[str]:
    return {r.condition.argument for r in rules if isinstance(r.condition, ReadBefore | Grounded | Within | FieldIs)}


def _ungrounded(context: Context, argument: str) -> list[Any]:
    """Values of an argument that should have been said or shown, and were not."""
    plain = any(
        isinstance(r.condition, Grounded) and r.condition.argument == argument and r.condition.plain
        for r in context.rules
    )
    values = Grounded(argument=argument, plain=plain).values(context.arguments)
    if not values and not plain and is_reference(argument, "letters"):  # an id by its name, whatever stands in it
        values = argument_values(context.arguments, argument)
    return [value for value in values if context.live.history.origin(value).kind == "nowhere"]


def _finding(context: Context, rule: Rule, doubted: set[str]) -> Finding:
    condition = rule.condition
    name = getattr(condition, "argument", "")
    if name in doubted:
        reason, todos = _ground(context, name)
        return _result(context, rule, reason, todos)
    match condition:
        case ReadBefore():
            return _result(context, rule, *_read_first(context, condition))
        case CalledBefore():
            return _result(context, rule, *_call_first(context, condition))
        case Within():
            return _result(context, rule, *_stay_within(context, condition))
        case FieldIs():
            return _field(context, rule, condition)
        case Confirmed():
            return _result(context, rule, *_confirm(context))
        case _:
            return _result(context, rule, *_ground(context, name))


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


def _read_first(context: Context, condition: ReadBefore) -> tuple[str, list[Todo]]:
    history = context.live.history
    missing = [
        value
        for value in argument_values(context.arguments, condition.argument)
        if history.answered(condition.tool, {condition.parameter: value}) is None
    ]
    reason = f"{condition.tool} has not been called with this {condition.argument}"
    todos = []
    for value in missing:
        todo = _call(context, condition.tool, {condition.parameter: value})
        if todo is not None:
            todos.append(todo)
    return reason, todos


def _call_first(context: Context, condition: CalledBefore) -> tuple[str, list[Todo]]:
    todo = _call(context, condition.tool, {})
    return f"{condition.tool} has not been called", [todo] if todo else []


def _call(context: Context, tool: str, known: dict[str, Any]) -> Todo | None:
    """A call to make first; None where the agent cannot make it or has made it in vain."""
    if not context.offers(tool):
        return None
    arguments, missing = fill_call(context.index.get(tool), context.live, context.parameters_of(tool), known)
    if any(context.live.history.last_same(tool, tried) is not None for tried in (known, arguments)):
        return None  # it was tried and did not answer
    if not missing:
        return Todo(kind="call", tool=tool, arguments=arguments, text=call_text(tool, arguments))
    if all(item.source in ("", source_in_words(REQUEST)) for item in missing):
        return Todo(kind="ask_user", tool=tool, text=_ask(missing))
    return None  # what it needs stands in a result that is not there yet


def _ask(missing: list[Filled]) -> str:
    names = ", ".join(item.argument.replace("_", " ").replace("[]", "") for item in missing)
    return f"Please tell me your {names}."


def _ground(context: Context, argument: str) -> tuple[str, list[Todo]]:
    """A value that came from nowhere: what stands in the history in its place, or where it would come from."""
    wrong = _ungrounded(context, argument)
    reason = f"{argument} has a value that the user did not give and no result shows"
    source = unread_source(argument, context.tool, context.live)
    todos = []
    if source is not None:
        first = _call(context, source_tool(source), {})
        todos += [first] if first is not None and first.kind == "call" else []
    if len(wrong) > 1:
        return reason, [*todos, _replace(context, argument, None, [])]
    options = _options(context, argument, wrong[0]) if source is None else []
    return reason, [*todos, _replace(context, argument, wrong[0], options)]


def _options(context: Context, argument: str, value: Any) -> list[Any]:
    """Values that could replace one, those inside the right object first."""
    used = list(scalars(context.arguments))
    options = alternatives(argument, value, context.tool, context.live, used)
    taken = {normalise(item) for item in used}
    for rule in context.rules:
        condition = rule.condition
        if not isinstance(condition, Within) or condition.argument != argument:
            continue
        inside = condition.candidates(context.arguments, context.live.history)
        if inside:
            known = {normalise(item) for item in inside}
            narrowed = [item for item in options if normalise(item) in known]
            return narrowed or [item for item in inside if normalise(item) not in taken and shape(item) == shape(value)]
    return options


def _replace(context: Context, argument: str, value: Any, options: list[Any]) -> Todo:
    text = f"replace {argument} {value}" if value is not None else f"replace what is wrong in {argument}"
    if options:
        text += f" by {options[0]}" if len(options) == 1 else f" by one of {', '.join(map(str, options[:5]))}"
    return correction(context, argument, value, tuple(options), text)


def _stay_within(context: Context, condition: Within) -> tuple[str, list[Todo]]:
    """One of two arguments names the wrong object: the one that the user did not say is taken to be wrong."""
    history = context.live.history
    inside = {normalise(value) for value in condition.candidates(context.arguments, history) or ()}
    values = references(context.arguments, condition.argument)
    outside = [value for value in values if normalise(value) not in inside]
    anchor = argument_values(context.arguments, condition.anchor)[0]
    owner = f"the {condition.via} of {condition.anchor}" if condition.via else condition.anchor
    reason = f"{condition.argument} {outside[0]} does not belong to {owner} {anchor}"
    if not history.said(anchor):
        homes = _objects_with(context, condition, anchor, values)
        if len(homes) == 1:
            return reason, [_replace(context, condition.anchor, anchor, homes)]
    return reason, [
        _replace(context, condition.argument, outside[0], _options(context, condition.argument, outside[0]))
    ]


def _objects_with(context: Context, condition: Within, current: Any, values: list[Any]) -> list[Any]:
    """Other names for the anchor whose objects hold all the values."""
    wanted = {normalise(value) for value in values}
    history, used = context.live.history, scalars(context.arguments)
    found = []
    for name in alternatives(condition.anchor, current, context.tool, context.live, used):
        entry = object_via(history, name, condition.via)
        if entry is None or not wanted <= {normalise(value) for value in scalars(entry)}:
            continue
        moved = {**context.arguments, condition.anchor: name}
        if all(_fits(rule.condition, condition.anchor, moved, history) for rule in context.rules):
            found.append(name)
    return found


def _fits(condition: Condition, anchor: str, arguments: dict[str, Any], history: History) -> bool:
    """Whether a condition on the same anchor would not break."""
    if not isinstance(condition, Within) or condition.anchor != anchor:
        return True
    return condition.holds(arguments, history) is not False


def _field(context: Context, rule: Rule, condition: FieldIs) -> Finding:
    """An object in a state that no verified use had.

    What is seen now counts more than any memory, so the state itself is not argued with: either the call means
    another object, or it must not be made.
    """
    history = context.live.history
    name = next(
        value
        for value in argument_values(context.arguments, condition.argument)
        if field_of(history, value, condition.path) not in condition.values
    )
    now = field_of(history, name, condition.path)
    reason = (
        f"{condition.path} of {condition.argument} {name} is {now}; verified uses of {context.call.tool} had "
        + " or ".join(condition.values)
    )
    if not history.said(name):
        options = [
            option
            for option in alternatives(condition.argument, name, context.tool, context.live, scalars(context.arguments))
            if field_of(history, option, condition.path) in condition.values
        ]
        if options:
            return _result(context, rule, reason, [_replace(context, condition.argument, name, options)])
    hands_over = context.tool is not None and any(
        repair.kind == "handover" for error in context.tool.errors for repair in error.repairs
    )
    verdict = Verdict.TRANSFER if hands_over and context.handover else Verdict.BLOCK
    return _result(context, rule, reason, [], verdict)


def _confirm(context: Context) -> tuple[str, list[Todo]]:
    reason = "the user has not agreed to this in their latest words"
    if _times_asked(context) >= _MAX_ANSWERED:
        return f"{reason}, as far as can be told from them", []
    shown = ", ".join(
        f"{_plain_name(path)} {value}" for path, value in leaves(context.arguments) if value not in (None, "")
    )
    words = context.call.tool.replace("_", " ")
    details = f" with {shown}" if shown else ""
    text = f"I am about to {words}{details}. Shall I go ahead (yes or no)?"
    return reason, [Todo(kind="ask_user", tool=context.call.tool, text=text)]


def _times_asked(context: Context) -> int:
    """How often the agent has put this very call to the user and got an answer."""
    named = {str(normalise(value)) for value in scalars(context.arguments) if is_identifier(value)}
    turns = context.live.history.turns
    asked = 0
    for before, after in itertools.pairwise(turns):
        if before.role is Role.ASSISTANT and after.role is Role.USER and after.text and "?" in before.text:
            text = before.text.lower()
            asked += bool(named) and all(value in text for value in named)
    return asked


def _plain_name(path: str) -> str:
    return path.replace("[]", "").replace("{}", "").replace("_", " ").replace(".", " ")
