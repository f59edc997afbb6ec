"""Evaluations of the gate on recorded runs, whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fresh.gate import Gate, GateSettings
from graph_schema.errors import ConfigError
from graph_schema.graph import ExperienceGraph
from graph_schema.trajectory import Effect, ToolSpec, Trajectory
from inference.evaluate.gate.curve import Curve, make_curve
from inference.evaluate.gate.judging import NO_SOLUTIONS, Judged, cross_judge, data_set, judge_runs
from inference.evaluate.gate.report import GateReport, curve_table, gate_table, guard_table, kind_table, report_each
from inference.evaluate.gate.solutions import Solutions
from inference.evaluate.gate.transfer import Transfer, measure_transfer, transfer_table

if TYPE_CHECKING:
    from rich.table import Table


_FOLDS = 5


class HasGate(Protocol):
    """A frozen memory, or anything else that holds a gate."""

    @property
    def judge(self) -> Gate:
        """The gate."""


@dataclass(frozen=True)
class Evaluation:
    """Everything measured on some runs.

    Attributes:
        reports: One a data set.
        curves: One a data set.
        transfer: Which guards fired on tools that the memory knows or does not; for a given memory only.
    """

    reports: tuple[GateReport, ...]
    curves: tuple[Curve, ...]
    transfer: Transfer | None = None

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "gate": [report.plain() for report in self.reports],
            "curves": [curve.plain() for curve in self.curves],
            "transfer": self.transfer.plain() if self.transfer is not None else None,
        }

    def tables(self) -> list[Table]:
        """What to print."""
        tables = [table(self.reports) for table in (gate_table, kind_table, guard_table)]
        tables.append(curve_table(self.curves))
        return [*tables, transfer_table(self.transfer)] if self.transfer is not None else tables


def evaluate_gate(
    memory: HasGate | Gate,
    trajectories: Iterable[Trajectory],
    *,
    max_false_block: float = 0.01,
    seed: int = 0,
    data: Callable[[Trajectory], str] = data_set,
    tools: Mapping[str, ToolSpec] | None = None,
) -> Evaluation:
    """Measures a memory's gate on recorded runs.

    Args:
        memory: A frozen memory, or a gate. It must not have been mined from tasks of these runs.
        trajectories: Recorded runs; only those that can be labelled count.
        max_false_block: Share of right writes that may be held at the operating point.
        seed: Of the resampling and of the split that the threshold is chosen by.
        data: Name of the data set of a run.
        tools: Tools by name, for runs that list none.

    Raises:
        ConfigError: No run can be labelled.
    """
    gate = memory if isinstance(memory, Gate) else memory.judge
    runs = list(trajectories)
    solutions = Solutions(runs)
    if not any(solutions.knows(run) for run in runs):
        raise ConfigError(NO_SOLUTIONS)
    judged: list[Judged] = []
    for part in range(_FOLDS):
        held_out = [run for run in runs if _part(run.task_key, seed) == part]
        judged += judge_runs(gate, held_out, solutions=solutions, fold=part, data=data, tools=tools)
    return _evaluation(judged, max_false_block, seed, measure_transfer(gate, runs, tools))


def _part(task: str, seed: int) -> int:
    return hashlib.sha256(f"{seed}/{task}".encode()).digest()[0] % _FOLDS


def cross_validate(
    trajectories: Sequence[Trajectory],
    *,
    count: int = _FOLDS,
    max_false_block: float = 0.01,
    seed: int = 0,
    settings: GateSettings | None = None,
    effects: dict[str, Effect] | None = None,
    subject_arguments: Iterable[str] = (),
    miner: Callable[[list[Trajectory]], ExperienceGraph] | None = None,
    data: Callable[[Trajectory], str] = data_set,
    tools: Mapping[str, ToolSpec] | None = None,
) -> Evaluation:
    """Measures the gate on every run by memories of other tasks alone; see `cross_judge` for the arguments.

    Raises:
        ConfigError: No run can be labelled, or there are fewer groups of tasks than parts.
    """
    judged = cross_judge(
        trajectories,
        count=count,
        seed=seed,
        settings=settings,
        effects=effects,
        subject_arguments=subject_arguments,
        miner=miner,
        data=data,
        tools=tools,
    )
    return _evaluation(judged, max_false_block, seed)


def _evaluation(
    judged: Sequence[Judged], max_false_block: float, seed: int, transfer: Transfer | None = None
) -> Evaluation:
    names = sorted({j.data for j in judged})
    curves = [make_curve([j for j in judged if j.data == name], name, max_false_block, seed) for name in names]
    return Evaluation(tuple(report_each(judged, seed=seed)), tuple(curves), transfer)


def read_runs(paths: Sequence[Path], *, attacked: int = 0, seed: int = 0, **options: Any) -> list[Trajectory]:
    """Reads runs, with a sample of those under attack.

    Args:
        paths: Files or folders.
        attacked: Most runs under attack to keep of each agent: those whose attack succeeded first, by a seeded draw.
        seed: Of the draw.
        options: Further options of `fresh.traces.TraceReader`.
    """
    from fresh.traces import TraceReader

    kept: list[Trajectory] = []
    drawn: dict[str, list[tuple[tuple[bool, bytes], Trajectory]]] = {}
    for run in TraceReader(paths, include_attacks=attacked > 0, **options):
        if run.feedback.attack is None:
            kept.append(run)
            continue
        rank = (not run.feedback.attack_succeeded, hashlib.sha256(f"{seed}/{run.id}".encode()).digest())
        sample = drawn.setdefault(run.agent or "", [])
        sample.append((rank, run))
        if len(sample) > 2 * attacked:
            _keep_first(sample, attacked)
    for agent in sorted(drawn):
        _keep_first(drawn[agent], attacked)
        kept += [run for _, run in drawn[agent]]
    return kept


def _keep_first(sample: list[tuple[tuple[bool, bytes], Trajectory]], count: int) -> None:
    sample.sort(key=lambda entry: entry[0])
    del sample[count:]
