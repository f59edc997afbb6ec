"""How much guidance is given, and what the next step is chosen by."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class GuidanceSettings(BaseModel):
    """Settings of the guidance."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    token_budget: int = Field(default=300, ge=0)
    """Most tokens of a block, by `estimate_tokens`."""
    max_do: int = Field(default=2, ge=0)
    max_avoid: int = Field(default=8, ge=0)
    max_errors: int = Field(default=3, ge=0)
    """Most errors of one tool that are warned of."""
    max_check: int = Field(default=3, ge=0)
    max_repair: int = Field(default=2, ge=0)
    min_success_rate: float = Field(default=0.5, ge=0, le=1)
    """Smoothed success rate of a tool, below which it is never proposed, unless a recorded solution has it."""
    min_share: float = Field(default=0.1, ge=0, le=1)
    """Score of a next tool relative to the best one, below which it is not proposed."""
    min_error_runs: int = Field(default=1, ge=1)
    """Runs that must have shown an error, before it is warned of."""
    min_error_chance: float = Field(default=0.01, ge=0, le=1)
    """Estimated chance that the run makes an error yet, from which it is warned of."""
    confirmed_boost: float = Field(default=3.0, ge=1)
    """How much likelier a write is once the user has said yes."""
    min_chance: float = Field(default=0.1, ge=0, le=1)
    """Estimated chance that a tool is still needed, below which it is never named."""
    min_habit: float = Field(default=0.8, ge=0, le=1)
    """Share of good runs that call a tool yet, from which it may be the next step although no solution lists it."""
    max_then: int = Field(default=5, ge=0)
    """Most tools named as still to come."""
    similar_tasks: int = Field(default=20, ge=0)
    """Recorded tasks nearest to the request, which vote for the next tool and for what is still to come."""
    task_weight: float = Field(default=0.3, ge=0)
    """Weight of what good runs of similar tasks did next."""
    order_weight: float = Field(default=0.3, ge=0)
    """Weight of what followed the last actions in good runs."""
    ranker_weight: float = Field(default=0.4, ge=0)
    """Weight of the ranker's score of the tool's actions."""
    likeness_power: float = Field(default=4.0, ge=0)
    """How sharply the vote of a task falls with its likeness to the request, relative to the most alike."""
    prior_strength: float = Field(default=1.0, ge=0)
    """Votes that a tool's overall share counts as."""
    request_weight: float = 0.5
    """What the best match of the request with a tool's actions adds to the log odds of the tool."""
    rank_weight: float = 0.4
    """What the best rank among a tool's actions adds to the log odds."""
    verb_weight: float = 1.5
    """What the request adds to the log odds of a write by naming the verb that says what it does."""
    name_weight: float = 0.5
    """What a name whose every word the request holds adds to the log odds of its tool; counted from the mean share."""
    outlook_bias: float = -0.3
    """Added to all log odds: `request_weight` and `rank_weight` count from the best tool, and most are not it."""
