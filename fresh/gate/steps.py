"""What comes after a verdict: ready-made calls, corrected arguments, and the tools that the next step may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fresh.gate.context import Context
from fresh.gate.decision import Finding, Todo, Verdict
from fresh.gate.remedies import refused
from fresh.values import normalise
from graph_schema.trajectory import Effect

_MAX_TODO = 6


def next_steps(context: Context, verdict: Verdict, deciding: Sequence[Finding]) -> tuple[Todo, ...]:
    """What to do first, in order: calls and corrections, then the question to the user; or the handover."""
    if verdict is Verdict.TRANSFER and context.handover:
        return (handover_call(context, context.handover),)
    if verdict is not Verdict.REVISE:
        return ()
    kept: dict[str, Todo] = {}
    for finding in deciding:
        for todo in finding.todo:
            kept.setdefault(f"{todo.kind}|{todo.tool}|{todo.argument}|{todo.arguments!r}", todo)
    ordered = sorted(kept.values(), key=lambda todo: todo.kind == "ask_user")[:_MAX_TODO]
    corrected = corrected_arguments(context.arguments, ordered)
    return tuple(
        todo.model_copy(update={"arguments": corrected}) if corrected and todo.kind == "correct_argument" else todo
        for todo in ordered
    )


def handover_call(context: Context, tool: str) -> Todo:
    """The handover as a ready-made call; its text arguments get one line on what was held back."""
    schema = context.parameters_of(tool) or {}
    properties = schema.get("properties") or {}
    known = context.index.get(tool)
    names = list(schema.get("required") or (known.parameters if known else ()))
    summary = f"The agent could not complete: {context.call.tool.replace('_', ' ')}."
    arguments: dict[str, Any] = {n: summary for n in names if _takes_text(properties.get(n))}
    return Todo(kind="call", tool=tool, arguments=arguments, text=f"hand the case over with {tool}")


def _takes_text(schema: Any) -> bool:
    """Whether a property takes a text; one that is described by no object (``true`` is JSON Schema too) may."""
    return not isinstance(schema, Mapping) or schema.get("type", "string") == "string"


def corrected_arguments(arguments: dict[str, Any], todos: Sequence[Todo]) -> dict[str, Any] | None:
    """The arguments with every correction made; None where some correction has no or several candidates."""
    corrections = [todo for todo in todos if todo.kind == "correct_argument"]
    if not corrections:
        return None
    changed: Any = arguments
    for todo in corrections:
        if len(todo.candidates) != 1 or not todo.argument:
            return None
        if todo.value is None and "[]" not in todo.argument and "." not in todo.argument:
            changed = {**changed, todo.argument: todo.candidates[0]}
            continue
        replaced = _replaced(changed, "", todo.argument, todo.value, todo.candidates[0])
        if replaced == changed:
            return None
        changed = replaced
    return dict(changed)


def _replaced(data: Any, path: str, wanted: str, old: Any, new: Any) -> Any:
    """The data with a scalar at a path, as `fresh.values.leaves` writes paths, replaced where it is the old one."""
    if isinstance(data, dict):
        return {key: _replaced(v, f"{path}.{key}" if path else str(key), wanted, old, new) for key, v in data.items()}
    if isinstance(data, list):
        return [_replaced(item, f"{path}[]", wanted, old, new) for item in data]
    return new if path == wanted and (data == old or normalise(data) == normalise(old)) else data


def allowed_tools(context: Context, verdict: Verdict, todo: Sequence[Todo]) -> tuple[str, ...] | None:
    """Tools of the next step; None restricts nothing.

    After REVISE and BLOCK the reads remain, and what is to be done or a handover; the refused tool is among them only
    where the call itself is to be corrected, or the user has said no to just this one. After TRANSFER only the handover
    remains.
    """
    if verdict is Verdict.ALLOW:
        return None
    if verdict is Verdict.TRANSFER:
        return (context.handover,) if context.handover else ()
    offered = list(context.specs) if context.specs is not None else context.index.names
    names = [item.tool for item in todo if item.kind == "call"]
    names += [name for name in offered if context.effect_of(name) is Effect.READ and name != context.call.tool]
    if any(item.kind == "correct_argument" for item in todo) or (verdict is Verdict.BLOCK and refused(context)):
        names.append(context.call.tool)
    if verdict is Verdict.BLOCK and context.handover:
        names.append(context.handover)
    return tuple(dict.fromkeys(names))
