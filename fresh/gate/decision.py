"""What the gate answers: a verdict, the reason, and what to do first."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from graph_schema.trajectory import ToolCall

REFUSAL = "Error: this call was not executed. "
"""Begins every refusal that goes back to the agent, so that a later decision knows it was no answer of the tool."""


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


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Todo(_Frozen):
    """One thing to do before the call is proposed again."""

    kind: Literal["call", "ask_user", "correct_argument"]
    """``call``: make this call. ``ask_user``: say ``text`` and wait. ``correct_argument``: replace ``argument``."""
    tool: str = ""
    """For ``call``, the tool; for the others, the tool of the call that was held back."""
    arguments: dict[str, Any] = {}
    """For ``call``, its arguments, from the live history alone."""
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
    """``arguments``, ``unknown_tool``, ``schema``, ``repeated`` or the kind of a condition."""
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


class Decision(_Frozen):
    """The gate's answer to one call."""

    verdict: Verdict
    reason: str
    """Why, in one line; for an allowed call, its warnings if any."""
    todo: tuple[Todo, ...] = ()
    """For REVISE what to do first, in order; for TRANSFER the handover call if there is one."""
    next_tools: tuple[str, ...] = ()
    """Tools that the next step may use; empty means no restriction."""
    call: ToolCall
    """The call that was decided on."""
    findings: tuple[Finding, ...] = ()
    """Every check that did not pass, warnings included."""

    @property
    def allowed(self) -> bool:
        """Whether the call may be executed."""
        return self.verdict is Verdict.ALLOW

    @property
    def executed_call(self) -> ToolCall | None:
        """The call to execute: the one decided on if it is allowed, else None."""
        return self.call if self.allowed else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons that did not hold the call back."""
        return tuple(finding.reason for finding in self.findings if finding.verdict is Verdict.ALLOW)

    def message(self) -> str:
        """What to tell the agent in place of the tool's result; empty for an allowed call."""
        if self.allowed:
            return ""
        steps = [item.text for item in self.todo if item.text]
        listed = "".join(f"\n{number}. {text}" for number, text in enumerate(steps, 1))
        return f"{REFUSAL}{self.reason}" + (f"\nFirst:{listed}" if listed else "")

    def tool_message(self, call_id: str | None = None) -> dict[str, Any]:
        """The refusal as an OpenAI ``tool`` message that answers the call.

        Raises:
            ValueError: The call is allowed: its answer comes from the tool.
        """
        if self.allowed:
            raise ValueError("the call is allowed: execute it and answer with the tool's own result")
        return {
            "role": "tool",
            "tool_call_id": call_id or self.call.recorded_id or self.call.id,
            "name": self.call.tool,
            "content": self.message(),
        }
