"""Settings of the closed loop with a real language model."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Arm(StrEnum):
    """What stands beside the executor in one pass over the tasks."""

    NONE = "none"
    """The executor alone."""
    NOTES = "bm25"
    """Action sequences of recorded runs with similar requests, recalled by BM25."""
    GUIDANCE = "guidance"
    """The memory's guidance for each step."""
    GATE = "gate"
    """The memory's gate in front of each call."""
    BOTH = "guidance+gate"

    @property
    def gated(self) -> bool:
        """Whether calls go through the gate."""
        return self in (Arm.GATE, Arm.BOTH)

    @property
    def guided(self) -> bool:
        """Whether the memory's guidance is shown."""
        return self in (Arm.GUIDANCE, Arm.BOTH)


class Protocol(StrEnum):
    """How the executor says what it does."""

    TOOLS = "tools"
    """Native tool calls."""
    JSON = "json"
    """One JSON object held to a schema, for models too small for native tool calls."""


class LoopSettings(BaseModel):
    """How runs are made and measured.

    Attributes:
        protocol: How the executor says what it does.
        max_steps: Answers of the executor in a run; a run that needs more is stuck.
        max_same: A run is stuck when it proposes the same action so many times with no new result in between.
        max_user_turns: Times the scripted or simulated user answers before giving up.
        max_tokens: Most tokens of one answer.
        guidance_tokens: Most tokens of the notes shown at a step, by `fresh.guidance.estimate_tokens`.
        run_reads: Reads that the gate asks for are made by the loop and handed over.
        handover_tool: A successful call of it ends the run.
        trials: Runs per task and arm.
        seed: Of the resampling.
        resamples: Bootstrap resamples of an interval.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: Protocol = Protocol.TOOLS
    max_steps: int = Field(default=12, ge=1)
    max_same: int = Field(default=3, ge=2)
    max_user_turns: int = Field(default=6, ge=1)
    max_tokens: int = Field(default=512, ge=1)
    guidance_tokens: int = Field(default=300, ge=0)
    run_reads: bool = True
    handover_tool: str = "transfer_to_human_agents"
    trials: int = Field(default=1, ge=1)
    seed: int = 0
    resamples: int = Field(default=2000, ge=1)
