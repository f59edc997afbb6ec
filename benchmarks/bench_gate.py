"""The gate on a 30-message history, on memories of growing size.

Run: ``python benchmarks/bench_gate.py [--nodes 1000 10000 100000] [--rounds 200]``

*new history*: a conversation that was never seen before, parsed and indexed from nothing. *next step*: the same
conversation one exchange longer than at the last call, as in a running agent; parsed anew, but the observations are
known. *same history*: another call at the same point.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from synthetic import make_graph, make_messages
from timing import print_table

from fresh.gate import Gate
from fresh.knowledge import ToolIndex
from fresh.live import LiveParser, live_call

LIMIT = 0.002
"""Seconds that the median of a next step may take."""


def measure(nodes: int, rounds: int) -> tuple[list[str], float]:
    graph = make_graph(nodes)
    gate = Gate(ToolIndex(graph))

    def timed(parser: LiveParser, messages: list, proposed: dict, tools: list) -> float:
        start = time.perf_counter()
        gate.decide(live_call(proposed), parser.history(messages), parser.tools(tools))
        return time.perf_counter() - start

    parser = LiveParser()
    new, step, same = [], [], []
    for turn in range(-10, rounds):
        messages, proposed, tools = make_messages(nodes, seed=turn)
        timed(parser, messages[:26], proposed, tools)
        kept = turn >= 0
        new.append(timed(LiveParser(), *make_messages(nodes, seed=10_000 + turn))) if kept else None
        step.append(timed(parser, messages, proposed, tools)) if kept else None
        same.append(timed(parser, messages, proposed, tools)) if kept else None
    p50: Callable[[list[float]], str] = lambda seconds: f"{statistics.median(seconds) * 1e3:.2f} ms"  # noqa: E731
    return [f"{len(graph):,}", p50(new), p50(step), p50(same)], statistics.median(step)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    results = [measure(nodes, options.rounds) for nodes in options.nodes]
    rows = [row for row, _ in results]
    columns = ["nodes", "new history", "next step", "same history"]
    print_table("gate on a write, p50", columns, rows, ["pydantic", "jsonschema"])
    worst = max(p50 for _, p50 in results)
    print(f"limit for a next step: {LIMIT * 1e3:.0f} ms, {'kept' if worst < LIMIT else 'BROKEN'}")


if __name__ == "__main__":
    main()
