"""The gate beside `invariant-ai` on the same recorded writes: what each holds back, and how long it takes.

Run: ``python benchmarks/bench_invariant_gate.py [RUNS ...] [--folds 3]`` with the extra ``bench-gate`` installed.

Each write is judged by rules mined from other tasks. The rule engine gets those of the gate's rules that its language
can express; *gate, the same rules* is the gate with no others. Recorded runs are the made-up ones of the tests by
default, which are few: give files for a measurement.
"""

from __future__ import annotations

import argparse
import statistics
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from timing import print_table, ratio

from fresh.conditions import CalledBefore, ReadBefore
from fresh.gate import Decision, Finding, Gate, Verdict
from fresh.knowledge import ToolIndex
from fresh.mining import mine
from fresh.splits import folds, task_groups
from fresh.traces import load
from graph_schema.trajectory import Effect
from inference.evaluate.gate import Judged, Label, Solutions, judge_runs
from inference.evaluate.gate.rates import Rate, rate

DESKS = Path(__file__).resolve().parent.parent / "tests" / "data" / "desks"
GATE, SHARED, ENGINE = "gate", "gate, the same rules", "invariant-ai"


class Timed:
    """A gate whose decisions are timed."""

    def __init__(self, gate: Any) -> None:
        self.gate = gate
        self.index = gate.index
        self.seconds: list[float] = []

    def decide(self, *args: Any, **options: Any) -> Decision:
        """Asks the gate."""
        start = time.perf_counter()
        decision = self.gate.decide(*args, **options)
        self.seconds.append(time.perf_counter() - start)
        return decision


class SharedRules:
    """The gate with none but the rules that the engine's language can express."""

    def __init__(self, gate: Gate) -> None:
        self.index = gate.index
        self._gate = gate

    def decide(self, call: Any, live: Any, specs: Any = None) -> Decision:
        """Holds a call back by the shared rules."""
        rules = [r for r in self._gate.rules(call.tool) if isinstance(r.condition, ReadBefore | CalledBefore)]
        broken = {r.condition.kind for r in rules if r.condition.holds(call.arguments or {}, live.history) is False}
        broken |= {f.check for f in self._gate.decide(call, live, specs).findings} & {"repeated", "arguments"}
        findings = tuple(Finding(check=kind, verdict=Verdict.REVISE, reason=kind) for kind in sorted(broken))
        return Decision(verdict=Verdict.REVISE if findings else Verdict.ALLOW, reason="", call=call, findings=findings)


def measure(paths: list[Path], count: int) -> None:
    from inference.baselines.adapters.invariant_gate import InvariantGate

    runs = [run for run in load(paths)[0] if run.feedback.attack is None]
    solutions = Solutions(runs)
    groups = task_groups(runs, ())
    judged: dict[str, list[Judged]] = {GATE: [], SHARED: [], ENGINE: []}
    seconds: dict[str, list[float]] = {name: [] for name in judged}
    expressed = enforced = 0
    compiling = 0.0
    parts = folds(groups, count, 0)
    for part in range(count):
        graph = mine([run for run, p in zip(runs, parts, strict=True) if p != part])
        held_out = [run for run, p in zip(runs, parts, strict=True) if p == part]
        gate = Gate(ToolIndex(graph))
        engine = InvariantGate(ToolIndex(graph))
        start = time.perf_counter()
        engine.prepare()
        compiling += time.perf_counter() - start
        for tool in gate.index.names:
            if gate.index.effect(tool) is Effect.WRITE:
                enforced += len(gate.rules(tool))
                expressed += len(gate.rules(tool)) - len(engine.left_out(tool))
        for name, judge in ((GATE, gate), (SHARED, SharedRules(gate)), (ENGINE, engine)):
            timed: Any = Timed(judge)
            judged[name] += judge_runs(timed, held_out, solutions=solutions)
            seconds[name] += timed.seconds
    print_table(
        f"writes of {len(runs)} recorded runs, {count} folds of tasks",
        ["", "wrong held", "right held", "p50", "p99"],
        [_row(name, judged[name], seconds[name]) for name in judged],
        ["invariant-ai"],
    )
    same = sum(a.held == b.held for a, b in zip(judged[SHARED], judged[ENGINE], strict=True))
    print(f"compiling the engine's policies: {compiling / count:.1f} s a memory")
    print(f"rules on writes: {enforced} enforced by the gate, {expressed} of them in the engine's language")
    print(f"verdicts by the same rules: {same} of {len(judged[ENGINE])} equal")
    print(f"time of a decision, invariant-ai to the whole gate: {ratio(seconds[ENGINE], seconds[GATE]):.1f}x (median)")


def _row(name: str, judged: list[Judged], seconds: list[float]) -> list[str]:
    shares = [_share(judged, Label.WRONG), _share(judged, Label.RIGHT)]
    if name == SHARED:  # asks the whole gate too, so its time means nothing
        return [name, *map(str, shares), "", ""]
    ordered = sorted(seconds)
    tail = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return [name, *map(str, shares), f"{statistics.median(ordered) * 1e3:.2f} ms", f"{tail * 1e3:.1f} ms"]


def _share(judged: list[Judged], label: Label) -> Rate:
    return rate([(item.task, item.held) for item in judged if item.label is label])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="*", default=[DESKS])
    parser.add_argument("--folds", type=int, default=3)
    options = parser.parse_args()
    if find_spec("invariant") is None:
        print("invariant-ai is not installed (extra bench-gate): nothing to compare with")
        return
    measure(options.runs, options.folds)


if __name__ == "__main__":
    main()
