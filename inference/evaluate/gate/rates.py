"""Shares with bootstrap intervals over tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

RESAMPLES = 1_000


@dataclass(frozen=True)
class Rate:
    """A share with its bootstrap 95% interval over tasks; NaN where nothing was counted."""

    part: int
    whole: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share itself."""
        return self.part / self.whole if self.whole else float("nan")

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}] of {self.whole}" if self.whole else "-"

    def plain(self) -> dict[str, Any] | None:
        """As JSON values; null without cases."""
        return asdict(self) | {"value": self.value} if self.whole else None


def rate(items: Sequence[tuple[str, bool]], seed: int = 0) -> Rate:
    """Share of items that count, with a percentile interval over tasks drawn with replacement.

    Args:
        items: ``(task, counts)`` each.
        seed: Of the resampling.
    """
    if not items:
        return Rate(0, 0, float("nan"), float("nan"))
    whole = Counter(task for task, _ in items)
    part = Counter(task for task, counts in items if counts)
    tasks = sorted(whole)
    sums = resampled(np.array([[part[task], whole[task]] for task in tasks], dtype=np.float64), seed)
    low, high = np.percentile(sums[:, 0] / sums[:, 1], [2.5, 97.5])
    return Rate(part.total(), whole.total(), float(low), float(high))


def resampled(by_task: npt.NDArray[np.float64], seed: int = 0) -> npt.NDArray[np.float64]:
    """Sums over tasks drawn with replacement.

    Args:
        by_task: Tasks x columns.
        seed: Of the resampling.

    Returns:
        `RESAMPLES` x columns.
    """
    count = len(by_task)
    drawn = np.random.default_rng(seed).integers(count, size=(RESAMPLES, count))
    sums: npt.NDArray[np.float64] = by_task[drawn].sum(axis=1)
    return sums
