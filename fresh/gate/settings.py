"""When the gate holds a call back."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fresh.gate.decision import Mode


class GateSettings(BaseModel):
    """Settings of the gate."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Mode = "enforce"
    """Whether the gate holds calls back, only says what it would have done, or looks at nothing."""
    max_false_block: float = Field(default=0.01, ge=0, le=1)
    """Share of right writes that the enforced conditions together may hold back, as measured while mining on tasks
    that they were not mined from."""
    min_score: float = Field(default=0.8, ge=0, le=1)
    """Score from which on a condition is enforced: wrong writes must break it four times as often as right ones."""
    min_support: int = Field(default=2, ge=1)
    """Verified uses in which a condition held, before its violation holds a call back."""
    min_tasks: int = Field(default=3, ge=1)
    """Different tasks with verified uses from which on a memory is trusted to know what a tool needs; with fewer, a
    write must meet what any write must by its form too."""
    retry_budget: int = Field(default=3, ge=1)
    """Identical failed attempts after which the case goes to a person, if the tools have a handover."""
    max_revisions: int = Field(default=3, ge=0)
    """Fruitless revisions of one step after which the gate asks for no more: those that the caller counts, and the
    refusals of a tool in the history since the last progress, whichever is more. Progress is a new successful call
    that a refusal asked for, or a new word of the user."""
    fruitless: Literal["transfer", "block", "allow"] = "transfer"
    """What happens then: a person takes over (without a handover, the call is blocked), the call is blocked, or what
    memory alone asked for passes with a warning."""
    unsatisfiable: Literal["allow", "transfer"] = "allow"
    """What happens to a call that breaks a condition of the memory which nothing in reach can mend: it passes with a
    warning, or a person takes over."""
    answer_repeats: bool = True
    """Whether a read that succeeded before is answered with its recorded result, if since then nothing was written
    and the user said nothing."""
    max_loops: int | None = Field(default=3, ge=2)
    """Times that the same calls may follow each other with the same results before the next of them is held back."""
    max_writes: int | None = Field(default=None, ge=0)
    """Successful writes of a run; None for no limit."""
    max_steps: int | None = Field(default=None, ge=0)
    """Calls of a run, executed or not; None for no limit. A handover is always free."""
    max_repeats: int | None = Field(default=None, ge=0)
    """Calls of a run that repeated an earlier one to the letter; None for no limit."""
    unknown_tool: Literal["check", "block", "allow"] = "check"
    """What happens to a write that the memory has never seen, if the caller offers it or does not say what is offered
    (else it is blocked): it must meet what any write must
    by its form (its object looked at, its identifiers said or seen, the user's yes where the memory's writes need it),
    it is blocked, or it passes with a warning."""
    ask_confirmation: bool = True
    """Whether a missing confirmation of the user holds a write back."""
    without: frozenset[str] = frozenset()
    """Checks left out, by the name that a finding bears (`Finding.check`): to measure what each is worth."""
