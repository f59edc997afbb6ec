"""Mined rules as policies of `invariant-ai`, a rule engine for agents' traces: a peer for the gate.

Two kinds of what the gate enforces can be written in its policy language and are: a read that must have come before
with the same identifier, and an identical call that has failed with no successful write since. Consent, grounding, and
conditions on an observed object's fields need functions that the language has not, and are left out. The policies are
evaluated in this process; the package's own default sends them to its maker's service.

The package: https://github.com/invariantlabs-ai/invariant (Apache-2.0).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fresh.conditions import CalledBefore, ReadBefore
from fresh.gate import Decision, Finding, Gate, GateSettings, Verdict
from fresh.history import History
from fresh.knowledge import Rule, ToolIndex
from fresh.live import Live
from graph_schema.errors import MissingExtraError
from graph_schema.trajectory import CallStatus, Effect, Role, ToolCall, ToolSpec

_ARGUMENT = re.compile(r"(?P<name>\w+)(?P<many>\[\])?(?:\.(?P<field>\w+))?", re.ASCII)
_NAME = re.compile(r"[\w.:/ -]+", re.ASCII)
_MOST_STEPS = "INVARIANT_MAX_ITERATIONS"
"""The engine gives up after 100 assignments of variables unless this says otherwise; a long history needs more."""
_REPEATED = "repeated"

_HEAD = "from invariant import PolicyViolation, count\n"


class InvariantGate:
    """Judges calls by the mined rules that the policy language can express.

    Only `decide` and `index` of :class:`fresh.gate.Gate` are there, enough for `inference.evaluate.gate.judge_runs`.
    A verdict is Allow or Revise, without anything to do first: the engine says which rule is broken and no more.

    Args:
        index: Tools of the memory.
        settings: Which mined rules are enforced, as for the gate.

    Raises:
        MissingExtraError: `invariant-ai` is not installed.
    """

    def __init__(self, index: ToolIndex, settings: GateSettings | None = None) -> None:
        try:
            from invariant.analyzer import LocalPolicy
        except ImportError as error:
            raise MissingExtraError("invariant-ai", "bench-gate") from error
        os.environ.setdefault(_MOST_STEPS, str(10**9))
        self.index = index
        self._gate = Gate(index, settings)
        self._engine = LocalPolicy
        self._policies: dict[str, Any] = {}
        self._writes = sorted(n for n in index.names if _NAME.fullmatch(n) and index.effect(n) is Effect.WRITE)

    def source(self, tool: str) -> str:
        """The policy that calls of a tool are judged by, in the engine's language; empty where nothing can be said."""
        if not _NAME.fullmatch(tool):
            return ""
        rules = [text for rule in self._gate.rules(tool) if (text := _policy_of(tool, rule))]
        if tool in self._writes:
            rules.append(_repetition(tool, self._writes))
        return "\n".join([_HEAD, *rules]) if rules else ""

    def left_out(self, tool: str) -> tuple[Rule, ...]:
        """The enforced rules of a tool that the policy language cannot express."""
        return tuple(rule for rule in self._gate.rules(tool) if not _policy_of(tool, rule))

    def prepare(self) -> None:
        """Compiles the policies of all known tools now; else each is compiled at its tool's first call, for seconds."""
        for tool in self.index.names:
            self._policy(tool)

    def decide(
        self,
        call: ToolCall,
        live: Live,
        specs: Mapping[str, ToolSpec] | None = None,
        *,
        revisions: int = 0,
        provenance: bool = False,
    ) -> Decision:
        """Judges one call; takes what :meth:`fresh.gate.Gate.decide` takes and uses the call and the history alone."""
        findings = tuple(self._findings(call, live))
        verdict = Verdict.REVISE if findings else Verdict.ALLOW
        reason = "; ".join(finding.reason for finding in findings) or "no policy is violated"
        return Decision(verdict=verdict, reason=reason, call=call, findings=findings)

    def _findings(self, call: ToolCall, live: Live) -> Iterator[Finding]:
        if call.arguments is None:
            yield Finding(check="arguments", verdict=Verdict.REVISE, reason=f"{call.tool}: arguments are not an object")
            return
        policy = self._policy(call.tool)
        if policy is None:
            return
        found = policy.analyze_pending(_events(live.history), [_call_event([call], "pending")])
        # A rule over a list is broken once for each value; one finding says it.
        for kind, node in sorted({tuple(error.args) for error in found.errors}):
            reason = f"a repetition of a failed {call.tool}"
            if kind != _REPEATED:
                condition = next(r.condition for r in self._gate.rules(call.tool) if r.node == node)
                reason = f"not so: {condition.text(call.tool)}"
            known = node if kind != _REPEATED else None
            yield Finding(check=kind, verdict=Verdict.REVISE, reason=reason, node=known)

    def _policy(self, tool: str) -> Any:
        if tool not in self._policies:
            source = self.source(tool)
            self._policies[tool] = self._engine.from_string(source) if source else None
        return self._policies[tool]


def _policy_of(tool: str, rule: Rule) -> str:
    """A rule in the policy language; empty where the language has no words for it."""
    condition = rule.condition
    if not isinstance(condition, ReadBefore | CalledBefore) or not _NAME.fullmatch(condition.tool):
        return ""
    body = [f"call.function.name == {json.dumps(tool)}"]
    unless = [
        "(output: ToolOutput)",
        "output -> call",
        'output.metadata["is_error"] == False',
        f"tool_call(output).function.name == {json.dumps(condition.tool)}",
    ]
    if isinstance(condition, ReadBefore):
        place = _ARGUMENT.fullmatch(condition.argument)
        if place is None or not _NAME.fullmatch(condition.parameter):
            return ""
        value, bound = _argument(**place.groupdict())
        given, parameter = "tool_call(output).function.arguments", json.dumps(condition.parameter)
        body += bound
        unless += [f"{parameter} in {given}", f"{given}[{parameter}] == {value}"]
    return _rule(condition.kind, rule.node, body, unless)


def _argument(name: str, many: str | None, field: str | None) -> tuple[str, list[str]]:
    """Expression for an argument's value, and the lines that bind its parts."""
    whole = f"call.function.arguments[{json.dumps(name)}]"
    bound = [f"{json.dumps(name)} in call.function.arguments"]
    if many and field:
        return f"part[{json.dumps(field)}]", [*bound, f"(part: dict) in {whole}", f"{json.dumps(field)} in part"]
    if many:
        return "part", [*bound, f"(part: str) in {whole}"]
    if field:
        return f"{whole}[{json.dumps(field)}]", [*bound, f"{json.dumps(field)} in {whole}"]
    return whole, bound


def _repetition(tool: str, writes: list[str]) -> str:
    return _rule(
        _REPEATED,
        -1,
        [
            f"call.function.name == {json.dumps(tool)}",
            "(failed: ToolOutput)",
            "failed -> call",
            'failed.metadata["is_error"] == True',
            f"tool_call(failed).function.name == {json.dumps(tool)}",
            "tool_call(failed).function.arguments == call.function.arguments",
        ],
        [
            "(change: ToolOutput)",
            "failed -> change",
            "change -> call",
            'change.metadata["is_error"] == False',
            f"tool_call(change).function.name in {json.dumps(writes)}",
        ],
    )


def _rule(kind: str, node: int, body: list[str], unless: list[str]) -> str:
    """A rule that is broken by a call that meets ``body`` where nothing before it meets ``unless``."""
    lines = [f'raise PolicyViolation("{kind}", {node}, call=call) if:', "    (call: ToolCall)"]
    lines += [f"    {line}" for line in body]
    lines += ["    not count(min=1):", *(f"        {line}" for line in unless)]
    return "\n".join(lines) + "\n"


def _events(history: History) -> list[dict[str, Any]]:
    """A history as the engine reads it: messages, calls and their results, the errors among them marked."""
    events: list[dict[str, Any]] = []
    for number, turn in enumerate(history.turns):
        if turn.role is Role.USER or (turn.text and not turn.calls):
            events.append({"role": "user" if turn.role is Role.USER else "assistant", "content": turn.text})
        own = [call for call in turn.calls if not call.by_user and call.arguments is not None]
        if not own:
            continue
        events.append(_call_event(own, f"{number}"))
        events += [_result_event(call, f"{number}.{i}") for i, call in enumerate(own) if call.observation]
    return events


def _call_event(calls: list[ToolCall], prefix: str) -> dict[str, Any]:
    made = [
        {"id": f"{prefix}.{i}", "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}
        for i, call in enumerate(calls)
    ]
    return {"role": "assistant", "content": "", "tool_calls": made}


def _result_event(call: ToolCall, name: str) -> dict[str, Any]:
    text = call.observation.text if call.observation else ""
    failed = call.status is CallStatus.ERROR
    return {"role": "tool", "tool_call_id": name, "content": text, "metadata": {"is_error": failed}}
