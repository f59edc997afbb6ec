"""Equivalence classes: experiences of one tool with the same ten scores (arXiv 2608.03403, "distillation")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fresh.expg.experience import ASPECTS, PERFECT, Experience, ScoreVector


class EquivalenceClass(NamedTuple):
    """Experiences that share a score vector, ordered by hash."""

    scores: ScoreVector
    members: tuple[Experience, ...]

    @property
    def perfect(self) -> bool:
        """No fault in any aspect."""
        return self.scores == PERFECT

    @property
    def faults(self) -> str:
        """Names of the aspects scored 0, or ``none``."""
        names = [aspect.value for aspect, score in zip(ASPECTS, self.scores, strict=True) if not score]
        return ", ".join(names) or "none"


def partition(experiences: Iterable[Experience]) -> list[EquivalenceClass]:
    """Classes by descending size, ties by score vector; the order of the input does not matter."""
    groups: dict[ScoreVector, list[Experience]] = {}
    for experience in experiences:
        groups.setdefault(experience.scores, []).append(experience)
    classes = [
        EquivalenceClass(scores, tuple(sorted(members, key=lambda e: (e.key, e.invocation.call))))
        for scores, members in groups.items()
    ]
    return sorted(classes, key=lambda c: (-len(c.members), c.scores))


def by_tool(experiences: Iterable[Experience]) -> dict[str, list[Experience]]:
    """Experiences by tool name, names in alphabetical order."""
    tools: dict[str, list[Experience]] = {}
    for experience in experiences:
        tools.setdefault(experience.tool, []).append(experience)
    return dict(sorted(tools.items()))
