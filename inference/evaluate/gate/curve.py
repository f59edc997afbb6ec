"""Recall against false blocks, over thresholds on the violated-guard score.

A write is held from a threshold on. The threshold of the operating point is chosen on other tasks than it is measured
on: for each part of the tasks, the lowest one that keeps the false blocks of all other parts within the bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graph_schema.errors import ConfigError
from inference.evaluate.gate.judging import Judged
from inference.evaluate.gate.rates import Rate, rate
from inference.evaluate.gate.solutions import Label

NEVER = float("inf")
"""The threshold that holds nothing."""
_WIDTH = 0.03
"""Share of right writes that a panel shows at least."""


@dataclass(frozen=True)
class Point:
    """One threshold.

    Attributes:
        threshold: A write is held if its score reaches it.
        false_block: Share of right writes held, with its interval.
        recall: Share of wrong writes held, with its interval.
    """

    threshold: float
    false_block: Rate
    recall: Rate


@dataclass(frozen=True)
class OperatingPoint:
    """The bound asked for, and what it gives on tasks other than those the threshold was chosen on.

    Attributes:
        max_false_block: The bound.
        thresholds: Chosen for each part of the tasks.
    """

    max_false_block: float
    thresholds: dict[int, float]
    false_block: Rate
    recall: Rate


@dataclass(frozen=True)
class Curve:
    """One data set's curve, from the threshold that holds nothing downwards.

    Attributes:
        shipped: False blocks and recall of the gate's own verdicts.
        chosen: The operating point; None where there is only one part of the tasks or no right write.
    """

    name: str
    points: tuple[Point, ...]
    shipped: Point
    chosen: OperatingPoint | None

    def plain(self) -> dict[str, Any]:
        """As JSON values; the threshold that holds nothing is null."""
        chosen = None
        if self.chosen is not None:
            chosen = {
                "max_false_block": self.chosen.max_false_block,
                "thresholds": {str(part): _finite(value) for part, value in self.chosen.thresholds.items()},
                "false_block": self.chosen.false_block.plain(),
                "recall": self.chosen.recall.plain(),
            }
        return {
            "name": self.name,
            "points": [_plain_point(point) for point in self.points],
            "shipped": _plain_point(self.shipped),
            "chosen": chosen,
        }


def _plain_point(point: Point) -> dict[str, Any]:
    return {
        "threshold": _finite(point.threshold),
        "false_block": point.false_block.plain(),
        "recall": point.recall.plain(),
    }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def make_curve(judged: Sequence[Judged], name: str, max_false_block: float = 0.01, seed: int = 0) -> Curve:
    """The curve of some judged writes; unproven ones do not count.

    Args:
        judged: Of one data set.
        name: Its name.
        max_false_block: Share of right writes that may be held.
        seed: Of the resampling.

    Raises:
        ConfigError: The bound is no share.
    """
    if not 0 <= max_false_block <= 1:
        raise ConfigError(f"max_false_block must lie between 0 and 1, not {max_false_block}")
    counted = [j for j in judged if j.label is not Label.UNPROVEN]
    points = tuple(_point(counted, threshold, seed) for threshold in thresholds(counted))
    shipped = Point(NEVER, _held(counted, Label.RIGHT, seed), _held(counted, Label.WRONG, seed))
    return Curve(name, points, shipped, _choose(counted, max_false_block, seed))


def thresholds(judged: Iterable[Judged]) -> list[float]:
    """Every score met, falling, after the threshold that holds nothing; a score of 0 is never held."""
    return [NEVER, *sorted({j.score for j in judged if j.score > 0}, reverse=True)]


def _point(judged: Sequence[Judged], threshold: float, seed: int) -> Point:
    right, wrong = ([(j.task, j.score >= threshold) for j in judged if j.label is label] for label in _BOTH)
    return Point(threshold, rate(right, seed), rate(wrong, seed))


_BOTH = (Label.RIGHT, Label.WRONG)


def _held(judged: Sequence[Judged], label: Label, seed: int) -> Rate:
    return rate([(j.task, j.held) for j in judged if j.label is label], seed)


def choose_threshold(judged: Sequence[Judged], max_false_block: float) -> float:
    """The lowest threshold whose false blocks stay within the bound."""
    right = [j.score for j in judged if j.label is Label.RIGHT]
    best = NEVER
    for threshold in thresholds(judged):
        if sum(score >= threshold for score in right) > max_false_block * len(right):
            break
        best = threshold
    return best


def _choose(judged: Sequence[Judged], max_false_block: float, seed: int) -> OperatingPoint | None:
    parts = sorted({j.fold for j in judged})
    if len(parts) < 2 or not any(j.label is Label.RIGHT for j in judged):
        return None
    chosen = {part: choose_threshold([j for j in judged if j.fold != part], max_false_block) for part in parts}
    held = [(j, j.score >= chosen[j.fold]) for j in judged]
    rates = (rate([(j.task, is_held) for j, is_held in held if j.label is label], seed) for label in _BOTH)
    false_block, recall = rates
    return OperatingPoint(max_false_block, chosen, false_block, recall)


def draw_curves(curves: Sequence[Curve], path: Path) -> None:
    """Draws one panel a data set into a picture.

    Args:
        curves: At least one.
        path: ``.png``, ``.svg`` or ``.pdf``.

    Raises:
        ConfigError: There is no curve, or matplotlib cannot write such a file.
    """
    if not curves:
        raise ConfigError("there is no curve to draw")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(3, len(curves))
    rows = -(-len(curves) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.4 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, curve in zip(axes, curves, strict=False):
        _draw(axis, curve)
    for axis in axes[len(curves) :]:
        axis.set_axis_off()
    named = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=len(named), fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        figure.savefig(path, dpi=150)
    except ValueError as error:
        raise ConfigError(f"{path}: {str(error).splitlines()[0]}") from None


def _draw(axis: Any, curve: Curve) -> None:
    from matplotlib.ticker import PercentFormatter

    with_both = [point for point in curve.points if point.false_block.whole and point.recall.whole]
    false_blocks = [point.false_block.value for point in with_both]
    axis.step(false_blocks, [point.recall.value for point in with_both], where="post", label="by threshold")
    axis.fill_between(
        false_blocks,
        [point.recall.low for point in with_both],
        [point.recall.high for point in with_both],
        step="post",
        alpha=0.2,
    )
    if curve.shipped.recall.whole and curve.shipped.false_block.whole:
        axis.plot(curve.shipped.false_block.value, curve.shipped.recall.value, "s", label="the gate's own verdicts")
    if curve.chosen is not None and curve.chosen.recall.whole:
        label = f"threshold chosen on other tasks for {curve.chosen.max_false_block:.1%}"
        axis.plot(curve.chosen.false_block.value, curve.chosen.recall.value, "o", label=label)
        axis.axvline(curve.chosen.max_false_block, linestyle=":", linewidth=1)
    axis.set_title(curve.name, fontsize=10)
    axis.set_xlabel("right writes held")
    axis.set_ylabel("wrong writes held")
    axis.set_ylim(0, 1)
    axis.set_xlim(0, max(_WIDTH, *false_blocks, 0.0) * 1.02)
    axis.xaxis.set_major_formatter(PercentFormatter(1))
    axis.yaxis.set_major_formatter(PercentFormatter(1))
