"""Equivalence-class statistics of a tool or an action: numbers for people, and node features (e_stat)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fresh.expg.experience import ASPECTS, PERFECT, Experience, ScoreVector
from fresh.expg.select import DEFAULT_BUDGET, quota

FEATURE_NAMES: tuple[str, ...] = (
    "experiences_log1p",
    "perfect_share",
    "largest_other_share",
    "class_entropy",
    *(f"mean_{aspect.value}" for aspect in ASPECTS),
    "seconds_log1p",
    "seconds_missing",
    "tokens_log1p",
    "tokens_missing",
    "stable",
)
"""Names of the entries of :meth:`ClassStatistics.vector`, in order."""


@dataclass(frozen=True)
class ClassStatistics:
    """What the equivalence classes of some experiences look like.

    Attributes:
        experiences: |E|.
        classes: K, the number of different score vectors.
        perfect_share: Share of the class with ten ones.
        largest_other_share: Share of the largest class other than the perfect one.
        largest_other: Its score vector; None when there is none.
        entropy: Class entropy in nats over log K, 0 to 1; 0 for a single class.
        aspect_means: Mean score of each aspect, what is undecided counted as 1.
        success_rate: Share of answers that were no error; None without experiences.
        mean_seconds: Over the calls that recorded it; None when none did.
        mean_tokens: Over the calls that recorded it; None when none did.
        quota: Q, from the experiences' lengths and the token budget.
        stable: Whether guidance from them is stable (:func:`is_stable`); a single experience, which is skipped, is not.
    """

    experiences: int
    classes: int
    perfect_share: float
    largest_other_share: float
    largest_other: ScoreVector | None
    entropy: float
    aspect_means: tuple[float, ...]
    success_rate: float | None
    mean_seconds: float | None
    mean_tokens: float | None
    quota: int
    stable: bool

    @property
    def mean_score(self) -> float | None:
        """Mean over all aspects and experiences, 0 to 1; None without experiences."""
        return sum(self.aspect_means) / len(self.aspect_means) if self.experiences else None

    def vector(self) -> list[float]:
        """The features named by :data:`FEATURE_NAMES`, all finite; zeros where there is nothing to tell."""
        return [
            math.log1p(self.experiences),
            self.perfect_share,
            self.largest_other_share,
            self.entropy,
            *self.aspect_means,
            math.log1p(self.mean_seconds or 0.0),
            float(self.mean_seconds is None),
            math.log1p(self.mean_tokens or 0.0),
            float(self.mean_tokens is None),
            float(self.stable),
        ]


def class_statistics(
    experiences: Sequence[Experience], *, budget: int = DEFAULT_BUDGET, alpha: float | None = None
) -> ClassStatistics:
    """Statistics of the experiences of one tool or action; their order does not matter.

    Only what the calls and their use afterwards show enters; no outcome of a run does.

    Args:
        experiences: The experiences, repeats removed or not as the caller likes.
        budget: B in tokens, which gives Q.
        alpha: Threshold of :func:`is_stable`; None for K/Q.
    """
    sizes = Counter(e.scores for e in experiences)
    q = quota((e.tokens for e in experiences), budget)
    columns = list(zip(*(e.scores for e in experiences), strict=True))
    return summarise_sizes(
        sizes,
        aspect_sums=[sum(column) for column in columns] if columns else [0] * len(ASPECTS),
        successes=sum(e.invocation.success for e in experiences),
        seconds=[e.invocation.seconds for e in experiences if e.invocation.seconds is not None],
        tokens=[float(e.invocation.tokens) for e in experiences if e.invocation.tokens is not None],
        q=q,
        alpha=alpha,
    )


def summarise_sizes(
    sizes: Counter[ScoreVector],
    *,
    aspect_sums: Sequence[int],
    successes: int,
    seconds: Sequence[float],
    tokens: Sequence[float],
    q: int,
    alpha: float | None,
) -> ClassStatistics:
    """Statistics from counts, for a caller that keeps counts instead of experiences."""
    total = sizes.total()
    others = {scores: n for scores, n in sizes.items() if scores != PERFECT and n > 0}
    largest = min(others, key=lambda scores: (-others[scores], scores)) if others else None
    return ClassStatistics(
        experiences=total,
        classes=len(sizes),
        perfect_share=sizes[PERFECT] / total if total else 0.0,
        largest_other_share=others[largest] / total if largest else 0.0,
        largest_other=largest,
        entropy=_entropy(sizes),
        aspect_means=tuple(s / total if total else 0.0 for s in aspect_sums),
        success_rate=successes / total if total else None,
        mean_seconds=_mean(seconds),
        mean_tokens=_mean(tokens),
        quota=q,
        stable=total > 1 and is_stable(sizes, q, alpha),
    )


def is_stable(sizes: Counter[ScoreVector], q: int, alpha: float | None = None) -> bool:
    """Whether one way of failing is so common that it deserves a constraint in the tool's schema.

    Stable if ``|E| >= Q/2`` and the largest class other than the perfect one holds at least ``alpha |E|``.

    Args:
        sizes: Size of each class by its score vector.
        q: Q.
        alpha: None for K/Q, as the paper defines it; its runs used 0.8.
    """
    total = sizes.total()
    largest = max((n for scores, n in sizes.items() if scores != PERFECT), default=0)
    if total == 0 or q <= 0 or largest == 0 or 2 * total < q:
        return False
    threshold = Fraction(sum(n > 0 for n in sizes.values()), q) if alpha is None else Fraction(str(alpha))
    return largest >= threshold * total


def _entropy(sizes: Counter[ScoreVector]) -> float:
    counts = sorted(n for n in sizes.values() if n > 0)  # sorted: the same sum whatever the order of input
    if len(counts) < 2:
        return 0.0
    total = sum(counts)
    return -math.fsum(n / total * math.log(n / total) for n in counts) / math.log(len(counts))


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
