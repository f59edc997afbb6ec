"""Distillation: from the experiences of a tool to its guidance (arXiv 2608.03403).

Repeats, the outdated and the ineffective are filtered out, Algorithm 1 selects what is read, a summariser puts it
into words, and the class statistics decide whether the result is stable or dynamic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from pydantic import BaseModel

from fresh.expg.classes import by_tool
from fresh.expg.evidence import Evidence
from fresh.expg.experience import Experience, canonical
from fresh.expg.extract import ExtractiveSummariser, constrain
from fresh.expg.filter import FilterReport, filter_experiences
from fresh.expg.guidance import Advice, ToolGuidance
from fresh.expg.select import DEFAULT_BUDGET, Amount, select_experiences
from fresh.expg.stats import class_statistics
from graph_schema.trajectory import ToolSpec


class Summariser(Protocol):
    """Puts the evidence on one tool into words."""

    def summarise(self, evidence: Evidence) -> Advice:
        """Returns core function, success patterns, common issues and best practices."""
        ...


class DistilSettings(BaseModel):
    """How experiences are distilled.

    Attributes:
        budget: B, tokens of experience that one summary reads.
        alpha: Threshold of stability; None for K/Q.
        seed: Of the drawing within classes.
        max_age: Drop experiences older than this before the tool's newest, in the unit of their times.
        effectiveness: Apply the effectiveness check.
    """

    budget: int = DEFAULT_BUDGET
    alpha: float | None = None
    seed: int = 0
    max_age: float | None = None
    effectiveness: bool = True


class Distilled(BaseModel):
    """Guidance by tool, and what happened to the experiences on the way."""

    guidance: dict[str, ToolGuidance]
    skipped: list[str]
    """Tools with a single experience."""
    filtered: dict[str, FilterReport]


def distil(
    experiences: Iterable[Experience],
    summariser: Summariser | None = None,
    settings: DistilSettings | None = None,
    progress: Callable[[str], None] | None = None,
) -> Distilled:
    """Distils guidance for each tool that has two experiences or more.

    Args:
        experiences: Experiences of any tools, in any order.
        summariser: Default :class:`ExtractiveSummariser`.
        settings: Budget, threshold and filter.
        progress: Called with a tool's name when it is done.

    Raises:
        EvaluatorError: A model-backed summariser failed for good.
    """
    summariser = summariser or ExtractiveSummariser()
    settings = settings or DistilSettings()
    done = Distilled(guidance={}, skipped=[], filtered={})
    for tool, found in by_tool(experiences).items():
        evidence, done.filtered[tool] = gather(found, settings)
        if evidence.selection.amount is Amount.ONE:
            done.skipped.append(tool)
        else:
            done.guidance[tool] = _guidance(evidence, summariser.summarise(evidence))
        if progress is not None:
            progress(tool)
    return done


def gather(experiences: Iterable[Experience], settings: DistilSettings) -> tuple[Evidence, FilterReport]:
    """Filters and selects the experiences of one tool."""
    kept, report = filter_experiences(experiences, max_age=settings.max_age, effectiveness=settings.effectiveness)
    selection = select_experiences(kept, budget=settings.budget, seed=settings.seed)
    statistics = class_statistics(kept, budget=settings.budget, alpha=settings.alpha)
    return Evidence(_best_spec(kept), selection, kept, statistics), report


def _best_spec(experiences: Sequence[Experience]) -> ToolSpec:
    """The description most calls had, one with parameters before one without; ties by its JSON."""
    by_identity = Counter(id(e.invocation.tool) for e in experiences)
    specs = {id(e.invocation.tool): e.invocation.tool for e in experiences}
    counts: Counter[str] = Counter()
    for identity, count in by_identity.items():
        counts[canonical(specs[identity].model_dump(mode="json"))] += count
    equal = {canonical(spec.model_dump(mode="json")): spec for spec in specs.values()}
    return equal[min(counts, key=lambda text: (not equal[text].parameters, -counts[text], text))]


def _guidance(evidence: Evidence, advice: Advice) -> ToolGuidance:
    statistics = evidence.statistics
    return ToolGuidance(
        tool=evidence.spec.name,
        advice=advice,
        experiences=statistics.experiences,
        selected=len(evidence.selection.experiences),
        classes=statistics.classes,
        quota=statistics.quota,
        success_rate=round(statistics.success_rate or 0.0, 4),
        mean_score=round(statistics.mean_score or 0.0, 4),
        mean_seconds=None if statistics.mean_seconds is None else round(statistics.mean_seconds, 3),
        mean_tokens=None if statistics.mean_tokens is None else round(statistics.mean_tokens, 1),
        stable=statistics.stable,
        constraint=constrain(evidence, advice) if statistics.stable else None,
    )
