"""The gate on short and long histories, on memories of growing size.

Run: ``python benchmarks/bench_gate.py [--nodes 1000 10000 100000] [--messages 30 200] [--rounds 200]``

*new history*: a conversation that was never seen before, parsed and indexed from nothing. *next step*: the same
conversation one exchange longer than at the last call, as in a running agent; only what is new is parsed. *same
history*: another call at the same point. *held back*: a next step whose write names an object that was never seen, with
a search for what could stand in its place.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
from synthetic import make_graph, make_messages
from timing import print_table

from fresh.gate import Gate, Verdict
from fresh.knowledge import ToolIndex
from fresh.live import LiveParser, live_call

MEDIAN_LIMIT, TAIL_LIMIT = 0.002, 0.020
"""Seconds that a next step may take at the median and at the 99th percentile."""
_STEPS = 4
"""Exchanges of a conversation that the parser has followed before the one that is timed."""


def measure(gate: Gate, nodes: int, messages: int, rounds: int) -> dict[str, np.ndarray]:
    """Seconds of each kind of decision."""

    def timed(parser: LiveParser, chat: list[Any], proposed: Any, tools: list[Any]) -> tuple[float, Verdict]:
        start = time.perf_counter()
        decision = gate.decide(live_call(proposed), parser.history(chat), parser.tools(tools))
        return time.perf_counter() - start, decision.verdict

    found: dict[str, list[float]] = {"new history": [], "next step": [], "same history": [], "held back": []}
    parser = LiveParser()
    for turn in range(-10, rounds):
        new, *_ = timed(LiveParser(), *make_messages(nodes, messages, seed=10_000 + turn))
        chat, proposed, tools = make_messages(nodes, messages, seed=turn)
        for back in range(2 * _STEPS, 0, -2):
            timed(parser, chat[:-back], proposed, tools)
        step, verdict = timed(parser, chat, proposed, tools)
        assert verdict is Verdict.ALLOW, f"the synthetic write should pass, not {verdict}"
        same, _ = timed(parser, chat, proposed, tools)
        other = [*chat, {"role": "assistant", "content": "One moment."}]
        function = {"name": proposed["function"]["name"], "arguments": json.dumps({"order_id": "#W42"})}
        held, verdict = timed(parser, other, proposed | {"function": function}, tools)
        assert verdict is not Verdict.ALLOW, "the write of an unknown order should be held back"
        if turn >= 0:
            for name, seconds in zip(found, (new, step, same, held), strict=True):
                found[name].append(seconds)
    return {name: np.array(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--messages", type=int, nargs="+", default=[30, 200])
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    rows, medians, tails = [], [], []
    for nodes in options.nodes:
        graph = make_graph(nodes)
        gate = Gate(ToolIndex(graph))
        for messages in options.messages:
            seconds = measure(gate, nodes, messages, options.rounds)
            p50 = {name: float(np.quantile(values, 0.5)) for name, values in seconds.items()}
            p99 = {name: float(np.quantile(values, 0.99)) for name, values in seconds.items()}
            rows.append(
                [f"{len(graph):,}", str(messages), *(f"{p50[n] * 1e3:.2f} / {p99[n] * 1e3:.1f}" for n in seconds)]
            )
            medians.append(p50["next step"])
            tails.append(p99["next step"])
    columns = ["nodes", "messages", "new history", "next step", "same history", "held back"]
    print_table("gate on a write, p50 / p99 in ms", columns, rows, ["pydantic", "jsonschema"])
    kept = max(medians) < MEDIAN_LIMIT and max(tails) < TAIL_LIMIT
    limits = f"{MEDIAN_LIMIT * 1e3:.0f} ms at p50, {TAIL_LIMIT * 1e3:.0f} ms at p99"
    print(f"limit for a next step: {limits}, {'kept' if kept else 'BROKEN'}")


if __name__ == "__main__":
    main()
