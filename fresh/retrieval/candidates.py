"""Recall: the part of the memory that a query could concern, as a small graph of its own.

Entry points are BM25's best nodes and the nodes of the tools that the moment is about. From there the typed
neighbourhood is taken, a bounded number of edges for each relation and direction, so that no hub can fill the subgraph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fresh.retrieval.query import Query
from fresh.retrieval.view import GraphView
from graph_schema.types import EDGE_TYPES

NUM_RELATIONS = 2 * len(EDGE_TYPES)
"""Each relation and its inverse."""


@dataclass(frozen=True, slots=True)
class RecallSettings:
    """Bounds of the candidate subgraph.

    Attributes:
        small: A memory of no more nodes is taken whole.
        max_nodes: At most this many nodes of a larger one.
        top_k: BM25's best nodes to start from.
        per_tool: Nodes of each tool in play to start from.
        per_relation: Neighbours taken of each node, by relation and direction, most frequent first.
        hops: How far the neighbourhood reaches.
    """

    small: int = 768
    max_nodes: int = 256
    top_k: int = 64
    per_tool: int = 16
    per_relation: int = 4
    hops: int = 2


DEFAULT_RECALL = RecallSettings()


@dataclass(frozen=True, slots=True)
class Candidates:
    """A subgraph of the memory.

    Attributes:
        nodes: Positions in the graph, ascending, int64 [n].
        edge_index: Edges among them, in positions within `nodes`, int64 [2, 2e]: each edge and its inverse.
        relation: Relation of each, int64 [2e]; an inverse has its relation's code plus the number of relations.
        bm25: BM25 scores of the whole memory, [N].
    """

    nodes: NDArray[np.int64]
    edge_index: NDArray[np.int64]
    relation: NDArray[np.int64]
    bm25: NDArray[np.float64]


class Recall:
    """Finds candidate subgraphs in one memory.

    Args:
        view: The memory.
        settings: Bounds.
    """

    def __init__(self, view: GraphView, settings: RecallSettings = DEFAULT_RECALL) -> None:
        self.view = view
        self.settings = settings
        graph = view.graph
        self._source, self._target = graph.edge_index
        self._relation = graph.edge_relation.astype(np.int64)
        self._whole: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None = None
        if len(view) <= settings.small:
            self._whole = (np.arange(len(view)), *self._both_ways(np.arange(self._relation.size), np.arange(len(view))))
        else:
            self._out = self._ranked(self._source)
            self._in = self._ranked(self._target)
            self._tool_start, self._tool_nodes = self._by_tool()

    def find(self, query: Query) -> Candidates:
        """The candidate subgraph of a query."""
        scores = self.view.bm25.scores(query.text)
        if self._whole is not None:
            return Candidates(*self._whole, scores)
        nodes = self._expand(self._entries(query, scores))
        edges = self._induced(nodes)
        return Candidates(nodes, *self._both_ways(edges, nodes), scores)

    # -- entry points ---------------------------------------------------------------------------------------------

    def _by_tool(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Nodes of each tool that can be ranked, those of most runs first: ``(start [K + 1], node)``."""
        nodes = self.view.guidance
        tool = self.view.tool_of[nodes]
        order = np.lexsort((nodes, -self.view.graph.column("runs")[nodes], tool))
        start = np.searchsorted(tool[order], np.arange(len(self.view.tools) + 1))
        return start, nodes[order]

    def _entries(self, query: Query, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Where to start, best first, each node once."""
        best = _top(scores, self.settings.top_k)
        rows = [self.view.tool_index.get(tool, -1) for tool in self._tools_in_play(query, best)]
        parts = [best[: self.settings.top_k // 2]]
        for row in rows:
            if row >= 0:
                start = self._tool_start[row]
                stop = min(start + self.settings.per_tool, self._tool_start[row + 1])
                parts.append(self._tool_nodes[start:stop])
        parts.append(best[self.settings.top_k // 2 :])
        return _first_seen(np.concatenate(parts))[: self.settings.max_nodes]

    def _tools_in_play(self, query: Query, best: NDArray[np.int64]) -> list[str]:
        """Tools used last, those that tend to follow them, those the best texts speak of, then the others offered."""
        view = self.view
        used = [tool for tool, _ in reversed(query.used)][:2]
        found = list(used)
        for tool in used[:1]:
            row = view.tool_index.get(tool, -1)
            if row >= 0:
                found += [view.tools[i] for i in _top(view.next_tools[row], 8)]
        found += [view.tools[i] for i in view.tool_of[best[:16]] if i >= 0]
        if query.offered is not None:
            found = [tool for tool in found if tool in query.offered or tool in used]
            found += sorted(query.offered)
        return list(dict.fromkeys(found))

    # -- neighbourhood --------------------------------------------------------------------------------------------

    def _ranked(self, ends: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Edges grouped by one end, and kept only if among the most frequent of their relation there."""
        count = self.view.graph.edge_count
        edge = np.lexsort((-count, self._relation, ends))
        group = ends[edge] * len(EDGE_TYPES) + self._relation[edge]
        first = np.searchsorted(group, group)
        edge = edge[np.arange(len(edge)) - first < self.settings.per_relation]
        return np.searchsorted(ends[edge], np.arange(len(self.view) + 1)), edge

    def _expand(self, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Entries and their neighbourhood, nearer nodes first until the bound is reached."""
        known = frontier = entries
        for _ in range(self.settings.hops):
            if len(known) >= self.settings.max_nodes or not len(frontier):
                break
            reached = [self._target[_gather(*self._out, frontier)], self._source[_gather(*self._in, frontier)]]
            merged = _first_seen(np.concatenate([known, *reached]))
            frontier = merged[len(known) :]
            known = merged
        return np.sort(known[: self.settings.max_nodes])

    def _induced(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Edges with both ends among the nodes, of those that `_ranked` kept."""
        edge = _gather(*self._out, nodes)
        return np.sort(edge[_among(self._target[edge], nodes)])

    def _both_ways(
        self, edge: NDArray[np.int64], nodes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        source = np.searchsorted(nodes, self._source[edge])
        target = np.searchsorted(nodes, self._target[edge])
        relation = self._relation[edge]
        there = np.stack([source, target])
        return np.concatenate([there, there[::-1]], axis=1), np.concatenate([relation, relation + len(EDGE_TYPES)])


def _gather(start: NDArray[np.int64], values: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Concatenates the slices of some rows, in order of the rows."""
    size = start[rows + 1] - start[rows]
    ends = np.cumsum(size)
    total = int(ends[-1]) if len(ends) else 0
    return values[np.arange(total) + np.repeat(start[rows] - (ends - size), size)]


def _first_seen(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Distinct values in order of first appearance."""
    _, first = np.unique(values, return_index=True)
    return values[np.sort(first)]


def _among(values: NDArray[np.int64], ascending: NDArray[np.int64]) -> NDArray[np.bool_]:
    if not len(ascending):
        return np.zeros(len(values), dtype=bool)
    position = np.searchsorted(ascending, values).clip(max=len(ascending) - 1)
    return ascending[position] == values


def _top(scores: NDArray[np.floating], k: int) -> NDArray[np.int64]:
    """Positions of the best scores above zero, best first."""
    hits = np.flatnonzero(scores > 0)
    if len(hits) > k:
        hits = hits[np.argpartition(-scores[hits], k)[:k]]
    return hits[np.argsort(-scores[hits], kind="stable")]
