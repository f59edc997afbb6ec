"""The next action or two: the likeliest tools, each after the look-ups that it needs, nothing done or just failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fresh.conditions import ComesFrom, FieldIs, ReadBefore, Within
from fresh.fill import MAX_CANDIDATES, OWN_WORDS, Filled, argument_sources, fill, required_arguments, source_tool
from fresh.gate.checks import failed_before
from fresh.gate.context import Context
from fresh.gate.decision import Finding, Verdict
from fresh.gate.gate import Gate
from fresh.gate.progress import is_refusal
from fresh.gate.rules import check_rules
from fresh.guidance.settings import GuidanceSettings
from fresh.knowledge import Rule, ToolMemory
from fresh.live import Live
from fresh.values import argument_name
from graph_schema.trajectory import CallStatus, Effect, ToolCall, ToolSpec

_MAX_TOOLS_TRIED = 6
_DEPTH = 4
"""Longest chain of look-ups put before an action, each of which needs the one before it."""


@dataclass(frozen=True)
class Action:
    """An action put under Do.

    Attributes:
        arguments: Those with a value.
        filled: What is known of each argument.
    """

    tool: ToolMemory
    arguments: dict[str, Any]
    filled: dict[str, Filled]

    @property
    def missing(self) -> list[str]:
        """Arguments still without a value."""
        return [name for name in self.filled if name not in self.arguments]


@dataclass
class Plan:
    """What comes next.

    Attributes:
        actions: For Do, in order.
        unmet: For Check: conditions of the actions looked at that do not hold, with what is wrong.
        likely: The tools looked at, likeliest first.
        barred: Tools that the gate would not let pass, whatever came before.
    """

    actions: list[Action] = field(default_factory=list)
    unmet: list[tuple[ToolMemory, Rule, Finding]] = field(default_factory=list)
    likely: list[ToolMemory] = field(default_factory=list)
    barred: set[str] = field(default_factory=set)


def is_composed(action: Action) -> bool:
    """Whether a tool takes nothing but the agent's own words, as a calculator or a note does: no step by itself."""
    if action.tool.effect is Effect.WRITE or not action.filled:
        return False
    return all(item.source == OWN_WORDS and name not in action.arguments for name, item in action.filled.items())


def _bars(finding: Finding, action: Action) -> bool:
    """Whether a finding speaks against an action, whatever its open arguments will be; a user's no may be to others."""
    if finding.check == "confirmed" and action.missing:
        return False
    return finding.verdict in (Verdict.BLOCK, Verdict.TRANSFER)


class Planner:
    """Plans one step.

    Args:
        gate: Its conditions decide what must come first.
        settings: Bounds.
        live: The history so far.
        specs: The caller's tools by name; None when there is no list.
    """

    def __init__(
        self, gate: Gate, settings: GuidanceSettings, live: Live, specs: Mapping[str, ToolSpec] | None
    ) -> None:
        self._gate = gate
        self._settings = settings
        self._live = live
        self._specs = specs
        self._plan = Plan()

    def plan(self, ranked: Sequence[tuple[ToolMemory, float]]) -> Plan:
        """Picks the next actions from tools with scores, best first."""
        due = [(tool, score) for tool, score in ranked if not self._is_spent(tool)]
        best = due[0][1] if due else 0.0
        for tool, score in due[:_MAX_TOOLS_TRIED]:
            if len(self._plan.actions) >= self._settings.max_do or score < self._settings.min_share * best:
                break
            self._plan.likely.append(tool)
            self._add(tool, {}, _DEPTH)
        return self._plan

    def context(self, tool: ToolMemory, arguments: dict[str, Any]) -> Context:
        """What the gate would be given for a call of the tool."""
        call = ToolCall.model_construct(
            id="next",
            tool=tool.name,
            arguments=arguments,
            raw_arguments="",
            parse_error=None,
            by_user=False,
            observation=None,
        )
        return Context(
            call,
            self._live,
            self._specs,
            self._gate.index,
            self._gate.settings,
            self._gate.rules(tool.name),
            0,
        )

    def _add(self, tool: ToolMemory, known: Mapping[str, Any], depth: int) -> None:
        """Adds an action, what it needs before it; nothing if it is done, just failed, or must not be made."""
        if self._just_failed(tool.name):
            return
        action = self._fill(tool, known)
        if action is None:
            return
        if is_composed(action):
            return
        action = self._narrow(action)
        if action is None:
            self._plan.barred.add(tool.name)
            return
        context = self.context(tool, action.arguments)
        if context.call.tool == context.handover or failed_before(context)[0]:
            return  # when to hand over is for a repair or the gate to say
        findings = check_rules(context) if context.effect is Effect.WRITE else []
        self._note(tool, context, findings)
        if any(_bars(finding, action) for finding in findings):
            self._plan.barred.add(tool.name)
            return
        for other, given in self._needed(action, findings) if depth else ():
            self._add(other, given, depth - 1)
        planned = [(a.tool.name, a.arguments) for a in self._plan.actions]
        if len(planned) < self._settings.max_do and (tool.name, action.arguments) not in planned:
            self._plan.actions.append(action)

    def _is_spent(self, tool: ToolMemory) -> bool:
        """Whether a look-up has shown all that it could be asked for now; it is not due again, nor said to be."""
        if tool.effect is Effect.WRITE or self._fill(tool, {}) is not None:
            return False
        self._plan.barred.add(tool.name)
        return True

    def _narrow(self, action: Action) -> Action | None:
        """The action without values that break a condition of its own; None if none is in the state that it needs."""
        conditions = [rule.condition for rule in self._gate.rules(action.tool.name)]
        narrowing = [c for c in conditions if isinstance(c, FieldIs | ComesFrom)]
        # what belongs inside an object can be told once the object is known
        for condition in [*narrowing, *(c for c in conditions if isinstance(c, Within))]:
            name = argument_name(condition.argument)
            item = action.filled.get(name)
            if item is None or name in action.arguments or not item.candidates:
                continue
            listed = condition.argument == f"{name}[]"
            left = [
                value
                for value in item.candidates
                if condition.holds({**action.arguments, name: [value] if listed else value}, self._live.history)
                is not False
            ]
            if not left and isinstance(condition, FieldIs) and len(item.candidates) < MAX_CANDIDATES:
                return None
            sure = len(left) == 1 and not listed
            known = {name: left[0]} if sure else {}
            item = replace(item, value=left[0] if sure else None, candidates=tuple(left), certain=sure)
            action = Action(action.tool, action.arguments | known, action.filled | {name: item})
        return action

    def _just_failed(self, tool: str) -> bool:
        """Whether the newest call was one of this tool and failed: then Repair speaks, and Do does not."""
        calls = self._live.history.agent_calls
        if not calls or is_refusal(calls[-1]):
            return False  # what the gate has held back was not made
        return calls[-1].tool == tool and calls[-1].status is CallStatus.ERROR

    def _fill(self, tool: ToolMemory, known: Mapping[str, Any]) -> Action | None:
        """The action with what is known of its arguments; None if it is done."""
        spec = (self._specs or {}).get(tool.name)
        parameters = spec.parameters if spec is not None and spec.parameters else None
        properties = (parameters or {}).get("properties") or {}
        filled = {
            name: fill(name, tool, self._live, properties.get(name)) for name in required_arguments(tool, parameters)
        }
        for name, value in known.items():
            source = filled[name].source if name in filled else ""
            filled[name] = Filled(name, value, (value,), source, True)
        arguments = {name: item.value for name, item in filled.items() if item.certain}
        action = Action(tool, arguments, filled)
        if tool.effect is Effect.WRITE:
            last = self._live.history.last_same(tool.name, arguments)
            return None if last is not None and last.status is CallStatus.OK else action
        return self._open(action, known)

    def _open(self, action: Action, known: Mapping[str, Any]) -> Action | None:
        """A look-up for what has not been looked up yet; None if all of it has."""
        if action.filled and len(action.missing) <= 1:
            name = action.missing[0] if action.missing else next(iter(action.filled))
            item = action.filled[name]
            others = {key: value for key, value in action.arguments.items() if key != name}
            left = tuple(v for v in item.candidates if not self._asked(action.tool.name, {**others, name: v}))
            if name in known or not item.candidates:
                left = item.candidates
            elif not left:
                return None
            elif left != item.candidates and name not in action.missing:
                arguments = others | ({name: left[0]} if len(left) == 1 else {})
                return Action(action.tool, arguments, action.filled | {name: replace(item, candidates=left)})
            action = Action(action.tool, action.arguments, action.filled | {name: replace(item, candidates=left)})
        done = not action.missing and self._asked(action.tool.name, action.arguments)
        return None if done or self._answered_in_part(action) else action

    def _answered_in_part(self, action: Action) -> bool:
        """Whether a look-up that cannot be filled now has been made, however it was filled then."""
        unknown = [name for name in action.missing if not action.filled[name].candidates]
        return bool(unknown) and self._live.history.answered(action.tool.name) is not None

    def _asked(self, tool: str, arguments: dict[str, Any]) -> bool:
        """Whether the look-up has been made, and nothing was written since its answer."""
        last = self._live.history.last_same(tool, arguments)
        if last is None:
            return False
        for call in reversed(self._live.history.agent_calls):
            if call is last:
                return True
            if call.status is CallStatus.OK and self._gate.index.effect(call.tool) is Effect.WRITE:
                return last.status is not CallStatus.OK
        return True

    def _note(self, tool: ToolMemory, context: Context, findings: Sequence[Finding]) -> None:
        """Keeps what does not hold for Check, except what a look-up under Do will mend."""
        rules = {rule.node: rule for rule in context.rules}
        for finding in findings:
            if finding.node in rules and not any(todo.kind == "call" for todo in finding.todo):
                self._plan.unmet.append((tool, rules[finding.node], finding))

    def _unread(self, action: Action) -> Iterator[tuple[ToolMemory, dict[str, Any]]]:
        """Look-ups demanded for an argument whose value is still open: none of its candidates has been read."""
        for rule in self._gate.rules(action.tool.name):
            condition = rule.condition
            if not isinstance(condition, ReadBefore) or condition.argument not in action.missing:
                continue
            other, options = (
                self._gate.index.get(condition.tool),
                action.filled[condition.argument].candidates,
            )
            read = [self._live.history.answered(condition.tool, {condition.parameter: value}) for value in options]
            if other is not None and not any(read):
                yield other, {condition.parameter: options[0]} if len(options) == 1 else {}

    def _needed(self, action: Action, findings: Sequence[Finding]) -> Iterator[tuple[ToolMemory, dict[str, Any]]]:
        """Look-ups that must come before an action: what its conditions demand, and what shows its missing values."""
        for todo in (todo for finding in findings for todo in finding.todo if todo.kind == "call"):
            other = self._gate.index.get(todo.tool)
            if other is not None:
                yield other, todo.arguments
        if action.tool.effect is Effect.WRITE:
            yield from self._unread(action)
        for name in action.missing:
            sources = [] if action.filled[name].candidates else argument_sources(name, action.tool)
            other = self._gate.index.get(source_tool(sources[0])) if sources else None
            if other is None or (self._specs is not None and other.name not in self._specs):
                continue
            if self._live.history.answered(other.name) is None:
                yield other, {}
