"""What the gate answers: a verdict, the reason, what to do first, and what every guard says on this history."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from graph_schema.trajectory import ToolCall

REFUSAL = "Error: this call was not executed. "
"""Begins every refusal that goes back to the agent, so that a later decision knows it was no answer of the tool."""

Mode = Literal["enforce", "advise", "off"]
"""``enforce`` holds calls back; ``advise`` lets every call pass and says what it would have done; ``off`` looks at
nothing."""


class Verdict(StrEnum):
    """The gate's four answers, mildest first."""

    ALLOW = "allow"
    """Execute the call as it stands."""
    REVISE = "revise"
    """Do what `Decision.todo` names, then propose the call again."""
    BLOCK = "block"
    """Do not execute the call; no revision of it is in sight."""
    TRANSFER = "transfer"
    """Hand the case to a person."""


class State(StrEnum):
    """What a guard says on a history."""

    SATISFIED = "satisfied"
    VIOLATED = "violated"
    UNKNOWN = "unknown"
    """It cannot be told: the argument is absent, or the object has not been seen."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Todo(_Frozen):
    """One thing to do before the call is proposed again."""

    kind: Literal["call", "ask_user", "correct_argument"]
    """``call``: make this call. ``ask_user``: say ``text`` and wait. ``correct_argument``: replace ``argument``."""
    tool: str = ""
    """For ``call``, the tool; for the others, the tool of the call that was held back."""
    arguments: dict[str, Any] = {}
    """For ``call``, its arguments, from the live history alone; for ``correct_argument``, the arguments of the
    corrected call where each wrong value has one candidate, else empty."""
    text: str = ""
    """One sentence for a model or a person."""
    argument: str = ""
    """For ``correct_argument``, the argument's path in the call, such as ``order_id`` or ``item_ids[]``."""
    value: Any = None
    """For ``correct_argument``, the value that is wrong; None where it is missing."""
    candidates: tuple[Any, ...] = ()
    """For ``correct_argument``, values of the live history that could stand there, best first; may be empty."""
    source: str = ""
    """For ``correct_argument``, where the right value usually comes from."""


class Finding(_Frozen):
    """One check that did not pass."""

    check: str
    """``arguments``, ``unknown_tool``, ``schema``, ``lookalike``, ``repeated``, ``loop``, ``writes``, ``steps``,
    ``repeats``, ``fruitless`` or the kind of a condition."""
    verdict: Verdict
    """What this finding alone leads to; ALLOW for a mere warning."""
    reason: str
    todo: tuple[Todo, ...] = ()
    confidence: float = 1.0
    """How sure the gate is: for a condition, the smoothed share of verified uses in which it held."""
    node: int | None = None
    """The Precondition, Repair or Error node behind it."""
    runs: tuple[str, ...] = ()
    """Runs behind the node, if asked for."""
    policy: str = ""
    """For a rule written by hand, where it stands: ``policy.yaml, rule 2``."""


class Evidence(_Frozen):
    """What in the live history speaks for a guard's state."""

    turn: int
    """Index of the turn; messages that are tool results belong to the turn of their call."""
    call: str = ""
    """Id of the call, ``run/turn/position``; empty where somebody spoke."""
    text: str
    """``get_order: order_id`` or ``the user said #W12``, on one line."""


class GuardState(_Frozen):
    """A guard of the tool, and what it says on this history."""

    check: str
    """Kind of the condition."""
    state: State
    text: str
    """The condition in words."""
    support: int = 0
    """Verified uses in which it held; 0 for a rule written by hand or one that holds by a call's form."""
    confidence: float = 1.0
    """Smoothed share of verified uses in which it held; 1 for a rule written by hand."""
    node: int | None = None
    """Its Precondition node."""
    policy: str = ""
    """For a rule written by hand, where it stands."""
    evidence: tuple[Evidence, ...] = ()
    """Where in this history it shows; empty where nothing does."""
    runs: tuple[str, ...] = ()
    """Runs behind it, the first few, if asked for."""

    def line(self) -> str:
        """The guard, its evidence in this history, and the runs behind it, on one line."""
        mined = f"support {self.support}, confidence {self.confidence:.2f}" if self.support else "by form"
        seen = "; ".join(f"turn {e.turn}{f' ({e.call})' if e.call else ''}: {e.text}" for e in self.evidence)
        runs = f"; first runs {', '.join(self.runs)}" if self.runs else ""
        return f"{self.state:<9} {self.text} [{self.policy or mined}]; here: {seen or 'nothing'}{runs}"


class Decision(_Frozen):
    """The gate's answer to one call."""

    verdict: Verdict
    reason: str
    """Why, in one line; for an allowed call, its warnings if any."""
    todo: tuple[Todo, ...] = ()
    """For REVISE what to do first, in order; for TRANSFER the handover call if there is one."""
    allowed_tools: tuple[str, ...] | None = None
    """Tools that the next step may use, for narrowing what the agent is offered; None restricts nothing, an empty
    tuple leaves words alone. After REVISE the refused tool is among them only where the call itself is to be
    corrected."""
    call: ToolCall
    """The call that was decided on."""
    findings: tuple[Finding, ...] = ()
    """Every check that did not pass, warnings included."""
    guards: tuple[GuardState, ...] = ()
    """Every guard enforced on the tool, mined or written by hand, and what it says on this history."""
    answer: str | None = None
    """For an allowed read that was answered before, the recorded result: hand it over instead of executing again."""
    mode: Mode = "enforce"
    advised: Verdict | None = None
    """In mode ``advise``, the verdict that ``enforce`` would have given."""

    @property
    def allowed(self) -> bool:
        """Whether the call may be executed."""
        return self.verdict is Verdict.ALLOW

    @property
    def executed_call(self) -> ToolCall | None:
        """The call to execute: the one decided on if it is allowed, else None."""
        return self.call if self.allowed else None

    @property
    def question(self) -> str:
        """What to ask the user now; empty while there is something else to do first."""
        asks = [item.text for item in self.todo if item.kind == "ask_user"]
        return " ".join(asks) if self.verdict is Verdict.REVISE and len(asks) == len(self.todo) else ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons that did not hold the call back."""
        return tuple(finding.reason for finding in self.findings if finding.verdict is Verdict.ALLOW)

    def message(self) -> str:
        """What to tell the agent in place of the tool's result; empty for a call to be executed."""
        if self.allowed:
            return self.answer or ""
        steps = [item.text for item in self.todo if item.text]
        listed = "".join(f"\n{number}. {text}" for number, text in enumerate(steps, 1))
        return f"{REFUSAL}{self.reason}" + (f"\nFirst:{listed}" if listed else "")

    def tool_message(self, call_id: str | None = None) -> dict[str, Any]:
        """The refusal, or the recorded answer, as an OpenAI ``tool`` message that answers the call.

        Raises:
            ValueError: The call is to be executed: its answer comes from the tool.
        """
        if self.allowed and self.answer is None:
            raise ValueError("the call is allowed: execute it and answer with the tool's own result")
        return {
            "role": "tool",
            "tool_call_id": call_id or self.call.recorded_id or self.call.id,
            "name": self.call.tool,
            "content": self.message(),
        }

    def explain(self) -> list[str]:
        """The verdict, what led to it, and every guard with its evidence here and the runs behind it, line by line."""
        would = f" (advice: {self.advised})" if self.advised not in (None, self.verdict) else ""
        lines = [f"{self.verdict}{would} {self.call.tool}: {self.reason}"]
        lines += [
            f"{finding.verdict:<9} {finding.check}: {finding.reason}"
            + (f" [{finding.policy}]" if finding.policy else "")
            + (f"; runs {', '.join(finding.runs)}" if finding.runs else "")
            for finding in self.findings
        ]
        return lines + [guard.line() for guard in self.guards]
