"""guide() end to end, without the text encoder, on memories of growing size.

Run: ``python benchmarks/bench_guide.py [--nodes 1000 10000 100000] [--rounds 60]``

A new history is one that has not been seen before: parsing, recall, ranking, planning, conditions and redaction all
count. The next step is what an agent waits for: the same history one call longer. The ranker is the one of a memory
without a reranker (BM25 and success), or the graph network with untrained weights, which cost the same as trained ones;
its query vectors are made beforehand, for the encoder is left out.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from synthetic import make_graph, make_messages, with_features
from timing import print_table

from fresh.gate import Gate
from fresh.guidance import Guidance, Guide, HeuristicRanker, Ranker
from fresh.knowledge import ToolIndex
from fresh.live import LiveParser
from fresh.retrieval.bm25 import BM25Index
from fresh.retrieval.reranker import Reranker, RerankerConfig
from fresh.retrieval.retriever import Retriever
from graph_schema.graph import ExperienceGraph

WIDTH = 384
"""Of the text embeddings."""
LIMIT = 0.015
"""Seconds that the median may take at the largest size."""


class Encoded:
    """An encoder whose vectors cost nothing."""

    name = "made beforehand"

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self._vector = np.full(dim, dim**-0.5, dtype=np.float32)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """The same vector for each text."""
        return np.tile(self._vector, (len(texts), 1))

    def encode_query(self, text: str) -> np.ndarray:
        """The same vector for any text."""
        return self._vector


def rankers(nodes: int) -> Iterator[tuple[str, ExperienceGraph, Ranker]]:
    graph = with_features(make_graph(nodes), WIDTH)
    bm25 = BM25Index.build(graph.texts)
    yield "heuristic", graph, HeuristicRanker(graph, bm25)
    names = tuple(f"stat_{i}" for i in range(graph.features["stat"].shape[1]))
    network = Reranker(RerankerConfig(text_dim=WIDTH, stat_names=names))
    yield "graph network", graph, Retriever(graph, network, Encoded(WIDTH), bm25)


def measure(name: str, graph: ExperienceGraph, ranker: Ranker, nodes: int, rounds: int) -> tuple[list[str], float]:
    guide = Guide(Gate(ToolIndex(graph)), ranker)
    parser, unseen, step, tokens = LiveParser(), [], [], []
    for turn in range(-5, rounds):
        messages, _, tools = make_messages(nodes, seed=turn)
        new, _ = timed(guide, parser, messages[:-2], tools)
        more, guidance = timed(guide, parser, messages, tools)
        if turn >= 0:
            unseen.append(new)
            step.append(more)
            tokens.append(guidance.tokens)
    p50, p95 = statistics.median(unseen), statistics.quantiles(unseen, n=20)[-1]
    times = [f"{seconds * 1e3:.2f} ms" for seconds in (p50, p95, statistics.median(step))]
    return [f"{len(graph):,}", name, *times, f"{statistics.mean(tokens):.0f}"], p50


def timed(
    guide: Guide, parser: LiveParser, messages: list[dict[str, Any]], tools: list[dict[str, Any]]
) -> tuple[float, Guidance]:
    start = time.perf_counter()
    guidance = guide.guide(parser.history(messages), parser.tools(tools))
    return time.perf_counter() - start, guidance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    results = [measure(*found, nodes, options.rounds) for nodes in options.nodes for found in rankers(nodes)]
    rows = [row for row, _ in results]
    headings = ["nodes", "ranker", "new history, p50", "p95", "next step, p50", "tokens"]
    print_table("guide() on a 30-message history", headings, rows, ["numpy", "torch", "pyarrow"])
    worst = max(p50 for _, p50 in results[-2:])
    print(f"limit at the largest size: {LIMIT * 1e3:.0f} ms, {'kept' if worst < LIMIT else 'BROKEN'}")


if __name__ == "__main__":
    main()
