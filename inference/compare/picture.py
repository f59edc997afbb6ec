"""The comparison as a picture: one panel a measure, one dot with its interval a memory."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from inference.compare.estimates import MEASURES

if TYPE_CHECKING:
    from inference.compare.report import CompareReport

PANELS = ("next_f1", "foreseen_recall", "false_warnings", "foreseen_f1", "harm")
_REFERENCE, _OTHER = "#e45756", "#4c78a8"


def draw(report: CompareReport, path: Path) -> bool:
    """Draws dots with 95% intervals; False where Matplotlib is not installed (extra ``viz``).

    Args:
        report: What was measured.
        path: The picture; its ending says the format.
    """
    if find_spec("matplotlib") is None:
        return False
    from matplotlib.figure import Figure

    names = [row.memory for row in report.rows]
    figure = Figure(figsize=(3.0 * len(PANELS) + 1.5, 0.32 * len(names) + 1.6), layout="constrained")
    axes = figure.subplots(1, len(PANELS), sharey=True, squeeze=False)[0]
    for axis, name in zip(axes, PANELS, strict=True):
        for place, row in enumerate(report.rows):
            value = row.measures[name]
            if value is None:
                continue
            colour = _REFERENCE if row.memory == report.reference else _OTHER
            axis.plot([value.low, value.high], [place, place], color=colour, linewidth=1.5)
            axis.plot([value.mean], [place], "o", color=colour, markersize=5)
        measure = MEASURES[name]
        axis.set_title(f"{measure.label} ({'more' if measure.better > 0 else 'less'} is better)", fontsize=9)
        axis.grid(axis="x", linewidth=0.4, alpha=0.6)
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(labelsize=8, left=False)
        ends = [own.high for row in report.rows if (own := row.measures[name]) is not None]
        right = max([*ends, 0.05])  # all at zero is a picture too
        axis.set_xlim(-0.03 * right, 1.05 * right)
    axes[0].set_yticks(range(len(names)), names)
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    figure.suptitle(f"{report.name}: {report.counts['tasks']} held-out tasks, 95% intervals over tasks", fontsize=10)
    figure.savefig(path, dpi=150)
    return True
