"""What retrieval reads of a graph, laid out as arrays once so that each query only looks things up."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import orjson
from numpy.typing import NDArray

from fresh.retrieval.bm25 import BM25Index, tokenize
from fresh.seer import SeerIndex
from graph_schema.errors import SchemaError
from graph_schema.graph import ExperienceGraph
from graph_schema.trajectory import Effect
from graph_schema.types import GUIDANCE_TYPES, NODE_TYPES, NodeType, Relation

MAX_COMPARED_TASKS = 2_000
"""SEER compares a query with all tasks of a memory that has no more, else with this many, evenly spaced."""
MAX_TASKS_PER_NODE = 64
"""A node seen in more tasks is compared with this many of them, evenly spaced in task order."""

_GUIDANCE = np.array([node_type in GUIDANCE_TYPES for node_type in NODE_TYPES])
_EFFECTS = (Effect.READ, Effect.WRITE, Effect.OTHER)


class GraphView:
    """Arrays over the nodes, tools and tasks of one graph.

    N nodes, K tools, T tasks (nodes of type Task), d the width of the text embedding, S that of the statistics.

    Args:
        graph: Must have the features ``text`` and ``stat``.
        bm25: Index over all node texts in order; built here when not given.

    Raises:
        SchemaError: A feature is missing, or the index is of another graph.
    """

    def __init__(self, graph: ExperienceGraph, bm25: BM25Index | None = None) -> None:
        for name in ("text", "stat"):
            if name not in graph.features:
                raise SchemaError(f"the graph has no {name!r} features: mine it with a text encoder")
        self.graph = graph
        self.bm25 = BM25Index.build(graph.texts) if bm25 is None else bm25
        if len(self.bm25) != len(graph):
            raise SchemaError(f"the BM25 index has {len(self.bm25)} texts for {len(graph)} nodes: export it again")
        self.types = graph.type_codes.astype(np.int64)
        self.guidance = np.flatnonzero(_GUIDANCE[self.types]) if len(graph) else np.zeros(0, dtype=np.int64)
        self.tools = sorted({tool for tool in graph.tools if tool})
        self.tool_index = {tool: i for i, tool in enumerate(self.tools)}
        self.tool_of = np.array([self.tool_index.get(tool, -1) for tool in graph.tools], dtype=np.int64)
        block = graph.indices(NodeType.TASK)
        self.task_start, self.num_tasks = block.start, len(block)

    def __len__(self) -> int:
        return len(self.graph)

    @property
    def text(self) -> NDArray[np.float16]:
        """Text embeddings, [N, d]."""
        return self.graph.features["text"]

    @cached_property
    def stat(self) -> NDArray[np.float32]:
        """Statistics with their long tails drawn in, [N, S]: ``sign(x) log(1 + |x|)``, unknown as 0."""
        values = np.nan_to_num(self.graph.features["stat"].astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
        return np.sign(values) * np.log1p(np.abs(values))

    @property
    def stat_names(self) -> list[str]:
        """Names of the columns of `stat`."""
        width = self.graph.features["stat"].shape[1]
        return self.graph.feature_names.get("stat", [f"stat_{i}" for i in range(width)])

    @cached_property
    def effects(self) -> NDArray[np.float32]:
        """Read, write, other as one-hot rows, [K + 1, 3]; the last row, for no tool, is zero."""
        known: Mapping[str, str] = self.graph.settings.get("effects", {})
        out = np.zeros((len(self.tools) + 1, 3), dtype=np.float32)
        for tool, row in self.tool_index.items():
            if known.get(tool) in _EFFECTS:
                out[row, _EFFECTS.index(Effect(known[tool]))] = 1
        return out

    @cached_property
    def success_prior(self) -> NDArray[np.float64]:
        """Smoothed share of good uses of each node, [N]: ``(success + 1) / (success + failure + 2)``."""
        success, failure = self.graph.column("success"), self.graph.column("failure")
        return (success + 1.0) / (success + failure + 2.0)

    # -- tasks behind nodes ---------------------------------------------------------------------------------------

    @cached_property
    def _task_of_run(self) -> NDArray[np.int64]:
        keys = self.graph.tables.runs["task_key"].to_pylist()
        nodes = [self.graph.find(NodeType.TASK, key) for key in keys]
        return np.array([-1 if node is None else node - self.task_start for node in nodes], dtype=np.int64)

    @cached_property
    def node_tasks(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Compared tasks whose runs showed each node, as ``(start [N + 1], position [...])``; at most 64 a node.

        Positions are within `compared`.
        """
        table = self.graph.tables.provenance
        node, run = table["node"].to_numpy().astype(np.int64), table["run"].to_numpy()
        place = np.full(self.num_tasks + 1, -1, dtype=np.int64)  # the last entry is for runs without a Task node
        place[self.compared] = np.arange(len(self.compared))
        task = place[self._task_of_run[run]] if len(run) else np.zeros(0, dtype=np.int64)
        kept = task >= 0
        width = max(len(self.compared), 1)
        code = np.unique(node[kept] * width + task[kept])
        node, task = code // width, code % width
        start = np.searchsorted(node, np.arange(len(self) + 1))
        size = np.diff(start)
        if len(size) and size.max() > MAX_TASKS_PER_NODE:
            position = np.arange(len(node)) - start[node]
            stride = np.maximum(size / MAX_TASKS_PER_NODE, 1.0)[node]
            chosen = np.floor(position / stride) != np.floor((position - 1) / stride)
            node, task = node[chosen], task[chosen]
            start = np.searchsorted(node, np.arange(len(self) + 1))
        return start, task

    @cached_property
    def chains(self) -> list[list[str]]:
        """Tools of the shortest good run of each task, in order; empty where no run is known to be good."""
        data = self.graph.tables.nodes["data"].slice(self.task_start, self.num_tasks).to_pylist()
        return [next(iter(orjson.loads(text or "{}").get("tools") or ()), []) for text in data]

    @cached_property
    def compared(self) -> NDArray[np.int64]:
        """Tasks that SEER compares a query with."""
        count = min(self.num_tasks, MAX_COMPARED_TASKS)
        return np.arange(count) * self.num_tasks // max(count, 1)

    @cached_property
    def seer(self) -> SeerIndex:
        """SEER's index over the compared tasks, each by its request and its shortest good run."""
        vectors = self.text[self.task_start + self.compared].astype(np.float32)
        return SeerIndex.build(vectors, None, [self.chains[task] for task in self.compared])

    @cached_property
    def sequences(self) -> NDArray[np.float32]:
        """How often the shortest good run of each task used each tool, [T, K]; zero where none is known."""
        out = np.zeros((self.num_tasks, len(self.tools)), dtype=np.float32)
        for row, chain in enumerate(self.chains):
            for tool in chain:
                if tool in self.tool_index:
                    out[row, self.tool_index[tool]] += 1
        return out

    # -- order ----------------------------------------------------------------------------------------------------

    @cached_property
    def next_nodes(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Action nodes that follow each tool's actions in good runs: ``(start [K + 1], node, share)``.

        Shares are smoothed by one count, so that a transition seen once does not weigh as much as one seen always.
        """
        (source, target), count = self.graph.edges_of(Relation.PRECEDES)
        code = self.tool_of[source] * max(len(self), 1) + target
        pair, inverse = np.unique(code, return_inverse=True)
        total = np.bincount(inverse, weights=count, minlength=len(pair))
        tool, node = pair // max(len(self), 1), pair % max(len(self), 1)
        start = np.searchsorted(tool, np.arange(len(self.tools) + 1))
        whole = np.bincount(tool, weights=total, minlength=len(self.tools))
        return start, node, (total / (whole[tool] + 1.0)).astype(np.float32)

    @cached_property
    def next_tools(self) -> NDArray[np.float32]:
        """Share of tool b among what follows tool a, [K, K]."""
        start, node, share = self.next_nodes
        out = np.zeros((len(self.tools), len(self.tools)), dtype=np.float32)
        tool = np.repeat(np.arange(len(self.tools)), np.diff(start))
        np.add.at(out, (tool, self.tool_of[node]), share)
        return out

    @cached_property
    def _error_words(self) -> dict[int, frozenset[str]]:
        return {}

    def words_of(self, node: int) -> frozenset[str]:
        """Terms of a node's text, remembered."""
        known = self._error_words
        if node not in known:
            known[node] = frozenset(tokenize(self.graph.texts[node]))
        return known[node]
