"""What ExpG knows of a tool, ready to be given to an agent and to be written as plain JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, field_validator

BEST_PRACTICE_WORDS = 200
"""Most words of best practices (arXiv 2608.03403)."""


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Advice(_Plain):
    """The words of a guidance, as a summariser writes them."""

    core_function: str
    success_patterns: tuple[str, ...] = ()
    common_issues: tuple[str, ...] = ()
    best_practices: str = ""

    @field_validator("best_practices")
    @classmethod
    def _short(cls, text: str) -> str:
        return shorten(text)


class Constraint(_Plain):
    """What stable guidance writes into a tool's schema.

    Attributes:
        text: What calls must keep to, with the counts behind it.
        parameters: A note for each parameter concerned.
        required: Parameters that the schema leaves optional and that calls failed without.
        patterns: Form of a parameter's identifiers, as a regular expression.
    """

    text: str
    parameters: dict[str, str] = {}
    required: tuple[str, ...] = ()
    patterns: dict[str, str] = {}


class ToolGuidance(_Plain):
    """Guidance for one tool.

    Attributes:
        tool: Name of the tool.
        advice: Core function, success patterns, common issues and best practices.
        experiences: How many experiences stand behind it, after the filter.
        selected: How many of them the summariser read.
        classes: K.
        quota: Q.
        success_rate: Share of answers that were no error.
        mean_score: Mean over experiences and aspects, 0 to 1.
        mean_seconds: Mean time of a call; None when no trace recorded it.
        mean_tokens: Mean tokens of a call; None when no trace recorded it.
        stable: Whether it goes into the schema (stable) or into the description (dynamic).
        constraint: For the schema; None for dynamic guidance.
    """

    tool: str
    advice: Advice
    experiences: int
    selected: int
    classes: int
    quota: int
    success_rate: float
    mean_score: float
    mean_seconds: float | None = None
    mean_tokens: float | None = None
    stable: bool = False
    constraint: Constraint | None = None


def shorten(text: str, words: int = BEST_PRACTICE_WORDS) -> str:
    """At most so many words, cut after a whole sentence where there is one."""
    if len(text.split()) <= words:
        return text
    kept: list[str] = []
    for sentence in text.replace("\n", " \n").split(". "):
        if sum(len(s.split()) for s in kept) + len(sentence.split()) > words:
            break
        kept.append(sentence)
    if not kept:
        return " ".join(text.split()[:words])
    return ". ".join(kept).rstrip(". \n") + "."
