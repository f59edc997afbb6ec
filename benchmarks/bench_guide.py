"""guide() end to end, without the text encoder, on memories of growing size.

Run: ``python benchmarks/bench_guide.py [--nodes 1000 10000 100000] [--rounds 60]``

Each call sees a history that it has not seen before: parsing, recall, planning, conditions and redaction all count.
"""

from __future__ import annotations

import argparse
import statistics
import time

from synthetic import make_graph, make_messages
from timing import print_table

from fresh.gate import Gate
from fresh.guidance import Guide, HeuristicRanker
from fresh.knowledge import ToolIndex
from fresh.live import LiveParser
from fresh.retrieval.bm25 import BM25Index

LIMIT = 0.015
"""Seconds that the median may take at the largest size."""


def measure(nodes: int, rounds: int) -> tuple[list[str], float]:
    graph = make_graph(nodes)
    bm25 = BM25Index.build(graph.texts)
    guide = Guide(Gate(ToolIndex(graph)), bm25, HeuristicRanker(graph, bm25))
    parser, seconds, tokens = LiveParser(), [], []
    for turn in range(-5, rounds):
        messages, _, tools = make_messages(nodes, seed=turn)
        start = time.perf_counter()
        guidance = guide.guide(parser.history(messages), parser.tools(tools))
        elapsed = time.perf_counter() - start
        if turn >= 0:
            seconds.append(elapsed)
            tokens.append(guidance.tokens)
    p50, p95 = statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1]
    row = [f"{len(graph):,}", f"{p50 * 1e3:.2f} ms", f"{p95 * 1e3:.2f} ms", f"{statistics.mean(tokens):.0f}"]
    return row, p50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    results = [measure(nodes, options.rounds) for nodes in options.nodes]
    rows = [row for row, _ in results]
    print_table("guide() on a 30-message history", ["nodes", "p50", "p95", "tokens"], rows, ["numpy", "pyarrow"])
    worst = results[-1][1]
    print(f"limit at the largest size: {LIMIT * 1e3:.0f} ms, {'kept' if worst < LIMIT else 'BROKEN'}")


if __name__ == "__main__":
    main()
