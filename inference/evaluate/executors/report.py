"""The arms side by side, paired by task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from fresh.versions import versions
from inference.evaluate.executors.measure import Finished, Measures
from inference.evaluate.executors.settings import Arm, LoopSettings
from inference.evaluate.tau2.environment import DISTRIBUTION
from inference.evaluate.tau2.passk import Estimate, interval, pass_table
from inference.evaluate.tau2.record import SUCCESS

if TYPE_CHECKING:
    from rich.table import Table

MEASURES: dict[str, Callable[[Measures], float | None]] = {
    "reward": lambda m: m.reward,
    "write accuracy": lambda m: m.write_accuracy,
    "read accuracy": lambda m: m.read_accuracy,
    "right writes": lambda m: float(m.right_writes),
    "wrong writes": lambda m: float(m.wrong_writes),
    "refused writes": lambda m: float(m.refused_writes),
    "stuck": lambda m: float(m.stuck),
    "steps": lambda m: float(m.steps),
    "prompt tokens": lambda m: float(m.prompt_tokens),
    "note tokens": lambda m: float(m.note_tokens),
    "held calls": lambda m: float(m.held),
    "unreadable": lambda m: float(m.unreadable),
}
"""A measure of a run by its name; None where the task has nothing to measure."""


@dataclass(frozen=True)
class LoopReport:
    """A comparison.

    Attributes:
        arms: In order; the first is what the others are compared with.
        runs: All of them.
        common: Model, endpoint, memory and user.
    """

    domain: str
    arms: tuple[Arm, ...]
    runs: tuple[Finished, ...]
    settings: LoopSettings
    common: dict[str, Any]

    def per_task(self, arm: Arm, name: str) -> dict[str, float]:
        """The mean of a measure over a task's runs, by task; tasks with nothing to measure are left out."""
        values: dict[str, list[float]] = {}
        for run in self.runs:
            value = MEASURES[name](run.measures) if run.arm is arm else None
            if value is not None:
                values.setdefault(run.task_id, []).append(value)
        return {task: sum(found) / len(found) for task, found in values.items()}

    def mean(self, arm: Arm, name: str) -> Estimate | None:
        """Mean over tasks; None if no task has the measure."""
        return self._interval(list(self.per_task(arm, name).values()))

    def difference(self, arm: Arm, name: str) -> Estimate | None:
        """Mean over the tasks that both have of this arm's value less the first arm's."""
        ours, theirs = self.per_task(arm, name), self.per_task(self.arms[0], name)
        return self._interval([ours[task] - theirs[task] for task in ours if task in theirs])

    def _interval(self, values: Sequence[float]) -> Estimate | None:
        return interval(values, resamples=self.settings.resamples, seed=self.settings.seed) if values else None

    def pass_k(self, arm: Arm) -> dict[int, Estimate]:
        """pass^k of an arm, by k; empty if it has no runs."""
        outcomes: dict[str, list[bool]] = {}
        for run in self.runs:
            if run.arm is arm:
                outcomes.setdefault(run.task_id, []).append(run.measures.reward >= SUCCESS)
        return pass_table(outcomes, resamples=self.settings.resamples, seed=self.settings.seed) if outcomes else {}

    def totals(self, arm: Arm) -> dict[str, float]:
        """Sums over all runs of an arm, and counts of how they ended."""
        runs = [run.measures for run in self.runs if run.arm is arm]
        sums: dict[str, float] = {
            name: sum(getattr(m, name) for m in runs)
            for name in ("gold_writes", "right_writes", "wrong_writes", "refused_writes", "gold_reads", "read_matches")
        }
        sums |= {"runs": len(runs), "won": sum(m.reward >= SUCCESS for m in runs)}
        ends = sorted({m.ended.value for m in runs})
        return sums | {f"ended: {end}": sum(m.ended.value == end for m in runs) for end in ends}

    def as_json(self) -> dict[str, Any]:
        """The whole report as plain JSON values, run by run as well."""
        return {
            "executor": "openai",
            "domain": self.domain,
            "arms": {
                arm.value: {
                    "totals": self.totals(arm),
                    "pass_k": {str(k): asdict(value) for k, value in self.pass_k(arm).items()},
                    "means": {name: _plain(self.mean(arm, name)) for name in MEASURES},
                    "differences": {name: _plain(self.difference(arm, name)) for name in MEASURES}
                    if arm is not self.arms[0]
                    else {},
                }
                for arm in self.arms
            },
            "runs": [
                {"task": r.task_id, "arm": r.arm.value, "trial": r.trial, **r.measures.model_dump(mode="json")}
                for r in self.runs
            ],
            "common": self.common,
            "settings": self.settings.model_dump(mode="json"),
            "versions": versions((DISTRIBUTION, "openai", "scipy")),
        }

    def tables(self) -> list[Table]:
        """What to print: each measure by arm, and its paired difference from the first arm."""
        from rich.table import Table

        size = len({run.task_id for run in self.runs})
        means = Table(title=f"{self.domain}, {size} tasks x {self.settings.trials}: means over tasks, 95% intervals")
        paired = Table(title=f"Difference from {self.arms[0].value}, paired by task, 95% intervals")
        for table, arms in ((means, self.arms), (paired, self.arms[1:])):
            table.add_column("measure", no_wrap=True)
            for arm in arms:
                table.add_column(arm.value)
        for name in MEASURES:
            means.add_row(name, *(_shown(self.mean(arm, name)) for arm in self.arms))
            paired.add_row(name, *(_shown(self.difference(arm, name)) for arm in self.arms[1:]))
        means.caption = f"A small sample: {size} tasks."
        return [means, paired] if len(self.arms) > 1 else [means]


def _plain(estimate: Estimate | None) -> dict[str, float] | None:
    return None if estimate is None else asdict(estimate)


def _shown(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    if abs(estimate.mean) >= 100:
        return f"{estimate.mean:.0f} [{estimate.low:.0f}, {estimate.high:.0f}]"
    return f"{estimate.mean:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"
