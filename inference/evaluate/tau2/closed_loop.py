"""The closed loop: the simulated executor on held-out tasks, with and without a gate.

Both arms make the same draws, run by run and step by step, so that their difference is the gate's. Counted are:

* **caught**: injected erroneous calls that never reached the environment as they were. A repeated failed call is
  caught if the repetition was; the first try is not counted against the gate.
* **held gold writes**: writes that were right and due and did not reach the environment as they were; *due* means that
  nothing was injected at them and the environment would have taken them. Those that the gate answered with anything
  but Allow at first are counted apart.
* **pass^k** by the environment's own evaluator.
* **harm and progress**, apart: wrong writes made, right writes made of all that the solutions have, runs ended stuck.
"""

from __future__ import annotations

import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fresh.versions import versions
from inference.evaluate.tau2.environment import DISTRIBUTION, load_domain
from inference.evaluate.tau2.executor import Gate
from inference.evaluate.tau2.passk import Estimate, pass_gain, pass_table
from inference.evaluate.tau2.record import ScoredRun, run_tasks
from inference.evaluate.tau2.run import FaultLog
from inference.evaluate.tau2.settings import ErrorKind, Settings, load_settings

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@dataclass(frozen=True)
class FaultCount:
    """Injected errors of one kind.

    Attributes:
        made: Injected.
        caught: Of these, kept away from the environment.
        accepted: Of these, taken by the environment.
        mended: Of these, followed by the gold call after all.
        passed: Of these, in runs that succeeded.
    """

    made: int
    caught: int
    accepted: int
    mended: int
    passed: int

    @property
    def caught_share(self) -> float | None:
        """Share caught; None if none was made."""
        return self.caught / self.made if self.made else None


@dataclass(frozen=True)
class Arm:
    """One domain run with one gate, or none.

    Attributes:
        pass_k: pass^k by k.
        outcomes: Success of each run, by task.
        faults: Counts by kind of error.
        due_writes: Gold writes that were right and due.
        held_writes: Of these, held back for good.
        questioned_writes: Of these, not allowed at first.
        corrected_writes: Gold calls put forward again after an injected error.
        corrected_held: Of these, held back for good.
        held_reads: Calls that write nothing and were held back for good.
        wrong_writes: Writes made that no solution has: the harm done.
        right_writes: Writes made that the solutions have.
        gold_writes: Writes that the solutions have, over all runs.
        stuck_runs: Runs that failed after something was held back for good or handed over.
        guards: For each check, calls that it held: erroneous ones, and right ones.
        verdicts: Decisions by verdict.
        write_ms: Median milliseconds of a decision on a write; None without a gate.
        call_ms: The same over all calls.
    """

    domain: str
    split: str
    gated: bool
    trials: int
    pass_k: dict[int, Estimate]
    outcomes: dict[str, list[bool]]
    faults: dict[str, FaultCount]
    due_writes: int
    held_writes: int
    questioned_writes: int
    corrected_writes: int
    corrected_held: int
    held_reads: int
    wrong_writes: int
    right_writes: int
    gold_writes: int
    stuck_runs: int
    guards: dict[str, tuple[int, int]]
    verdicts: dict[str, int]
    write_ms: float | None
    call_ms: float | None
    seconds: float

    @property
    def caught_share(self) -> float | None:
        """Share of all injected errors that was caught; None if none was made."""
        made = sum(count.made for count in self.faults.values())
        return sum(count.caught for count in self.faults.values()) / made if made else None

    @property
    def held_share(self) -> float | None:
        """Share of the gold writes due that was held back for good; None if none was due."""
        return self.held_writes / self.due_writes if self.due_writes else None


@dataclass(frozen=True)
class Comparison:
    """The two arms of one domain, and what the gate changed.

    Attributes:
        ablations: Further gated arms, each without one check, by its name.
    """

    without: Arm
    gated: Arm
    gain: dict[int, Estimate]
    ablations: dict[str, Arm] = field(default_factory=dict)


@dataclass(frozen=True)
class ClosedLoopReport:
    """The closed loop on all domains."""

    comparisons: tuple[Comparison, ...]
    settings: Settings
    versions: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """The whole report as plain JSON values."""
        return {
            "executor": "simulated",
            "comparisons": [asdict(comparison) for comparison in self.comparisons],
            "settings": self.settings.as_json(),
            "versions": self.versions,
        }

    def write_json(self, path: Path) -> None:
        """Writes the report, whole or not at all."""
        temporary = path.with_name(f".{path.name}.part")
        try:
            temporary.write_text(json.dumps(self.as_json(), indent=2) + "\n", encoding="utf-8")
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def tables(self) -> list[Table]:
        """What to print: pass^k, the gate's counts, and what each guard is worth where that was measured."""
        tables = [_pass_table(self.comparisons), _gate_table(self.comparisons), _harm_table(self.comparisons)]
        if any(comparison.ablations for comparison in self.comparisons):
            tables.append(_ablation_table(self.comparisons))
        return tables


def run_closed_loop(
    domain: str,
    memory: Gate | None,
    settings: Settings | None = None,
    *,
    split: str = "test",
    console: Console | None = None,
) -> Arm:
    """Runs every task of a split ``trials`` times, through a gate or without one.

    Args:
        domain: One of :data:`DOMAINS`.
        memory: The gate, usually a frozen memory; None for none.
        settings: Rates and bounds; the shipped ones by default.
        split: An official split.
        console: Where the progress bar goes; standard error by default.

    Raises:
        ConfigError: The domain, the split or a setting is wrong.
        MissingExtraError: The tau2 package is not installed.
    """
    settings = settings or load_settings()
    started = time.perf_counter()
    label = f"{domain} {'with' if memory else 'without'} gate"
    scored = run_tasks(
        load_domain(domain), split, settings, trials=settings.trials, gate=memory, label=label, console=console
    )
    outcomes: dict[str, list[bool]] = {}
    for item in scored:
        outcomes.setdefault(item.run.task_id, []).append(item.succeeded)
    writes = [write for item in scored for write in item.run.writes]
    due = [write for write in writes if write.due]
    corrected = [write for write in writes if write.faulty and write.proposed]
    latencies = [latency for item in scored for latency in item.run.latencies]
    verdicts: Counter[str] = Counter()
    for item in scored:
        verdicts.update(item.run.verdicts)
    return Arm(
        domain=domain,
        split=split,
        gated=memory is not None,
        trials=settings.trials,
        pass_k=pass_table(outcomes, resamples=settings.resamples, seed=settings.seed),
        outcomes=outcomes,
        faults=_count_faults(scored),
        due_writes=len(due),
        held_writes=sum(not write.made for write in due),
        questioned_writes=sum(write.revised > 0 for write in due),
        corrected_writes=len(corrected),
        corrected_held=sum(write.revised > 0 and not write.made for write in corrected),
        held_reads=sum(item.run.reads_held for item in scored),
        wrong_writes=sum(item.run.wrong_writes for item in scored),
        right_writes=sum(item.run.right_writes for item in scored),
        gold_writes=sum(step.write is not None for item in scored for step in item.plan.steps),
        stuck_runs=sum(item.run.stuck and not item.succeeded for item in scored),
        guards=_count_guards(scored),
        verdicts=dict(sorted(verdicts.items())),
        write_ms=_median_ms([seconds for seconds, is_write in latencies if is_write]),
        call_ms=_median_ms([seconds for seconds, _ in latencies]),
        seconds=time.perf_counter() - started,
    )


def errors_alone(
    domain: str,
    settings: Settings | None = None,
    *,
    rate: float | None = None,
    split: str = "test",
    console: Console | None = None,
) -> dict[str, Arm]:
    """What each kind of error costs by itself, without a gate: one errorless arm (``none``), and one arm a kind.

    Args:
        domain: One of :data:`DOMAINS`.
        settings: Rates and bounds; the shipped ones by default.
        rate: Probability of the kind at each write; its configured one if left out.
        split: An official split.
        console: Where the progress bars go; standard error by default.
    """
    settings = settings or load_settings()
    chosen = {"none": settings.only(), **{kind.value: settings.only(kind, rate=rate) for kind in ErrorKind}}
    return {name: run_closed_loop(domain, None, own, split=split, console=console) for name, own in chosen.items()}


def compare(
    domains: Sequence[str],
    memory: Gate,
    settings: Settings | None = None,
    *,
    split: str = "test",
    console: Console | None = None,
    partial: Callable[[str], Gate] | None = None,
) -> ClosedLoopReport:
    """Runs both arms on each domain.

    Args:
        domains: Of :data:`DOMAINS`.
        memory: The gate.
        settings: Rates and bounds; the shipped ones by default.
        split: An official split.
        console: Where the progress bars go; standard error by default.
        partial: The same gate without one check (see `without_check`): runs a further arm for every check that held
            anything.
    """
    settings = settings or load_settings()
    comparisons = []
    for domain in domains:
        without = run_closed_loop(domain, None, settings, split=split, console=console)
        gated = run_closed_loop(domain, memory, settings, split=split, console=console)
        gain = pass_gain(without.outcomes, gated.outcomes, resamples=settings.resamples, seed=settings.seed)
        ablations = (
            {
                check: run_closed_loop(domain, partial(check), settings, split=split, console=console)
                for check in gated.guards
            }
            if partial is not None
            else {}
        )
        comparisons.append(Comparison(without, gated, gain, ablations))
    return ClosedLoopReport(tuple(comparisons), settings, versions((DISTRIBUTION, "scipy")))


def _count_faults(scored: Sequence[ScoredRun]) -> dict[str, FaultCount]:
    faults: dict[ErrorKind, list[tuple[FaultLog, bool]]] = {kind: [] for kind in ErrorKind}
    for item in scored:
        for fault in item.run.faults:
            faults[fault.kind].append((fault, item.succeeded))
    return {
        kind.value: FaultCount(
            made=len(logs),
            caught=sum(not fault.reached for fault, _ in logs),
            accepted=sum(fault.accepted for fault, _ in logs),
            mended=sum(fault.mended for fault, _ in logs),
            passed=sum(succeeded for _, succeeded in logs),
        )
        for kind, logs in faults.items()
    }


def _count_guards(scored: Sequence[ScoredRun]) -> dict[str, tuple[int, int]]:
    wrong: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for item in scored:
        for check, (on_wrong, on_right) in item.run.guards.items():
            wrong[check] += on_wrong
            right[check] += on_right
    return {check: (wrong[check], right[check]) for check in sorted(wrong.keys() | right.keys())}


def _median_ms(seconds: Sequence[float]) -> float | None:
    return statistics.median(seconds) * 1000 if seconds else None


def _pass_table(comparisons: Sequence[Comparison]) -> Table:
    from rich.table import Table

    table = Table(title="Simulated executor on held-out tasks, 95% intervals over tasks")
    for heading in ("domain", "tasks x runs", "", "without gate", "with gate", "difference"):
        table.add_column(heading, no_wrap=True)
    for comparison in comparisons:
        arm = comparison.without
        size = f"{len(arm.outcomes)} x {arm.trials}"
        for k, gain in comparison.gain.items():
            before, after = str(arm.pass_k[k]), str(comparison.gated.pass_k[k])
            first = k == min(comparison.gain)
            table.add_row(arm.domain if first else "", size if first else "", f"pass^{k}", before, after, str(gain))
        table.add_section()
    return table


def _gate_table(comparisons: Sequence[Comparison]) -> Table:
    from rich.table import Table

    table = Table(title="What the gate did")
    for heading in ("domain", "of", "made", "held back", "share", "put right"):
        table.add_column(heading, no_wrap=True)
    for comparison in comparisons:
        arm = comparison.gated
        for kind, count in arm.faults.items():
            share = _percent(count.caught_share)
            table.add_row(
                arm.domain, kind.replace("_", " "), str(count.made), str(count.caught), share, str(count.mended)
            )
        made, caught = (sum(getattr(c, name) for c in arm.faults.values()) for name in ("made", "caught"))
        table.add_row(arm.domain, "all errors", str(made), str(caught), _percent(arm.caught_share), "")
        table.add_row(
            arm.domain,
            "gold writes due",
            str(arm.due_writes),
            str(arm.held_writes),
            _percent(arm.held_share),
            f"{arm.questioned_writes} questioned first",
        )
        table.add_row(arm.domain, "corrected writes", str(arm.corrected_writes), str(arm.corrected_held), "", "")
        table.add_section()
    medians = [f"{c.gated.domain} {c.gated.write_ms:.2f} ms" for c in comparisons if c.gated.write_ms is not None]
    if medians:
        table.caption = f"median decision on a write: {', '.join(medians)}"
    return table


def _harm_table(comparisons: Sequence[Comparison]) -> Table:
    from rich.table import Table

    table = Table(title="Harm and progress")
    for heading in ("domain", "", "wrong writes made", "right writes made", "of", "runs ended stuck", "of"):
        table.add_column(heading, no_wrap=True, justify="left" if heading in ("domain", "") else "right")
    for comparison in comparisons:
        for name, arm in (("without gate", comparison.without), ("with gate", comparison.gated)):
            counts = (arm.wrong_writes, arm.right_writes, arm.gold_writes, arm.stuck_runs)
            runs = sum(len(found) for found in arm.outcomes.values())
            table.add_row(arm.domain, name, *map(str, counts), str(runs))
        table.add_section()
    return table


def _ablation_table(comparisons: Sequence[Comparison]) -> Table:
    from rich.table import Table

    table = Table(title="Without each guard")
    for heading in ("domain", "gate without", "pass^1", "pass^n", "errors caught", "gold held", "wrong made", "stuck"):
        table.add_column(heading, no_wrap=True, justify="left" if heading in ("domain", "gate without") else "right")
    for comparison in comparisons:
        arms = {"nothing": comparison.gated, **comparison.ablations, "all": comparison.without}
        for name, arm in arms.items():
            deepest = max(arm.pass_k)
            table.add_row(
                arm.domain,
                name,
                f"{arm.pass_k[1].mean:.3f}",
                f"^{deepest} {arm.pass_k[deepest].mean:.3f}",
                _percent(arm.caught_share),
                _percent(arm.held_share),
                str(arm.wrong_writes),
                str(arm.stuck_runs),
            )
        table.add_section()
    return table


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
