"""Which of a memory's conditions are enforced on a tool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fresh.conditions import CalledBefore, Confirmed, Grounded, ReadBefore
from fresh.gate.settings import GateSettings
from fresh.knowledge import Rule, ToolIndex, ToolMemory
from fresh.values import is_reference
from graph_schema.trajectory import ToolCall


def enforced_rules(tool: ToolMemory | None, settings: GateSettings) -> tuple[Rule, ...]:
    """The conditions of a tool that hold calls back, those first whose violation says most.

    A condition is taken if the right uses that it and all better ones would hold back, on tasks they were not mined
    from, stay within the settings' share.
    """
    if tool is None:
        return ()
    taken = [rule for rule in tool.rules if _eligible(rule, settings)]
    taken.sort(key=lambda rule: (-rule.score, -rule.support, rule.node))
    return tuple(rule for rule in taken if not _implied(rule, taken))


def _implied(rule: Rule, taken: Sequence[Rule]) -> bool:
    """Whether another enforced condition says the same and more."""
    match rule.condition:
        case CalledBefore(tool=tool):
            return any(isinstance(r.condition, ReadBefore) and r.condition.tool == tool for r in taken)
        case Grounded(argument=argument, firm=False):
            return any(
                isinstance(r.condition, Grounded) and r.condition.firm and r.condition.argument == argument
                for r in taken
            )
    return False


def _eligible(rule: Rule, settings: GateSettings) -> bool:
    if rule.support < settings.min_support or rule.score < settings.min_score:
        return False
    if rule.false_block > settings.max_false_block:
        return False
    if isinstance(rule.condition, Confirmed):
        return settings.ask_confirmation
    if isinstance(rule.condition, Grounded) and rule.condition.plain:
        return rule.tasks >= settings.min_tasks
    return True


def conditions_by_form(call: ToolCall, index: ToolIndex, asks_first: bool) -> Iterator[Rule]:
    """What holds of a write by its form alone, while memory has too few uses of it to say more.

    An argument that a known look-up takes as its only parameter names an object: it must have been said or seen, and
    the object looked at. Where the memory's other writes wait for the user's yes, so does this one.

    Args:
        call: The write.
        index: Tools of the memory.
        asks_first: Whether writes wait for the user's yes here.
    """
    for name, value in (call.arguments or {}).items():
        reader = index.lookups.get(name)
        if reader is None or not is_reference(name, value):
            continue
        tool, node = reader
        yield Rule(node, Grounded(argument=name, firm=True), 0)
        yield Rule(node, ReadBefore(tool=tool, parameter=name, argument=name), 0)
    known = index.get(call.tool)
    if asks_first:
        yield Rule(known.node if known and known.node is not None else -1, Confirmed(), 0)
