"""The gate: ``g(action, preconditions, observations, budget)`` in {Allow, Revise, Block, Transfer} (FRESH, section 3).

A decision is a pure function of the call, the history before it, the caller's tools and how often this step has been
revised already. Reads pass, except one that has just failed unchanged, goes round in a loop, or breaks a rule of the
policy; one that was answered before gets its recorded answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from fresh.gate.audit import AuditLog
from fresh.gate.checks import check_arguments, check_known, check_repeated, check_schema
from fresh.gate.context import Context, effect_of
from fresh.gate.decision import Decision, Finding, Mode, Verdict
from fresh.gate.enforced import Customs, conditions_by_form, enforced_rules
from fresh.gate.guards import guard_states
from fresh.gate.instructed import check_instructed
from fresh.gate.lookalike import check_lookalike
from fresh.gate.policy import Policy, check_policy, policy_states
from fresh.gate.progress import check_budget, check_loop, fruitless_refusals, recorded_answer
from fresh.gate.rules import check_rules
from fresh.gate.settings import GateSettings
from fresh.gate.steps import allowed_tools, next_steps
from fresh.knowledge import Rule, ToolIndex
from fresh.live import Live
from graph_schema.trajectory import Effect, ToolCall, ToolSpec

_SEVERITY = {Verdict.ALLOW: 0, Verdict.REVISE: 1, Verdict.BLOCK: 2, Verdict.TRANSFER: 3}
_FORMAL = frozenset({"arguments", "schema", "lookalike", "repeated", "loop", "instructed"})
"""Checks that no patience lets pass: the call could not run, would fail again, or is nobody's wish."""


class Gate:
    """Judges calls before they are made.

    Args:
        index: Tools of the memory.
        settings: When a call is held back.
        policy: Rules written by hand.
        audit: Where each decision is recorded.
    """

    def __init__(
        self,
        index: ToolIndex,
        settings: GateSettings | None = None,
        *,
        policy: Policy | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self.index = index
        self.settings = settings or GateSettings()
        self.policy = policy or Policy()
        self.audit = audit
        self._rules: dict[str, tuple[Rule, ...]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings!r})"

    def rules(self, tool: str) -> tuple[Rule, ...]:
        """The mined conditions that are enforced on a tool."""
        if tool not in self._rules:
            self._rules[tool] = enforced_rules(self.index.get(tool), self.settings)
        return self._rules[tool]

    def effect(self, tool: str, specs: Mapping[str, ToolSpec] | None = None) -> Effect:
        """What a tool does: the caller's word, then the memory's, then the verb of its name."""
        return effect_of(tool, self.index, specs)

    def _rules_for(self, call: ToolCall) -> tuple[Rule, ...]:
        """The mined conditions, and where too few uses were mined to have any, those any write has by its form."""
        known = self.index.get(call.tool)
        if known is None and self.settings.unknown_tool == "allow":
            return ()
        rules = self.rules(call.tool)
        if known is not None and known.effect is not Effect.WRITE:
            return rules
        if known is not None and known.tasks >= self.settings.min_tasks:
            return rules
        own = {rule.condition for rule in rules}
        by_form = conditions_by_form(call, self.index, self._customs)
        return (*rules, *(rule for rule in by_form if rule.condition not in own))

    @cached_property
    def _customs(self) -> Customs:
        return Customs.of(self.index, self.rules, self.settings.min_tasks)

    def score(self, call: ToolCall, live: Live) -> float:
        """Chance that a write is wrong, by the mined conditions it breaks, enforced or not; 0 where it breaks none.

        Args:
            call: The write.
            live: The history before it.
        """
        known = self.index.get(call.tool)
        if known is None or call.arguments is None:
            return 0.0
        history = live.history
        broken = (rule.score for rule in known.rules if rule.condition.holds(call.arguments, history) is False)
        return max(broken, default=0.0)

    def decide(
        self,
        call: ToolCall,
        live: Live,
        specs: Mapping[str, ToolSpec] | None = None,
        *,
        revisions: int = 0,
        provenance: bool = False,
        mode: Mode | None = None,
    ) -> Decision:
        """Judges one call.

        Args:
            call: The call, unanswered.
            live: The history before it.
            specs: The caller's tools by name; None when there is no list.
            revisions: How often this step has been revised already.
            provenance: Name in each finding and guard the runs it comes from.
            mode: In place of the settings' mode.
        """
        mode = mode or self.settings.mode
        if mode == "off":
            return Decision(verdict=Verdict.ALLOW, reason="the gate is off", call=call, mode=mode)
        rules = tuple(rule for rule in self._rules_for(call) if rule.condition.kind not in self.settings.without)
        context = Context(call, live, specs, self.index, self.settings, rules, revisions)
        decision = self._judge(context, provenance)
        if mode == "advise":
            decision = _advice(decision)
        if self.audit is not None:
            self.audit.write(decision)
        return decision

    def _judge(self, context: Context, provenance: bool) -> Decision:
        rules = self.policy.rules_for(context)
        findings = _findings(context)
        checkable = not any(f.check == "arguments" for f in findings)
        if checkable:
            findings += check_policy(context, rules)
        if provenance:
            findings = [
                f.model_copy(update={"runs": self.index.runs(f.node)}) if f.node is not None else f for f in findings
            ]
        decision = _decide(context, findings)
        if not checkable:
            return decision
        guards = policy_states(context, rules)
        if context.effect is Effect.WRITE:
            guards += guard_states(context, findings, provenance=provenance)
        return decision.model_copy(update={"guards": guards})

    def settle(
        self,
        call: ToolCall,
        live: Live,
        revise: Callable[[ToolCall, Decision], ToolCall | None],
        specs: Mapping[str, ToolSpec] | None = None,
        *,
        mode: Mode | None = None,
    ) -> Decision:
        """Judges a call and each revision of it, until one is allowed, blocked or handed over.

        Args:
            call: The call as first proposed.
            live: The history before it.
            revise: Makes the next proposal from the last one and its decision; None gives up. Whatever it returns is
                judged afresh, another tool by that tool's own conditions.
            specs: The caller's tools by name.
            mode: In place of the settings' mode.
        """
        decision = self.decide(call, live, specs, mode=mode)
        for revisions in range(1, self.settings.max_revisions + 1):
            if decision.verdict is not Verdict.REVISE:
                break
            proposed = revise(decision.call, decision)
            if proposed is None:
                break
            decision = self.decide(proposed, live, specs, revisions=revisions, mode=mode)
        return decision


def _findings(context: Context) -> list[Finding]:
    """Runs the checks in order; the first that stops the call ends them."""
    unreadable = check_arguments(context)
    if unreadable is not None:
        return [unreadable]
    writes = context.effect is Effect.WRITE
    checks: list[Callable[[Context], Finding | None]] = [check_known]
    if not context.hands_over:
        checks.append(check_budget)
    if writes:
        checks += [check_schema, check_lookalike]
    checks.append(check_repeated)
    if not context.hands_over:
        checks.append(check_loop)
    found: list[Finding] = []
    for check in checks:
        finding = check(context)
        if finding is None or finding.check in context.settings.without:
            continue
        found.append(finding)
        if finding.verdict is not Verdict.ALLOW:
            return found
    if not writes:
        return found
    order = None if "instructed" in context.settings.without else check_instructed(context)
    return found + ([order] if order else []) + check_rules(context)


def _decide(context: Context, findings: list[Finding]) -> Decision:
    verdict = max((f.verdict for f in findings), key=_SEVERITY.__getitem__, default=Verdict.ALLOW)
    held_before = fruitless_refusals(context) if verdict in (Verdict.REVISE, Verdict.BLOCK) else 0
    if _is_fruitless(context, verdict, held_before):
        findings, verdict = _give_up(context, findings, max(context.revisions, held_before))
    deciding = [f for f in findings if f.verdict is verdict]
    todo = next_steps(context, verdict, deciding)
    reason = "; ".join(dict.fromkeys(f.reason for f in deciding)) or "nothing in memory speaks against it"
    if held_before and verdict in (Verdict.REVISE, Verdict.BLOCK):
        reason = f"held back {held_before + 1} times now, and nothing that was asked for has been done: {reason}"
    answer = recorded_answer(context) if verdict is Verdict.ALLOW else None
    if answer is not None:
        reason = "the same call was answered before, and nothing has changed since"
    return Decision(
        verdict=verdict,
        reason=reason,
        todo=todo,
        allowed_tools=allowed_tools(context, verdict, todo),
        call=context.call,
        findings=tuple(findings),
        answer=answer,
    )


def _is_fruitless(context: Context, verdict: Verdict, held_before: int) -> bool:
    most = context.settings.max_revisions
    if verdict is Verdict.REVISE:
        return max(context.revisions, held_before) >= most
    return verdict is Verdict.BLOCK and held_before >= max(1, most)


def _give_up(context: Context, findings: list[Finding], times: int) -> tuple[list[Finding], Verdict]:
    """No more revisions: a person takes over, the call is blocked, or what memory alone asked for becomes a warning."""
    held = [f for f in findings if f.verdict is not Verdict.ALLOW]
    forgiving = context.settings.fruitless == "allow" and context.settings.unsatisfiable == "allow"
    if forgiving and all(f.verdict is Verdict.REVISE and f.check not in _FORMAL and not f.policy for f in held):
        verdict = Verdict.ALLOW
    elif context.settings.fruitless != "block" and context.handover:
        verdict = Verdict.TRANSFER
    else:
        verdict = Verdict.BLOCK
    changed = {"verdict": verdict, "todo": ()}
    findings = [f.model_copy(update=changed) if f in held else f for f in findings]
    if verdict is Verdict.ALLOW:
        return findings, verdict
    reason = f"{context.call.tool} was held back {times} times and nothing that was asked for has been done"
    return [Finding(check="fruitless", verdict=verdict, reason=reason), *findings], verdict


def _advice(decision: Decision) -> Decision:
    """The decision as advice: the call passes, and what would have been done stays to be read."""
    would = {} if decision.allowed else {"reason": f"{decision.verdict} if enforced: {decision.reason}"}
    passed = {"verdict": Verdict.ALLOW, "advised": decision.verdict, "mode": "advise"}
    return decision.model_copy(update=would | passed | {"allowed_tools": None, "answer": None})
