"""Every measure with its bootstrap interval over tasks, and paired differences, from the sums that tasks add.

All measures are functions of sums over tasks, so one resampling of the tasks serves them all, and both sides of a
difference see the same tasks. Tasks of one group (a customer's) are drawn together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fresh.retrieval.metrics import Estimate
from inference.compare.measures import RunScore

RESAMPLES = 2_000
LEVEL = 0.95

Sums = NDArray[np.float64]
"""Columns of `_COLUMNS`, along the last axis."""
_COLUMNS = ("asked", "precision", "recall", "f1", "tasks", "harm", "failures", "foreseen", "claims", "borne")
_AT = {name: i for i, name in enumerate(_COLUMNS)}


@dataclass(frozen=True, slots=True)
class Measure:
    """One column of the table.

    Attributes:
        label: Its heading.
        better: +1 where more is better, -1 where less is.
        value: From sums over tasks, [..., columns], to the measure, [...]; NaN where nothing was counted.
    """

    label: str
    better: int
    value: Callable[[Sums], NDArray[np.float64]]


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=whole > 0)


def _share(part: str, whole: str) -> Callable[[Sums], NDArray[np.float64]]:
    return lambda sums: _ratio(sums[..., _AT[part]], sums[..., _AT[whole]])


def _false_warnings(sums: Sums) -> NDArray[np.float64]:
    return 1 - _ratio(sums[..., _AT["borne"]], sums[..., _AT["claims"]])


def _failure_f1(sums: Sums) -> NDArray[np.float64]:
    """0 where nothing is warned of; NaN where nothing failed."""
    recall = _share("foreseen", "failures")(sums)
    precision = np.nan_to_num(_share("borne", "claims")(sums))
    both = recall + precision
    return np.where(np.isnan(recall), np.nan, np.divide(2 * recall * precision, both, out=both * 0, where=both > 0))


MEASURES: Mapping[str, Measure] = {
    "next_precision": Measure("next tool P", 1, _share("precision", "asked")),
    "next_recall": Measure("next tool R", 1, _share("recall", "asked")),
    "next_f1": Measure("next tool F1", 1, _share("f1", "asked")),
    "foreseen_recall": Measure("foreseen", 1, _share("foreseen", "failures")),
    "false_warnings": Measure("false warnings", -1, _false_warnings),
    "foreseen_f1": Measure("foreseen F1", 1, _failure_f1),
    "harm": Measure("harm", -1, _share("harm", "tasks")),
}
"""What `inference.compare.measures` defines, in the order of the table."""


class TaskSums:
    """What each task adds to the sums.

    Args:
        scores: Of every run held out; at least one.
    """

    def __init__(self, scores: Sequence[RunScore]) -> None:
        by_task: dict[str, list[RunScore]] = defaultdict(list)
        for score in scores:
            by_task[score.task].append(score)
        self.tasks = sorted(by_task)
        self.groups = [by_task[task][0].group for task in self.tasks]
        self.rows = np.array([_row(by_task[task]) for task in self.tasks])

    def resampled(self, seed: int) -> Sums:
        """Sums over tasks drawn with replacement, whole groups at a time, [resamples, columns]."""
        _, cluster = np.unique(self.groups, return_inverse=True)
        count = int(cluster.max()) + 1
        by_group = np.zeros((count, self.rows.shape[1]))
        np.add.at(by_group, cluster, self.rows)
        drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
        return drawn.astype(np.float64) @ by_group

    @property
    def total(self) -> Sums:
        """Sums over all tasks, [1, columns]."""
        return self.rows.sum(axis=0, keepdims=True)


def _row(runs: Sequence[RunScore]) -> list[float]:
    points = [point for run in runs for point in run.next]
    asked = sum(run.points for run in runs)
    count = len(runs)

    def mean(values: Sequence[float]) -> float:
        return float(np.mean(values)) if values else 0.0

    return [
        float(bool(points)),
        mean([point.precision for point in points]),
        mean([point.recall for point in points]),
        mean([point.f1 for point in points]),
        float(bool(asked)),
        sum(run.harmful for run in runs) / asked if asked else 0.0,
        sum(run.failures for run in runs) / count,
        sum(run.foreseen for run in runs) / count,
        sum(run.claims for run in runs) / count,
        sum(run.borne for run in runs) / count,
    ]


def estimates(scores: Sequence[RunScore], seed: int) -> dict[str, Estimate | None]:
    """Every measure of one memory; None where nothing was counted."""
    sums = TaskSums(scores)
    drawn = sums.resampled(seed)
    return {name: _estimate(measure.value(sums.total), measure.value(drawn)) for name, measure in MEASURES.items()}


def differences(left: Sequence[RunScore], right: Sequence[RunScore], seed: int) -> dict[str, Estimate | None]:
    """Every measure of the left memory minus the right one's, paired by task.

    Args:
        left: Scores of one memory.
        right: Scores of another one, on the same runs.
        seed: Of the resampling.
    """
    ours, theirs = TaskSums(left), TaskSums(right)
    if ours.tasks != theirs.tasks:
        raise ValueError("a paired difference needs the same tasks on both sides")
    drawn = ours.resampled(seed), theirs.resampled(seed)
    return {
        name: _estimate(
            measure.value(ours.total) - measure.value(theirs.total), measure.value(drawn[0]) - measure.value(drawn[1])
        )
        for name, measure in MEASURES.items()
    }


def _estimate(value: NDArray[np.float64], drawn: NDArray[np.float64]) -> Estimate | None:
    """A value, [1], with the percentile interval of the resamples in which it is defined."""
    defined = drawn[~np.isnan(drawn)]
    if np.isnan(value[0]) or not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(value[0]), float(low), float(high))
