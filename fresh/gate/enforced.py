"""Which of a memory's conditions are enforced on a tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fresh.conditions import CalledBefore, Confirmed, Grounded, ReadBefore, Within
from fresh.gate.settings import GateSettings
from fresh.knowledge import Rule, ToolIndex, ToolMemory
from fresh.values import argument_name, is_reference
from graph_schema.trajectory import Effect, ToolCall

_SHARED_BY = 2
"""Tools that must enforce a condition on arguments of the same names, before other writes are held to it."""


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


@dataclass(frozen=True)
class Customs:
    """What the writes of a memory have in common, so that a write it hardly knows can be held to it.

    Attributes:
        asks_first: They wait for the user's yes.
        conditions: Conditions on arguments that several of them share, by name: where a value must have been said or
            seen, and to whose object it belongs.
    """

    asks_first: bool
    conditions: tuple[Grounded | Within, ...]

    @classmethod
    def of(cls, index: ToolIndex, rules: Callable[[str], Sequence[Rule]], min_tasks: int) -> Customs:
        """Reads them off the enforced rules of all tools.

        Args:
            index: Tools of the memory.
            rules: The enforced rules of a tool.
            min_tasks: Tasks from which on a write is known well. If none is, the user's yes is waited for all the same.
        """
        enforced = [rule.condition for name in index.names for rule in rules(name)]
        known = (index.get(name) for name in index.names)
        well_known = any(tool and tool.effect is Effect.WRITE and tool.tasks >= min_tasks for tool in known)
        asks_first = any(isinstance(condition, Confirmed) for condition in enforced) or not well_known
        shared = Counter(c for c in enforced if isinstance(c, Within) or (isinstance(c, Grounded) and not c.plain))
        return cls(asks_first, tuple(condition for condition, tools in shared.items() if tools >= _SHARED_BY))


def conditions_by_form(call: ToolCall, index: ToolIndex, customs: Customs) -> Iterator[Rule]:
    """What holds of a write by its form alone, while memory has too few uses of it to say more.

    An argument that a known look-up takes as its only parameter names an object: it must have been said or seen, and
    the object looked at. What other writes demand of arguments of the same names is demanded here too.

    Args:
        call: The write.
        index: Tools of the memory.
        customs: What the memory's writes have in common.
    """
    arguments = call.arguments or {}
    looked_up = {name for name, value in arguments.items() if name in index.lookups and is_reference(name, value)}
    for name in sorted(looked_up):
        tool, node = index.lookups[name]
        yield Rule(node, Grounded(argument=name, firm=True), 0)
        yield Rule(node, ReadBefore(tool=tool, parameter=name, argument=name), 0)
    known = index.get(call.tool)
    own = known.node if known and known.node is not None else -1
    for condition in customs.conditions:
        if isinstance(condition, Grounded) and condition.argument in looked_up:
            continue  # said above
        named = (condition.argument, condition.anchor) if isinstance(condition, Within) else (condition.argument,)
        if all(argument_name(name) in arguments for name in named):
            yield Rule(own, condition, 0)
    if customs.asks_first:
        yield Rule(own, Confirmed(), 0)
