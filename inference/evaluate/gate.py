"""What the gate does on recorded runs with known solutions: which writes it holds back, which it lets pass.

Each write of a run is judged on the history it was made from. A write of the task's own solution, made for the first
time, should pass; any other should not. The runs must be of tasks that the memory was not mined from: `cross_validate`
sees to that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fresh.gate import Gate, GateSettings, Verdict
from fresh.history import RunIndex
from fresh.knowledge import ToolIndex
from fresh.live import Live
from fresh.mining.credit import is_gold
from graph_schema.errors import ConfigError
from graph_schema.graph import ExperienceGraph
from graph_schema.trajectory import CallStatus, Effect, GoldAction, ToolCall, ToolSpec, Trajectory

if TYPE_CHECKING:
    from rich.table import Table

_RESAMPLES = 1_000


class _HasGate(Protocol):
    """A frozen memory, or anything else that holds a gate."""

    @property
    def judge(self) -> Gate: ...


@dataclass(frozen=True)
class Judged:
    """One recorded write and what the gate says of it.

    Attributes:
        task: The group of tasks it belongs to: the unit of resampling.
        gold: It is the task's own solution, and not made before.
        accepted: The environment took it.
        checks: What spoke against it.
    """

    task: str
    domain: str
    tool: str
    gold: bool
    accepted: bool
    verdict: Verdict
    checks: tuple[str, ...]

    @property
    def held(self) -> bool:
        """Whether it was not let through."""
        return self.verdict is not Verdict.ALLOW


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


@dataclass(frozen=True)
class GateReport:
    """The gate's work on one set of runs.

    Attributes:
        name: Which runs.
        passed_gold: Of the gold writes, those let pass.
        held_other: Of all other writes, those held back.
        held_accepted: Of the other writes that the environment took (the harmful ones), those held back.
        held_failed: Of the other writes that the environment refused, those held back.
        checks: How often each check spoke against a gold write and against another.
        runs: Runs with a known solution.
        tasks: Distinct tasks.
    """

    name: str
    passed_gold: Rate
    held_other: Rate
    held_accepted: Rate
    held_failed: Rate
    checks: dict[str, tuple[int, int]] = field(default_factory=dict)
    runs: int = 0
    tasks: int = 0

    def plain(self) -> dict[str, Any]:
        """As JSON values; a rate without cases is null."""
        rates = {}
        for name in ("passed_gold", "held_other", "held_accepted", "held_failed"):
            rate: Rate = getattr(self, name)
            rates[name] = asdict(rate) | {"value": rate.value} if rate.whole else None
        checks = {check: {"gold": gold, "other": other} for check, (gold, other) in self.checks.items()}
        return {"name": self.name, **rates, "checks": checks, "runs": self.runs, "tasks": self.tasks}


def judge_runs(
    gate: Gate, trajectories: Iterable[Trajectory], tasks: Callable[[Trajectory], str] | None = None
) -> list[Judged]:
    """Judges every write of runs whose solution is known; runs without gold actions are passed over.

    Args:
        gate: The gate.
        trajectories: Runs that the memory was not mined from.
        tasks: Group of a run, for resampling; its task key by default.
    """
    judged: list[Judged] = []
    for trajectory in trajectories:
        if trajectory.gold is None:
            continue
        group = tasks(trajectory) if tasks else trajectory.task_key
        judged += _judge_run(gate, trajectory, group)
    return judged


def _judge_run(gate: Gate, trajectory: Trajectory, group: str) -> list[Judged]:
    index = RunIndex(trajectory.turns)
    specs = {spec.name: spec for spec in trajectory.tools} if trajectory.tools else None
    due = list(trajectory.gold or ())
    judged = []
    for turn, call in trajectory.calls():
        if not _writes(gate, specs, call.tool):
            continue
        match = _due_gold(call, due)
        unanswered = ToolCall.model_construct(**(dict(call) | {"observation": None}))
        decision = gate.decide(unanswered, Live(index.at(turn)), specs)
        judged.append(
            Judged(
                task=group,
                domain=trajectory.domain,
                tool=call.tool,
                gold=match is not None,
                accepted=call.status is CallStatus.OK,
                verdict=decision.verdict,
                checks=tuple(f.check for f in decision.findings if f.verdict is not Verdict.ALLOW),
            )
        )
        if match is not None and call.status is CallStatus.OK:
            due.remove(match)
    return judged


def _writes(gate: Gate, specs: dict[str, ToolSpec] | None, tool: str) -> bool:
    spec = (specs or {}).get(tool)
    effect = spec.effect if spec is not None and spec.effect is not None else gate.index.effect(tool)
    if effect is None:
        from fresh.traces.tools import infer_effect

        effect = infer_effect(tool)
    return effect is Effect.WRITE


def _due_gold(call: ToolCall, due: Sequence[GoldAction]) -> GoldAction | None:
    return next((gold for gold in due if is_gold(call, gold)), None)


def summarise(judged: Sequence[Judged], name: str, *, runs: int = 0, seed: int = 0) -> GateReport:
    """Counts judgements and resamples tasks for the intervals."""
    gold = [j for j in judged if j.gold]
    other = [j for j in judged if not j.gold]
    checks: dict[str, list[int]] = {}
    for item in judged:
        for check in set(item.checks):
            checks.setdefault(check, [0, 0])[0 if item.gold else 1] += 1
    return GateReport(
        name=name,
        passed_gold=_rate(gold, lambda j: not j.held, seed),
        held_other=_rate(other, lambda j: j.held, seed),
        held_accepted=_rate([j for j in other if j.accepted], lambda j: j.held, seed),
        held_failed=_rate([j for j in other if not j.accepted], lambda j: j.held, seed),
        checks={check: (counts[0], counts[1]) for check, counts in sorted(checks.items())},
        runs=runs,
        tasks=len({item.task for item in judged}),
    )


def _rate(items: Sequence[Judged], counts: Callable[[Judged], bool], seed: int) -> Rate:
    """Share of items that count, with a percentile interval over tasks drawn with replacement."""
    if not items:
        return Rate(0, 0, float("nan"), float("nan"))
    whole = Counter(item.task for item in items)
    part = Counter(item.task for item in items if counts(item))
    tasks = sorted(whole)
    table = np.array([[part[task], whole[task]] for task in tasks], dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(len(tasks), size=(_RESAMPLES, len(tasks)))
    sums = table[drawn].sum(axis=1)
    low, high = np.percentile(sums[:, 0] / sums[:, 1], [2.5, 97.5])
    return Rate(part.total(), whole.total(), float(low), float(high))


def evaluate_gate(
    memory: _HasGate | Gate, trajectories: Iterable[Trajectory], *, name: str = "runs", seed: int = 0
) -> GateReport:
    """Measures a memory's gate on recorded runs.

    Args:
        memory: A frozen memory, or a gate. It must not have been mined from tasks of these runs.
        trajectories: Recorded runs; only those with gold actions count.
        name: Heading of the report.
        seed: Of the resampling.

    Raises:
        ConfigError: No run has gold actions.
    """
    gate = memory if isinstance(memory, Gate) else memory.judge
    runs = [trajectory for trajectory in trajectories if trajectory.gold is not None]
    if not runs:
        raise ConfigError(
            "no run has gold actions, so nobody can say which writes were right: "
            "give runs of a benchmark that records its solutions"
        )
    return summarise(judge_runs(gate, runs), name, runs=len(runs), seed=seed)


def cross_validate(
    trajectories: Sequence[Trajectory],
    *,
    count: int = 5,
    seed: int = 0,
    name: str = "runs",
    settings: GateSettings | None = None,
    effects: dict[str, Effect] | None = None,
    subject_arguments: Iterable[str] = (),
    miner: Callable[[list[Trajectory]], ExperienceGraph] | None = None,
) -> GateReport:
    """Mines each part of the tasks' complement and judges the part, so that every run is judged by other tasks alone.

    Args:
        trajectories: All runs; those without gold actions are mined from but not judged.
        count: Number of parts.
        seed: Of the split and the resampling.
        name: Heading of the report.
        settings: Of the gate.
        effects: What the caller says of tools.
        subject_arguments: Arguments that name whose request it is; tasks of one subject stay together.
        miner: Makes the graph; `fresh.mining.mine` by default.

    Raises:
        ConfigError: No run has gold actions, or there are fewer groups of tasks than parts.
    """
    from fresh.mining import mine
    from fresh.splits import folds, task_groups

    if not any(trajectory.gold is not None for trajectory in trajectories):
        raise ConfigError("no run has gold actions, so nobody can say which writes were right")
    groups = task_groups(trajectories, subject_arguments)
    parts = folds(groups, count, seed)
    group_of = {id(t): f"group {g}" for t, g in zip(trajectories, groups, strict=True)}
    make = miner or (lambda runs: mine(runs, effects=effects))
    judged: list[Judged] = []
    for part in range(count):
        graph = make([t for t, p in zip(trajectories, parts, strict=True) if p != part])
        held_out = [t for t, p in zip(trajectories, parts, strict=True) if p == part]
        judged += judge_runs(Gate(ToolIndex(graph), settings), held_out, lambda t: group_of[id(t)])
    runs = sum(trajectory.gold is not None for trajectory in trajectories)
    return summarise(judged, name, runs=runs, seed=seed)


def gate_table(reports: Sequence[GateReport]) -> Table:
    """The reports as a table for a terminal."""
    from rich.table import Table

    table = Table(title="Gate on recorded writes: share [95% interval over tasks]")
    for heading in ("runs of", "gold let pass", "others held", "of these accepted", "of these refused"):
        table.add_column(heading, justify="left" if heading == "runs of" else "right")
    for report in reports:
        rates = (report.passed_gold, report.held_other, report.held_accepted, report.held_failed)
        table.add_row(report.name, *map(_cell, rates))
    return table


def _cell(rate: Rate) -> str:
    if not rate.whole:
        return "-"
    return f"{rate.value:.1%} [{rate.low:.1%}, {rate.high:.1%}] of {rate.whole}"
