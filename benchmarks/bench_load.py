"""Loading a frozen memory, every hash checked, after imports.

Run: ``python benchmarks/bench_load.py [--nodes 100000] [--width 384] [--rounds 9]``

The memory has text embeddings and statistics of the usual width. The files are in the page cache, as on a server that
restarts. *first decision* and *first guidance* are what the first calls cost on top, when their tables are read.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from pathlib import Path

from synthetic import make_graph, make_messages, with_features
from timing import print_table

from fresh.frozen import freeze
from inference import load

LIMIT = 0.3
"""Seconds that loading may take."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    graph = with_features(make_graph(options.nodes), options.width)
    messages, proposed, tools = make_messages(options.nodes)
    columns: dict[str, list[float]] = {"load": [], "first decision": [], "first guidance": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory"
        freeze(graph, path)
        size = sum(file.stat().st_size for file in path.iterdir()) / 1e6
        for turn in range(options.rounds + 1):
            times = [time.perf_counter()]
            memory = load(path)
            times.append(time.perf_counter())
            memory.gate(proposed, messages, tools)
            times.append(time.perf_counter())
            memory.guide(messages, tools)
            times.append(time.perf_counter())
            for (name, _), (start, end) in zip(columns.items(), itertools.pairwise(times), strict=True):
                columns[name] += [end - start] if turn else []
    p50 = {name: statistics.median(seconds) for name, seconds in columns.items()}
    row = [f"{len(graph):,}", f"{size:.0f} MB", *(f"{seconds * 1e3:.0f} ms" for seconds in p50.values())]
    print_table("loading a frozen memory, p50", ["nodes", "files", *p50], [row], ["pyarrow", "safetensors", "numpy"])
    print(f"limit for loading: {LIMIT * 1e3:.0f} ms, {'kept' if p50['load'] < LIMIT else 'BROKEN'}")


if __name__ == "__main__":
    main()
