"""What to do about a condition that does not hold: the reason in one line, and steps ready to be made."""

from __future__ import annotations

import itertools
from typing import Any

from fresh.conditions import (
    AtMost,
    CalledBefore,
    ComesFrom,
    Condition,
    FieldIs,
    Grounded,
    Never,
    ReadBefore,
    SameCount,
    SingledOut,
    Together,
    Within,
    argument_values,
    field_of,
    object_via,
    references,
)
from fresh.conditions.values import belong_together, is_grounded, is_singled_out, value_places
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
from fresh.gate.decision import Todo
from fresh.history import History, refuses
from fresh.live import last_name
from fresh.titles import with_title
from fresh.values import is_identifier, is_reference, leaves, normalise, scalars
from graph_schema.trajectory import Role

_MAX_ANSWERED = 2
"""Times the user may be asked about one call before the gate stops asking: their yes is then one it cannot read."""

_MAX_OPTIONS = 5
"""Values offered in place of a wrong one."""

Remedy = tuple[str, list[Todo]]
"""Why, and what to do; nothing to do where no step in reach would help."""


def read_first(context: Context, condition: ReadBefore) -> Remedy:
    """The look-up of each object that has not been looked at."""
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


def call_first(context: Context, condition: CalledBefore) -> Remedy:
    """The call that has always come before."""
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


def ungrounded(context: Context, argument: str) -> list[Any]:
    """Values of an argument that should have been said or shown, and were not."""
    own = [r.condition for r in context.rules if isinstance(r.condition, Grounded) and r.condition.argument == argument]
    plain, firm = any(c.plain for c in own), any(c.firm for c in own)
    values = Grounded(argument=argument, plain=plain).values(context.arguments)
    if not values and not plain and is_reference(argument, "letters"):  # an id by its name, whatever stands in it
        values = argument_values(context.arguments, argument)
    return [value for value in values if not is_grounded(value, context.live.history, firm=firm)]


def ground(context: Context, argument: str) -> Remedy:
    """A value that came from nowhere: what stands in the history in its place, or where it would come from."""
    wrong = ungrounded(context, argument)
    in_text = wrong and is_grounded(wrong[0], context.live.history)
    where = "only the running text of a result speaks of" if in_text else "no result shows"
    reason = f"{argument} has a value that the user did not give and {where}"
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
    titled = [with_title(option, context.live.history, context.tools_in_words) for option in options[:_MAX_OPTIONS]]
    if titled:
        text += f" by {titled[0]}" if len(titled) == 1 else f" by one of {', '.join(titled)}"
    return correction(context, argument, value, tuple(options), text)


def stay_within(context: Context, condition: Within) -> Remedy:
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


def point_out(context: Context, condition: SingledOut) -> Remedy:
    """An object that the user did not speak of: one that they did, or the question which one they mean."""
    history = context.live.history
    wrong = next(v for v in references(context.arguments, condition.argument) if is_singled_out(v, history) is False)
    reason = f"the user has spoken neither of {condition.argument} {wrong} nor of anything in it"
    options = [v for v in _options(context, condition.argument, wrong) if is_singled_out(v, history)]
    if options:
        return reason, [_replace(context, condition.argument, wrong, options)]
    if agreed(context):
        return reason, []
    return reason, [question(context)]


def keep_together(context: Context, condition: Together) -> Remedy:
    """Two values of different objects: the one that the user did not say is taken to be wrong."""
    history = context.live.history
    apart = [
        pair
        for pair in condition.pairs(context.arguments)
        if belong_together(*pair, history, condition.whole_result) is False
    ]
    first, second = apart[0]
    where = "result" if condition.whole_result else "object"
    reason = f"{condition.argument} {first} and {condition.other} {second} were never seen in one {where}"
    wrong, kept, path = (
        (first, second, condition.argument) if history.said(second) else (second, first, condition.other)
    )
    options = [value for value in _same_field(context, path, wrong) if history.shown_together(value, kept)]
    return reason, [_replace(context, path, wrong, options)]


def _same_field(context: Context, path: str, wrong: Any) -> list[Any]:
    """Other observed values of the fields called like an argument."""
    seen = context.live.fields.get(last_name(path).removesuffix("s"), []) + context.live.fields.get(last_name(path), [])
    return [value for value in seen if normalise(value) != normalise(wrong)]


def take_from(context: Context, condition: ComesFrom) -> Remedy:
    """A value that was seen, but not where such values come from."""
    history = context.live.history
    allowed = set(condition.places)
    wrong = next(v for v in references(context.arguments, condition.argument) if not value_places(v, history) & allowed)
    where = " or ".join(source_in_words(place) for place in condition.places)
    reason = f"{condition.argument} {wrong} was seen, but not where it should come from: {where}"
    options = [
        value for value in _options(context, condition.argument, wrong) if value_places(value, history) & allowed
    ]
    return reason, [_replace(context, condition.argument, wrong, options)]


def count_alike(context: Context, condition: SameCount) -> Remedy:
    """A list with too many or too few entries."""
    own = context.arguments[condition.argument]
    other: Any = context.arguments[condition.other]
    if condition.path:
        found = object_via(context.live.history, other)
        other = found.get(condition.path) if found else []
    against = f"{condition.path} of {condition.other}" if condition.path else condition.other
    reason = f"{condition.argument} has {len(own)} entries and {against} has {len(other)}"
    text = f"give as many {condition.argument} as there are in {against}: {len(other)}"
    return reason, [correction(context, condition.argument, None, (), text)]


def stay_below(context: Context, condition: AtMost) -> Remedy:
    """A number above what the object beside it allows."""
    compared = condition.compared(context.arguments, context.live.history)
    value, name, bound = next(found for found in compared if found[0] > found[2])
    reason = (
        f"{condition.argument} {value:g} is more than {condition.path} of {condition.anchor} {name}, which is {bound:g}"
    )
    return reason, [_replace(context, condition.anchor, name, _options(context, condition.anchor, name))]


def other_state(context: Context, condition: FieldIs) -> Remedy:
    """An object in a state that no verified use had: another one that the history shows in the right state."""
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
    return reason, _another(context, condition, condition.argument, name)


def forbidden(context: Context, condition: Never) -> Remedy:
    """Predicates that together have always failed: another choice of the call's own, or another object."""
    reason = f"{context.call.tool} has never been right while " + " and ".join(t.words() for t in condition.tests)
    if condition.error:
        reason += f", and then answered: {condition.error}"
    own = next((test for test in condition.tests if not test.path), None)
    if own is not None:
        text = f"change {own.argument}: not {' or '.join(own.values)}" if own.op == "is" else f"change {own.argument}"
        value = next(iter(argument_values(context.arguments, own.argument)), None)
        return reason, [correction(context, own.argument, value, (), text)]
    names = references(context.arguments, condition.argument)
    return reason, _another(context, condition, condition.argument, names[0]) if len(names) == 1 else []


def _another(context: Context, condition: FieldIs | Never, argument: str, name: Any) -> list[Todo]:
    """Another object for an argument that the user did not say, with which the condition would hold."""
    history = context.live.history
    if history.said(name) or "[" in argument:
        return []
    options = [
        option
        for option in alternatives(argument, name, context.tool, context.live, scalars(context.arguments))
        if condition.holds({**context.arguments, argument: option}, history)
    ]
    return [_replace(context, argument, name, options)] if options else []


def ask_whether(context: Context) -> Remedy:
    """Nothing in the user's words speaks of this: they are asked, unless they have agreed to this very call."""
    reason = f"the user has not asked for anything like {context.call.tool.replace('_', ' ')}"
    if agreed(context):
        return f"{reason} in words of their own", []
    return reason, [question(context)]


def agreed(context: Context) -> bool:
    """Whether the user's latest words say yes to what the agent put to them, and that was this very call."""
    history = context.live.history
    return history.confirmed() and _names_call(context, history.put_to_user)


def refused(context: Context) -> bool:
    """Whether the user was asked about this very call and said no."""
    answer = context.live.history.answer
    return answer is not None and refuses(answer) and _times_asked(context) > 0


def confirm(context: Context) -> Remedy:
    """A missing yes: the question that would bring it, from the call's own arguments."""
    reason = "the user has not agreed to this in their latest words"
    if _times_asked(context) >= _MAX_ANSWERED:
        return f"{reason}, as far as can be told from them", []
    return reason, [question(context)]


def question(context: Context) -> Todo:
    """What to ask the user before this very call."""
    shown = ", ".join(
        f"{_plain_name(path)} {with_title(value, context.live.history, context.tools_in_words)}"
        for path, value in leaves(context.arguments)
        if value not in (None, "")
    )
    words = context.call.tool.replace("_", " ")
    details = f" with {shown}" if shown else ""
    text = f"I am about to {words}{details}. Shall I go ahead (yes or no)?"
    return Todo(kind="ask_user", tool=context.call.tool, text=text)


def _times_asked(context: Context) -> int:
    """How often the agent has put this very call to the user and got an answer."""
    return sum(
        before.role is Role.ASSISTANT
        and after.role is Role.USER
        and bool(after.text)
        and "?" in before.text
        and _names_call(context, before.text.lower())
        for before, after in itertools.pairwise(context.live.history.turns)
    )


def _names_call(context: Context, text: str) -> bool:
    """Whether a text, in small letters, holds the call's identifiers; all its values where it has none."""
    values = [value for value in scalars(context.arguments) if value not in (None, "") and not isinstance(value, bool)]
    named = [value for value in values if is_identifier(value)] or values
    return bool(named) and all(str(normalise(value)) in text for value in named)


def _plain_name(path: str) -> str:
    return path.replace("[]", "").replace("{}", "").replace("_", " ").replace(".", " ")
