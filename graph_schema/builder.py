"""Collects what runs show and makes a graph of it, the same graph in whatever order it came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from graph_schema.errors import SchemaError
from graph_schema.graph import (
    COUNTS,
    EDGE_PROVENANCE_SCHEMA,
    EDGE_SCHEMA,
    NODE_SCHEMA,
    PROVENANCE_SCHEMA,
    RUN_SCHEMA,
    ExperienceGraph,
    Run,
    Tables,
)
from graph_schema.types import EDGE_TYPES, RELATION_CODE, TYPE_CODE, EdgeType, NodeType, Relation, triple_message


@dataclass
class _NodeDraft:
    type: NodeType
    key: str
    text: str
    tool: str
    data: dict[str, Any]
    seen: dict[int, list[int]] = field(default_factory=dict)


class GraphBuilder:
    """Collects nodes, edges and the runs that showed them, and makes the graph.

    The result depends only on what was added, never on the order: nodes, edges and runs are sorted at the end.
    """

    def __init__(self) -> None:
        self._runs: dict[str, tuple[int, Run]] = {}
        self._nodes: dict[tuple[NodeType, str], int] = {}
        self._drafts: list[_NodeDraft] = []
        self._edges: dict[tuple[int, int, int], dict[int, int]] = {}

    def add_run(self, run: Run) -> int:
        """Registers a run; the same id again returns the same handle."""
        if run.id not in self._runs:
            self._runs[run.id] = (len(self._runs), run)
        return self._runs[run.id][0]

    def add_node(
        self, node_type: NodeType, key: str, *, text: str, tool: str = "", data: Mapping[str, Any] | None = None
    ) -> int:
        """Registers a node; the same type and key again returns the same handle.

        Where two additions say different things of one node, the one that sorts last stands, whichever came first.
        """
        handle = self._nodes.setdefault((node_type, key), len(self._drafts))
        if handle == len(self._drafts):
            self._drafts.append(_NodeDraft(node_type, key, text, tool, dict(data or {})))
            return handle
        draft = self._drafts[handle]
        if (text, tool, data or {}) != (draft.text, draft.tool, draft.data):
            draft.text, draft.tool, draft.data = max(
                (draft.text, draft.tool, draft.data), (text, tool, dict(data or {})), key=_draft_order
            )
        return handle

    def count(self, node: int, run: int, **counts: int) -> None:
        """Adds to what a run showed of a node; keyword names are those of `COUNTS`."""
        row = self._drafts[node].seen.setdefault(run, [0] * len(COUNTS))
        for name, value in counts.items():
            row[COUNTS.index(name)] += value

    def add_edge(self, source: int, relation: Relation, target: int, run: int, count: int = 1) -> None:
        """Adds an edge shown by a run.

        Raises:
            SchemaError: The relation does not join these types.
        """
        code = RELATION_CODE[relation]
        triple = EdgeType(self._drafts[source].type, relation, self._drafts[target].type)
        if triple != EDGE_TYPES[code]:
            raise SchemaError(triple_message(*triple))
        seen = self._edges.setdefault((code, source, target), {})
        seen[run] = seen.get(run, 0) + count

    def add_graph(self, graph: ExperienceGraph) -> None:
        """Adds all of another graph; runs already present are not counted again."""
        known = set(self._runs)
        runs = [graph.run(i) for i in range(graph.tables.runs.num_rows)]
        fresh_run = [run.id not in known for run in runs]
        handles = [self.add_run(run) for run in runs]
        nodes = [self.add_node(n.type, n.key, text=n.text, tool=n.tool, data=n.data) for n in graph.nodes()]
        for row in graph.tables.provenance.to_pylist():
            if fresh_run[row["run"]]:
                self.count(nodes[row["node"]], handles[row["run"]], **{name: row[name] for name in COUNTS})
        source, target = graph.edge_index
        for row in graph.tables.edge_provenance.to_pylist():
            if fresh_run[row["run"]]:
                edge = row["edge"]
                relation = EDGE_TYPES[graph.edge_relation[edge]].relation
                self.add_edge(nodes[source[edge]], relation, nodes[target[edge]], handles[row["run"]], row["count"])

    def build(self, settings: Mapping[str, Any] | None = None) -> ExperienceGraph:
        """Makes the graph: everything sorted, counts summed over runs."""
        runs = sorted((run for _, run in self._runs.values()), key=lambda run: run.id)
        run_position = {self._runs[run.id][0]: i for i, run in enumerate(runs)}
        order = sorted(range(len(self._drafts)), key=lambda i: (TYPE_CODE[self._drafts[i].type], self._drafts[i].key))
        node_position = {handle: i for i, handle in enumerate(order)}
        times = np.array([run.time for run in runs], dtype=np.float64)
        node_rows, provenance = [], []
        for position, handle in enumerate(order):
            draft = self._drafts[handle]
            seen = sorted((run_position[run], row) for run, row in draft.seen.items())
            provenance += [(position, run, *row) for run, row in seen]
            node_rows.append(self._node_row(draft, seen, times))
        edge_rows, edge_provenance = self._edge_rows(node_position, run_position)
        return ExperienceGraph(
            Tables(
                nodes=_table(node_rows, NODE_SCHEMA),
                edges=_table(edge_rows, EDGE_SCHEMA),
                runs=_table([tuple(getattr(run, n) for n in RUN_SCHEMA.names) for run in runs], RUN_SCHEMA),
                provenance=_table(provenance, PROVENANCE_SCHEMA),
                edge_provenance=_table(edge_provenance, EDGE_PROVENANCE_SCHEMA),
            ),
            settings=settings,
        )

    @staticmethod
    def _node_row(draft: _NodeDraft, seen: list[tuple[int, list[int]]], times: np.ndarray) -> tuple[Any, ...]:
        totals = [sum(row[i] for _, row in seen) for i in range(len(COUNTS))]
        dated = times[[run for run, _ in seen]] if seen else np.array([])
        dated = dated[~np.isnan(dated)]
        first, last = (dated.min(), dated.max()) if len(dated) else (float("nan"), float("nan"))
        data = orjson.dumps(draft.data, option=orjson.OPT_SORT_KEYS).decode()
        return TYPE_CODE[draft.type], draft.key, draft.text, draft.tool, data, *totals, len(seen), first, last

    def _edge_rows(
        self, node_position: Mapping[int, int], run_position: Mapping[int, int]
    ) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        placed = sorted(
            ((code, node_position[source], node_position[target]), seen)
            for (code, source, target), seen in self._edges.items()
        )
        rows: list[tuple[int, ...]] = []
        provenance: list[tuple[int, ...]] = []
        for position, (triple, seen) in enumerate(placed):
            rows.append((*triple, sum(seen.values())))
            provenance += [(position, run_position[run], count) for run, count in sorted(seen.items())]
        return rows, sorted(provenance)


def _draft_order(content: tuple[str, str, dict[str, Any]]) -> tuple[str, str, bytes]:
    text, tool, data = content
    return text, tool, orjson.dumps(data, option=orjson.OPT_SORT_KEYS)


def _table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    arrays = [pa.array(list(column), type=field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
