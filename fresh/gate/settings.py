"""When the gate holds a call back."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class GateSettings(BaseModel):
    """Settings of the gate."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_support: int = Field(default=4, ge=1)
    """Verified uses in which a condition held, before its violation holds a call back."""
    min_tasks: int = Field(default=3, ge=1)
    """Different tasks among those uses. This is for requirements by their nature: a read of the object that the call
    names, a value that was said or seen."""
    min_tasks_mined: int = Field(default=15, ge=1)
    """As `min_tasks`, for conditions picked out of many possible ones because they fitted: some fit by chance."""
    min_necessity: float = Field(default=0.95, ge=0, le=1)
    """Share of verified uses in which it held, at least."""
    min_contrast: float = Field(default=0.1, ge=0, le=1)
    """How much more often it did not hold in failed than in verified uses, at least; for conditions on a field, on a
    mere earlier call and on the user's yes."""
    strong_contrast: float = Field(default=0.5, ge=0, le=1)
    """Contrast from which half of `min_tasks_mined` suffices: few conditions tell failures apart so well by chance."""
    max_false_holds: float = Field(default=0.05, ge=0, le=1)
    """Share of a tool's verified uses that all its enforced conditions together may have held back in training. The
    conditions that catch most are taken first; their shares are added up, which bounds the joint share from above."""
    retry_budget: int = Field(default=3, ge=1)
    """Identical failed attempts after which the case goes to a person, if the tools have a handover."""
    max_revisions: int = Field(default=3, ge=0)
    """Revisions of one step after which the gate asks for no more."""
    unsatisfiable: Literal["allow", "transfer"] = "allow"
    """What happens to a call whose revision was tried in vain: it passes with a warning, or a person takes over."""
    unknown_tool: Literal["check", "block", "allow"] = "check"
    """What happens to a write that the caller offers and the memory has never seen: it must meet what any write must
    by its form (its object looked at, its identifiers said or seen, the user's yes where the memory's writes need it),
    it is blocked, or it passes with a warning."""
    ask_confirmation: bool = True
    """Whether a missing confirmation of the user holds a write back."""
