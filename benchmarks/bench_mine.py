"""Mining in runs a second, on one core: the runs are in memory, so reading files is not part of it.

Run: ``python benchmarks/bench_mine.py [PATH...] [--rounds 3] [--copies 10]``

Without paths the committed runs under ``tests/data/desks`` are mined, each copied with other ids; with paths, the runs
found there. *mine* is the whole of it; *without ExpG* leaves out the ten-aspect scores of every call, which are node
statistics and nothing else. Caches are emptied before each round.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from timing import print_table

from fresh.mining import EffectResolver, MiningSettings, reduce_evidence
from fresh.mining.evidence import RunEvidence, run_evidence
from fresh.observations import paths_by_value, shown_objects
from fresh.traces import load
from fresh.traces.structure import looks_like_error, parse_observation
from graph_schema import Trajectory

DESKS = Path(__file__).resolve().parent.parent / "tests" / "data" / "desks"
WANTED = 500
"""Runs a second."""


def read(paths: Sequence[str], copies: int) -> list[Trajectory]:
    runs = load(paths or [DESKS])[0]
    if paths:
        return runs
    return [run.model_copy(update={"id": f"{run.id}-{n}"}) for n in range(copies) for run in runs]


def forget() -> None:
    for cached in (parse_observation, looks_like_error, paths_by_value, shown_objects):
        cached.cache_clear()


def _unscored(resolver: EffectResolver, run: Trajectory) -> RunEvidence:
    labelled = resolver.for_run(run)
    return run_evidence(run, lambda tool: resolver.effect(tool, labelled))


def mine_once(runs: Sequence[Trajectory], scored: bool) -> tuple[float, float]:
    """Processor seconds of taking the evidence out of each run, and of reducing it to a graph."""
    forget()
    resolver = EffectResolver()
    start = time.process_time()
    evidence = [resolver.evidence(run) if scored else _unscored(resolver, run) for run in runs]
    middle = time.process_time()
    reduce_evidence(evidence, resolver, None, MiningSettings())
    return middle - start, time.process_time() - middle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copies", type=int, default=10)
    options = parser.parse_args()
    runs = read(options.paths, options.copies)
    mine_once(runs[:50], True)  # imports
    rows = []
    for name, scored in (("mine", True), ("without ExpG", False)):
        parts = [mine_once(runs, scored) for _ in range(options.rounds)]
        evidence, reduced = (statistics.median(part) for part in zip(*parts, strict=True))
        speed = len(runs) / (evidence + reduced)
        rows.append(
            [name, f"{speed:,.0f}", f"{evidence / len(runs) * 1e3:.2f} ms", f"{reduced / len(runs) * 1e3:.2f} ms"]
        )
    title = f"Mining {len(runs):,} runs on one core; wanted: {WANTED} runs a second"
    print_table(title, ["", "runs a second", "evidence a run", "graph a run"], rows, ["pyarrow", "numpy", "pydantic"])


if __name__ == "__main__":
    main()
