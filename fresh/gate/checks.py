"""Checks that need no mined condition: arguments, schema, unknown tools, calls that failed before."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from fresh.fill import alternatives, fill, fill_call, required_arguments, rewritten
from fresh.gate.bounded_schema import schema_errors
from fresh.gate.context import Context
from fresh.gate.decision import Finding, Todo, Verdict
from fresh.gate.progress import call_key, is_refusal
from fresh.knowledge import KnownRepair
from fresh.mining.patterns import error_message
from fresh.values import argument_leaves, is_identifier, leaves, scalars
from graph_schema.trajectory import CallStatus, Effect, ToolCall

_TRANSIENT = re.compile(
    r"timed?[ -]?out|temporar|try again|rate.?limit|too many requests|unavailable|overloaded|connection"
    r"|\b(?:429|50[234])\b",
    re.IGNORECASE,
)
_MAX_ALTERNATIVES = 5
MAX_VALUES = 2_000
"""Most scalars in the arguments of a write."""


def check_arguments(context: Context) -> Finding | None:
    """Arguments that are not a JSON object cannot be executed; they are never taken for an empty object.

    A write with more values than can be checked is not let through on the strength of the first of them.
    """
    call = context.call
    reads = context.effect is Effect.READ
    if call.arguments is not None:
        return None if reads else _check_size(context)
    todo = Todo(
        kind="correct_argument",
        tool=call.tool,
        text=f"write the arguments of {call.tool} as one JSON object",
    )
    return Finding(
        check="arguments",
        verdict=Verdict.REVISE if reads else Verdict.BLOCK,
        reason=f"the arguments of {call.tool} cannot be read: {call.parse_error or 'not a JSON object'}",
        todo=(todo,) if reads else (),
    )


def _check_size(context: Context) -> Finding | None:
    values = sum(1 for _ in islice(argument_leaves(context.arguments), MAX_VALUES + 1))
    if values <= MAX_VALUES:
        return None
    text = f"split the call into several with at most {MAX_VALUES:,} values each"
    return Finding(
        check="arguments",
        verdict=Verdict.REVISE,
        reason=f"the arguments of {context.call.tool} hold more than {MAX_VALUES:,} values, too many to check",
        todo=(Todo(kind="correct_argument", tool=context.call.tool, text=text),),
    )


def check_known(context: Context) -> Finding | None:
    """A tool that is neither offered nor known, or a write that memory has never seen.

    Without a list of what is offered, nobody can say that a tool does not exist.
    """
    name = context.call.tool
    offered = context.offers(name)
    if name in context.index:
        if offered:
            return None
        return Finding(check="unknown_tool", verdict=Verdict.ALLOW, reason=f"{name} is not among the tools offered")
    if context.specs is not None and not offered:
        reason = f"{name} is unknown to the tools offered and the memory{_nearest(name, context.specs)}"
        return Finding(check="unknown_tool", verdict=Verdict.BLOCK, reason=reason)
    if context.effect is not Effect.WRITE:
        return None
    blocked = context.settings.unknown_tool == "block"
    return Finding(
        check="unknown_tool",
        verdict=Verdict.BLOCK if blocked else Verdict.ALLOW,
        reason=f"no run in the memory has used {name}, which writes: nothing is known of when it is safe"
        + ("" if offered else _nearest(name, context.index.names))
        + ("; mine runs that use it, or set unknown_tool to 'check' or 'allow'" if blocked else ""),
    )


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"; the nearest names are {', '.join(near)}" if near else ""


def check_schema(context: Context) -> Finding | None:
    """Arguments that the caller's JSON Schema refuses; without one, those that every verified use gave."""
    schema = context.parameters_of(context.call.tool)
    if schema is None:
        return _check_given(context)
    try:
        errors = schema_errors(schema, context.arguments)
    except Exception as error:  # the schema itself is wrong: jsonschema raises a different error for each way
        first = next(iter(str(error).splitlines()), "")
        return Finding(
            check="schema",
            verdict=Verdict.ALLOW,
            reason=f"the schema of {context.call.tool} is unusable: {first}",
        )
    if not errors:
        return None
    todos = [todo for error in errors for todo in _schema_todos(context, error, schema)]
    problems = "; ".join(dict.fromkeys(todo.text for todo in todos))
    return Finding(
        check="schema",
        verdict=Verdict.REVISE,
        reason=f"{context.call.tool} does not fit its schema: {problems}",
        todo=tuple(todos),
    )


def _check_given(context: Context) -> Finding | None:
    usual = required_arguments(context.tool, None)
    missing = [name for name in usual if context.arguments.get(name) in (None, "", [], {})]
    if not missing:
        return None
    return Finding(
        check="schema",
        verdict=Verdict.REVISE,
        reason=f"verified uses of {context.call.tool} gave {', '.join(missing)}, and this call does not",
        todo=tuple(_missing_argument(context, name, None) for name in missing),
    )


def _schema_todos(context: Context, error: Any, schema: Any) -> Iterator[Todo]:
    properties = schema.get("properties") or {}
    if error.validator == "required" and not error.absolute_path:
        for name in error.validator_value:
            if name not in context.arguments:
                yield _missing_argument(context, name, properties.get(name))
        return
    path = [str(step) for step in error.absolute_path if not isinstance(step, int)]
    name = path[0] if path else ""
    text = f"{'.'.join(path) or 'the arguments'}: {_short(error)}"
    options = error.validator_value if error.validator == "enum" else ()
    yield Todo(
        kind="correct_argument",
        tool=context.call.tool,
        text=text,
        argument=name,
        value=error.instance if path else None,
        candidates=tuple(options),
        source="one of the allowed values" if options else "",
    )


def _missing_argument(context: Context, name: str, schema: Any) -> Todo:
    filled = fill(name, context.tool, context.live, schema if isinstance(schema, dict) else None)
    where = f", from {filled.source}" if filled.source else ""
    return Todo(
        kind="correct_argument",
        tool=context.call.tool,
        text=f"{name} is missing{where}",
        argument=name,
        candidates=filled.candidates,
        source=filled.source,
    )


def _short(error: Any) -> str:
    kind, wanted = error.validator, error.validator_value
    if kind == "type":
        return f"must be {wanted if isinstance(wanted, str) else ' or '.join(wanted)}"
    if kind == "enum":
        return "must be one of " + ", ".join(map(str, wanted[:8]))
    if kind == "required":
        return "must have " + ", ".join(map(str, wanted))
    if kind == "additionalProperties":
        return "has an argument that the tool does not take"
    return f"does not satisfy {kind} {wanted}" if len(str(wanted)) < 60 else f"does not satisfy {kind}"


def check_repeated(context: Context) -> Finding | None:
    """The same call has failed before, and nothing that could change its result has happened since."""
    attempts, last = failed_before(context)
    if not attempts or last is None or last.observation is None:
        return None
    text = last.observation.text
    transient = _TRANSIENT.search(text) is not None
    if transient and attempts < context.settings.retry_budget:
        return None
    message = error_message(text, last.arguments)
    known = context.tool.error(message) if context.tool else None
    repairs = known.repairs if known else ()
    if not transient and any(repair.kind == "retry" for repair in repairs[:1]) and attempts == 1:
        return None
    budget_spent = attempts >= context.settings.retry_budget
    times = "before" if attempts == 1 else f"{attempts} times"
    reason = f"{context.call.tool} with the same arguments failed {times}, and nothing that matters has changed since"
    todos: tuple[Todo, ...] = ()
    only_a_person = bool(repairs) and repairs[0].kind == "handover"
    if (budget_spent or only_a_person) and context.handover:
        verdict = Verdict.TRANSFER
    elif attempts >= 2:
        verdict = Verdict.BLOCK
    else:
        verdict, todos = Verdict.REVISE, tuple(_repair_todos(context, repairs))
    node = repairs[0].node if repairs else known.node if known else None
    return Finding(check="repeated", verdict=verdict, reason=reason, todo=todos, node=node)


def failed_before(context: Context) -> tuple[int, ToolCall | None]:
    """Identical failed attempts since the last event that could change the result, and the newest of them.

    Only a write changes what a tool answers. What the gate itself refused was never tried.
    """
    attempts, newest = 0, None
    key = call_key(context.call)
    for _, earlier in reversed(context.live.history.calls):
        if earlier.status is CallStatus.OK and (earlier.by_user or context.effect_of(earlier.tool) is Effect.WRITE):
            break
        if earlier.tool != context.call.tool or earlier.by_user or is_refusal(earlier) or call_key(earlier) != key:
            continue
        if earlier.status is CallStatus.OK:
            break
        if earlier.status is CallStatus.UNANSWERED or earlier.observation is None:
            continue
        attempts += 1
        newest = newest or earlier
    return attempts, newest


def _repair_todos(context: Context, repairs: tuple[KnownRepair, ...]) -> Iterator[Todo]:
    """What would mend it: a value written as it was seen, the best known repair, another value, or the user."""
    for path, value in leaves(context.arguments):
        options = rewritten(value, context.live)
        if options:
            yield correction(context, path, value, tuple(options), f"write {path} as {options[0]}")
            return
    for repair in repairs[:3]:
        todos = list(_todos_of(context, repair))
        if todos:
            yield from todos
            return
    for path, value in leaves(context.arguments):
        if is_identifier(value):
            options = alternatives(path, value, context.tool, context.live, scalars(context.arguments))
            if options:
                text = f"change {path}: the call fails with {value}"
                yield correction(context, path, value, tuple(options[:_MAX_ALTERNATIVES]), text)
                return
    words = context.call.tool.replace("_", " ")
    yield Todo(
        kind="ask_user",
        tool=context.call.tool,
        text=f"I could not {words} with these details. How would you like to go on?",
    )


def _todos_of(context: Context, repair: KnownRepair) -> Iterator[Todo]:
    other = repair.tool
    if other and (repair.kind in ("add_read", "change_arguments")) and context.offers(other):
        arguments, missing = fill_call(context.index.get(other), context.live, context.parameters_of(other))
        if not missing and context.live.history.answered(other, arguments) is None:
            yield Todo(kind="call", tool=other, arguments=arguments, text=call_text(other, arguments))
    if repair.kind == "change_arguments":
        for name in repair.arguments:
            current = context.arguments.get(name)
            options: list[Any] = []
            if current is None or not isinstance(current, dict | list):
                used = scalars(context.arguments)
                options = (
                    alternatives(name, current, context.tool, context.live, used) if is_identifier(current) else []
                )
            text = f"change {name}: that has resolved this error before"
            yield correction(context, name, current, tuple(options), text)
    if repair.kind in ("fallback_tool", "handover") and other and context.offers(other):
        same = {k: v for k, v in context.arguments.items() if k in _names(context, other)}
        arguments, missing = fill_call(context.index.get(other), context.live, context.parameters_of(other), same)
        if not missing:
            yield Todo(kind="call", tool=other, arguments=arguments, text=call_text(other, arguments) + " instead")


def _names(context: Context, tool: str) -> set[str]:
    parameters = context.parameters_of(tool)
    if parameters and isinstance(parameters.get("properties"), dict):
        return set(parameters["properties"])
    known = context.index.get(tool)
    return set(known.parameters) | set(known.sources) if known else set()


def correction(context: Context, path: str, value: Any, options: tuple[Any, ...], text: str) -> Todo:
    """A value to be replaced, with what could stand there and where such values usually come from."""
    source = fill(path, context.tool, context.live).source
    if source:
        text += f"; it usually comes from {source}"
    return Todo(
        kind="correct_argument",
        tool=context.call.tool,
        text=text,
        argument=path,
        value=value,
        candidates=options,
        source=source,
    )


def call_text(tool: str, arguments: dict[str, Any]) -> str:
    """A call in words: ``call get_order with order_id #W12``."""
    shown = ", ".join(f"{name} {value}" for name, value in arguments.items())
    return f"call {tool}" + (f" with {shown}" if shown else "")
