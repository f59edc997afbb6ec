"""The gate: ``g(action, preconditions, observations, budget)`` in {Allow, Revise, Block, Transfer} (FRESH, section 3).

A decision is a pure function of the call, the history before it, the caller's tools and how often this step has been
revised already. Reads pass, except one that has just failed unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from fresh.conditions import Confirmed
from fresh.gate.checks import check_arguments, check_known, check_repeated, check_schema
from fresh.gate.context import Context
from fresh.gate.decision import Decision, Finding, Todo, Verdict
from fresh.gate.rules import check_rules, conditions_by_form, enforced_rules
from fresh.gate.settings import GateSettings
from fresh.knowledge import Rule, ToolIndex
from fresh.live import Live
from graph_schema.trajectory import Effect, ToolCall, ToolSpec

_SEVERITY = {Verdict.ALLOW: 0, Verdict.REVISE: 1, Verdict.BLOCK: 2, Verdict.TRANSFER: 3}
_MAX_TODO = 6


class Gate:
    """Judges calls before they are made.

    Args:
        index: Tools of the memory.
        settings: When a call is held back.
    """

    def __init__(self, index: ToolIndex, settings: GateSettings | None = None) -> None:
        self.index = index
        self.settings = settings or GateSettings()
        self._rules: dict[str, tuple[Rule, ...]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings!r})"

    def rules(self, tool: str) -> tuple[Rule, ...]:
        """The mined conditions that are enforced on a tool."""
        if tool not in self._rules:
            self._rules[tool] = enforced_rules(self.index.get(tool), self.settings)
        return self._rules[tool]

    def _rules_for(self, call: ToolCall) -> tuple[Rule, ...]:
        """The mined conditions, and where too few uses were mined to have any, those any write has by its form."""
        known = self.index.get(call.tool)
        if known is None and self.settings.unknown_tool == "allow":
            return ()
        if known is not None and (known.effect is not Effect.WRITE or known.success >= self.settings.min_support):
            return self.rules(call.tool)
        return (*self.rules(call.tool), *conditions_by_form(call, self.index, self._asks_first))

    @cached_property
    def _asks_first(self) -> bool:
        """Whether the user's yes is enforced on any write of the memory."""
        return any(isinstance(rule.condition, Confirmed) for name in self.index.names for rule in self.rules(name))

    def decide(
        self,
        call: ToolCall,
        live: Live,
        specs: Mapping[str, ToolSpec] | None = None,
        *,
        revisions: int = 0,
        provenance: bool = False,
    ) -> Decision:
        """Judges one call.

        Args:
            call: The call, unanswered.
            live: The history before it.
            specs: The caller's tools by name; None when there is no list.
            revisions: How often this step has been revised already.
            provenance: Name in each finding the runs it comes from.
        """
        context = Context(call, live, specs, self.index, self.settings, self._rules_for(call), revisions)
        findings = _findings(context)
        if provenance:
            findings = [
                f.model_copy(update={"runs": self.index.runs(f.node)}) if f.node is not None else f for f in findings
            ]
        return _decide(context, findings)

    def settle(
        self,
        call: ToolCall,
        live: Live,
        revise: Callable[[ToolCall, Decision], ToolCall | None],
        specs: Mapping[str, ToolSpec] | None = None,
    ) -> Decision:
        """Judges a call and each revision of it, until one is allowed, blocked or handed over.

        Args:
            call: The call as first proposed.
            live: The history before it.
            revise: Makes the next proposal from the last one and its decision; None gives up. Whatever it returns is
                judged afresh, another tool by that tool's own conditions.
            specs: The caller's tools by name.
        """
        decision = self.decide(call, live, specs)
        for revisions in range(1, self.settings.max_revisions + 1):
            if decision.verdict is not Verdict.REVISE:
                break
            proposed = revise(decision.call, decision)
            if proposed is None:
                break
            decision = self.decide(proposed, live, specs, revisions=revisions)
        return decision


def _findings(context: Context) -> list[Finding]:
    """Runs the checks in order; the first that stops the call ends them."""
    unreadable = check_arguments(context)
    if unreadable is not None:
        return [unreadable]
    found: list[Finding] = []
    checks: list[Callable[[Context], Finding | None]] = [check_known]
    checks += [check_schema, check_repeated] if context.effect is Effect.WRITE else [check_repeated]
    for check in checks:
        finding = check(context)
        if finding is None:
            continue
        found.append(finding)
        if finding.verdict is not Verdict.ALLOW:
            return found
    return found + (check_rules(context) if context.effect is Effect.WRITE else [])


def _decide(context: Context, findings: list[Finding]) -> Decision:
    verdict = max((f.verdict for f in findings), key=_SEVERITY.__getitem__, default=Verdict.ALLOW)
    if verdict is Verdict.REVISE and context.revisions >= context.settings.max_revisions:
        findings, verdict = _give_up(context, findings)
    deciding = [f for f in findings if f.verdict is verdict]
    todo = _todo(context, verdict, deciding)
    return Decision(
        verdict=verdict,
        reason="; ".join(dict.fromkeys(f.reason for f in deciding)) or "nothing in memory speaks against it",
        todo=todo,
        next_tools=_next_tools(context, verdict, todo),
        call=context.call,
        findings=tuple(findings),
    )


def _give_up(context: Context, findings: list[Finding]) -> tuple[list[Finding], Verdict]:
    """No more revisions: what memory asked for becomes a warning or a case for a person, what cannot run is blocked."""
    if (
        any(f.check in ("arguments", "schema", "repeated") for f in findings if f.verdict is Verdict.REVISE)
        or context.settings.unsatisfiable == "transfer"
    ):
        verdict = Verdict.TRANSFER if context.handover else Verdict.BLOCK
    else:
        verdict = Verdict.ALLOW
    changed = {"verdict": verdict, "todo": ()}
    return [f.model_copy(update=changed) if f.verdict is Verdict.REVISE else f for f in findings], verdict


def _todo(context: Context, verdict: Verdict, deciding: Sequence[Finding]) -> tuple[Todo, ...]:
    if verdict is Verdict.TRANSFER and context.handover:
        return (_handover(context, context.handover),)
    if verdict is not Verdict.REVISE:
        return ()
    kept: dict[str, Todo] = {}
    for finding in deciding:
        for todo in finding.todo:
            kept.setdefault(f"{todo.kind}|{todo.tool}|{todo.argument}|{todo.arguments!r}", todo)
    return tuple(sorted(kept.values(), key=lambda todo: todo.kind == "ask_user"))[:_MAX_TODO]


def _handover(context: Context, tool: str) -> Todo:
    """The handover as a ready-made call; its text arguments get one line on what was held back."""
    schema = context.parameters_of(tool) or {}
    properties = schema.get("properties") or {}
    known = context.index.get(tool)
    names = list(schema.get("required") or (known.parameters if known else ()))
    summary = f"The agent could not complete: {context.call.tool.replace('_', ' ')}."
    arguments: dict[str, Any] = {n: summary for n in names if properties.get(n, {}).get("type", "string") == "string"}
    return Todo(kind="call", tool=tool, arguments=arguments, text=f"hand the case over with {tool}")


def _next_tools(context: Context, verdict: Verdict, todo: Sequence[Todo]) -> tuple[str, ...]:
    """Allow restricts nothing; Revise leaves the reads and what is to be done; Block the reads and a handover."""
    if verdict is Verdict.ALLOW:
        return ()
    if verdict is Verdict.TRANSFER:
        return (context.handover,) if context.handover else ()
    offered = list(context.specs) if context.specs is not None else []
    names = [item.tool for item in todo if item.tool]
    names += [name for name in offered if context.effect_of(name) is Effect.READ]
    if verdict is Verdict.BLOCK and context.handover:
        names.append(context.handover)
    return tuple(dict.fromkeys(names))
