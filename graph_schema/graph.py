"""The experience graph: typed nodes, checked edges, and the runs behind each of them.

Nodes are stored in columns, sorted by type and key, so that the nodes of one type are one contiguous block and the
same content always has the same order. A node's identity is its type and key; everything else about it is either a
function of the key or counted from the runs that showed it. Counting by run makes `merge` idempotent: the same run
merged twice changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa

from graph_schema.errors import SchemaError
from graph_schema.types import EDGE_TYPES, NODE_TYPES, RELATION_CODE, TYPE_CODE, NodeType, Relation, triple_message

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import HeteroData

COUNTS = ("success", "failure", "unknown", "violated_success", "violated_failure")
"""What is counted per node and run. For an action: verified, failed, unverified uses. For a precondition: verified
and failed uses where it held, undecidable ones, and verified and failed uses where it did not hold."""

NODE_SCHEMA = pa.schema(
    [
        ("type", pa.int8()),
        ("key", pa.string()),
        ("text", pa.string()),
        ("tool", pa.string()),
        ("data", pa.string()),
        *[(name, pa.int32()) for name in COUNTS],
        ("runs", pa.int32()),
        ("first_seen", pa.float64()),
        ("last_seen", pa.float64()),
    ]
)
EDGE_SCHEMA = pa.schema(
    [("relation", pa.int8()), ("source", pa.int32()), ("target", pa.int32()), ("count", pa.int32())]
)
RUN_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("task_key", pa.string()),
        ("domain", pa.string()),
        ("outcome", pa.string()),
        ("agent", pa.string()),
        ("file", pa.string()),
        ("record", pa.int32()),
        ("time", pa.float64()),
    ]
)
PROVENANCE_SCHEMA = pa.schema([("node", pa.int32()), ("run", pa.int32()), *[(name, pa.int32()) for name in COUNTS]])
EDGE_PROVENANCE_SCHEMA = pa.schema([("edge", pa.int32()), ("run", pa.int32()), ("count", pa.int32())])
TABLE_SCHEMAS = {
    "nodes": NODE_SCHEMA,
    "edges": EDGE_SCHEMA,
    "runs": RUN_SCHEMA,
    "provenance": PROVENANCE_SCHEMA,
    "edge_provenance": EDGE_PROVENANCE_SCHEMA,
}


@dataclass(frozen=True, slots=True)
class Node:
    """One node, read out of the columns.

    Attributes:
        index: Position in the graph.
        id: Content address, the same in every graph that has this node.
        data: What the miner keeps beside the text; its keys depend on the type (see `fresh.mining`).
        first_seen: Seconds since the epoch of the first run that showed it; NaN when no run was dated.
    """

    index: int
    id: str
    type: NodeType
    key: str
    text: str
    tool: str
    data: dict[str, Any]
    success: int
    failure: int
    unknown: int
    violated_success: int
    violated_failure: int
    runs: int
    first_seen: float
    last_seen: float


@dataclass(frozen=True, slots=True)
class Run:
    """A run that the graph was mined from."""

    id: str
    task_key: str
    domain: str
    outcome: str
    agent: str
    file: str
    record: int
    time: float = float("nan")


def node_id(node_type: NodeType, key: str) -> str:
    """Content address of a node: 16 hexadecimal digits."""
    return hashlib.sha256(f"{node_type}\x1f{key}".encode()).hexdigest()[:16]


@dataclass
class Tables:
    """The graph as Arrow tables, which is also how it is stored."""

    nodes: pa.Table
    edges: pa.Table
    runs: pa.Table
    provenance: pa.Table
    edge_provenance: pa.Table


class StoredTables(Tables):
    """Tables that are read from disk when first asked for: most uses of a memory never ask which runs showed what.

    Args:
        readers: For each table, what reads it.
    """

    def __init__(self, readers: Mapping[str, Callable[[], pa.Table]]) -> None:
        self._readers = dict(readers)

    def __getattr__(self, name: str) -> pa.Table:
        reader = self.__dict__.get("_readers", {}).get(name)
        if reader is None:
            raise AttributeError(name)
        table = self.__dict__[name] = reader()
        return table


class ExperienceGraph:
    """Typed, heterogeneous graph of experience, ``G = (V, E, tau_V, tau_E, X)``.

    Args:
        tables: Columns, as `GraphBuilder.build` or `load` make them. Checked against the schema here.
        settings: How the graph was mined; plain JSON values.
        features: Node features by name, each with one row a node, such as ``text`` (float16 [N, d]) and ``stat``
            (float32 [N, s]).
        feature_names: For a feature with named columns, the names.

    Raises:
        SchemaError: An edge joins types that its relation does not allow, an index is out of range, or a feature
            does not have one row for each node.
    """

    def __init__(
        self,
        tables: Tables,
        *,
        settings: Mapping[str, Any] | None = None,
        features: Mapping[str, np.ndarray] | None = None,
        feature_names: Mapping[str, list[str]] | None = None,
    ) -> None:
        self.tables = tables
        self.settings = dict(settings or {})
        self.features = dict(features or {})
        self.feature_names = dict(feature_names or {})
        self.type_codes = tables.nodes["type"].to_numpy()
        self._validate()

    # -- size and shape ------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.tables.nodes.num_rows

    def __repr__(self) -> str:
        return f"ExperienceGraph(nodes={len(self)}, edges={self.num_edges}, runs={self.tables.runs.num_rows})"

    @property
    def num_edges(self) -> int:
        """Number of distinct edges."""
        return self.tables.edges.num_rows

    @cached_property
    def offsets(self) -> np.ndarray:
        """Start of each type's block in node order, int64 [8]; the last entry is the number of nodes."""
        return np.searchsorted(self.type_codes, np.arange(len(NODE_TYPES) + 1))

    def indices(self, node_type: NodeType) -> range:
        """Positions of all nodes of a type."""
        code = TYPE_CODE[node_type]
        return range(int(self.offsets[code]), int(self.offsets[code + 1]))

    def counts(self) -> dict[str, int]:
        """Nodes by type and edges by relation, every type and relation named."""
        relations = np.bincount(self.edge_relation, minlength=len(EDGE_TYPES))
        nodes = {str(t): len(self.indices(t)) for t in NODE_TYPES}
        return nodes | {str(e.relation): int(relations[i]) for i, e in enumerate(EDGE_TYPES)}

    # -- edges ---------------------------------------------------------------------------------------------------

    @cached_property
    def edge_relation(self) -> np.ndarray:
        """Relation code of each edge, int8 [E], ascending."""
        return self.tables.edges["relation"].to_numpy()

    @cached_property
    def edge_index(self) -> np.ndarray:
        """Source and target positions, int64 [2, E], sorted by relation, source, target."""
        edges = self.tables.edges
        return np.stack([edges["source"].to_numpy(), edges["target"].to_numpy()]).astype(np.int64)

    @cached_property
    def edge_count(self) -> np.ndarray:
        """How often each edge was seen, int32 [E]."""
        return self.tables.edges["count"].to_numpy()

    def edges_of(self, relation: Relation) -> tuple[np.ndarray, np.ndarray]:
        """``(edge_index [2, E_r], count [E_r])`` of one relation, in graph-wide positions."""
        code = RELATION_CODE[relation]
        low, high = np.searchsorted(self.edge_relation, [code, code + 1])
        return self.edge_index[:, low:high], self.edge_count[low:high]

    @cached_property
    def _adjacency(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Edges sorted by source and by target: ``(out_start, out_edge, in_start, in_edge)``."""
        source, target = self.edge_index
        out_edge, in_edge = np.argsort(source, kind="stable"), np.argsort(target, kind="stable")
        positions = np.arange(len(self) + 1)
        return (
            np.searchsorted(source[out_edge], positions),
            out_edge,
            np.searchsorted(target[in_edge], positions),
            in_edge,
        )

    def out_edges(self, node: int) -> np.ndarray:
        """Edge numbers that leave a node."""
        start, order, _, _ = self._adjacency
        return order[start[node] : start[node + 1]]

    def in_edges(self, node: int) -> np.ndarray:
        """Edge numbers that enter a node."""
        _, _, start, order = self._adjacency
        return order[start[node] : start[node + 1]]

    def successors(self, node: int, relation: Relation) -> list[tuple[int, int]]:
        """``(target, count)`` along a relation, most frequent first."""
        return self._neighbours(self.out_edges(node), relation, self.edge_index[1])

    def predecessors(self, node: int, relation: Relation) -> list[tuple[int, int]]:
        """``(source, count)`` along a relation, most frequent first."""
        return self._neighbours(self.in_edges(node), relation, self.edge_index[0])

    def _neighbours(self, edges: np.ndarray, relation: Relation, ends: np.ndarray) -> list[tuple[int, int]]:
        chosen = edges[self.edge_relation[edges] == RELATION_CODE[relation]]
        pairs = [(int(ends[e]), int(self.edge_count[e])) for e in chosen]
        return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))

    # -- nodes ---------------------------------------------------------------------------------------------------

    def node(self, index: int) -> Node:
        """Reads one node out of the columns."""
        if not 0 <= index < len(self):
            raise SchemaError(f"node {index} is not in this graph of {len(self)} nodes")
        row = self.tables.nodes.slice(index, 1).to_pylist()[0]
        node_type = NODE_TYPES[row.pop("type")]
        data = orjson.loads(row.pop("data") or "{}")
        return Node(index=index, id=node_id(node_type, row["key"]), type=node_type, data=data, **row)

    def data(self, index: int) -> dict[str, Any]:
        """What the miner keeps of one node, without reading the rest of it: a tenth of the time of `node`."""
        return dict(orjson.loads(self.tables.nodes["data"][index].as_py() or "{}"))

    def nodes(self, node_type: NodeType | None = None) -> Iterator[Node]:
        """Reads all nodes, or those of one type, in order."""
        for index in range(len(self)) if node_type is None else self.indices(node_type):
            yield self.node(index)

    @cached_property
    def texts(self) -> list[str]:
        """Text of every node, in order."""
        return self.tables.nodes["text"].to_pylist()

    @cached_property
    def tools(self) -> list[str]:
        """Tool name behind every node, in order; empty for a Task."""
        return self.tables.nodes["tool"].to_pylist()

    @cached_property
    def _by_key(self) -> dict[tuple[int, str], int]:
        keys = self.tables.nodes["key"].to_pylist()
        return {(int(code), key): i for i, (code, key) in enumerate(zip(self.type_codes, keys, strict=True))}

    def find(self, node_type: NodeType, key: str) -> int | None:
        """Position of the node with this key, or None."""
        return self._by_key.get((TYPE_CODE[node_type], key))

    @cached_property
    def _by_tool(self) -> dict[str, np.ndarray]:
        order: dict[str, list[int]] = {}
        for index, tool in enumerate(self.tools):
            if tool:
                order.setdefault(tool, []).append(index)
        return {tool: np.asarray(nodes, dtype=np.int64) for tool, nodes in order.items()}

    def of_tool(self, tool: str, node_type: NodeType | None = None) -> list[int]:
        """Positions of a tool's nodes, of one type if asked."""
        nodes = self._by_tool.get(tool)
        if nodes is None:
            return []
        if node_type is not None:
            nodes = nodes[self.type_codes[nodes] == TYPE_CODE[node_type]]
        return [int(i) for i in nodes]

    def column(self, name: str) -> np.ndarray:
        """A numeric node column, such as ``success`` or ``last_seen``; one entry a node."""
        return self.tables.nodes[name].to_numpy()

    # -- provenance ----------------------------------------------------------------------------------------------

    def run(self, index: int) -> Run:
        """Reads one run."""
        return Run(**self.tables.runs.slice(index, 1).to_pylist()[0])

    def runs_of(self, node: int) -> list[Run]:
        """The runs that showed a node, in run order."""
        nodes = self.tables.provenance["node"].to_numpy()
        low, high = np.searchsorted(nodes, [node, node + 1])
        return [self.run(int(i)) for i in self.tables.provenance["run"].to_numpy()[low:high]]

    # -- other forms ---------------------------------------------------------------------------------------------

    def to_hetero_data(self) -> HeteroData:
        """PyTorch Geometric's form; every node and edge type present, empty ones too."""
        from graph_schema.convert import to_hetero_data

        return to_hetero_data(self)

    def to_networkx(self) -> networkx.MultiDiGraph:
        """NetworkX's form: nodes are content addresses, edges are keyed by relation."""
        from graph_schema.convert import to_networkx

        return to_networkx(self)

    def merge(self, other: ExperienceGraph) -> ExperienceGraph:
        """The graph of both graphs' runs; features are dropped, since they depend on the whole."""
        from graph_schema.builder import GraphBuilder

        builder = GraphBuilder()
        builder.add_graph(self)
        builder.add_graph(other)
        return builder.build(settings=_merged_settings([self.settings, other.settings]))

    def save(self, path: str | Path) -> None:
        """Writes the graph as a folder (see `graph_schema.storage`)."""
        from graph_schema.storage import save_graph

        save_graph(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> ExperienceGraph:
        """Reads a graph's folder, checking every hash."""
        from graph_schema.storage import load_graph

        return load_graph(Path(path))

    # -- rules ---------------------------------------------------------------------------------------------------

    def _validate(self) -> None:
        codes = self.type_codes
        if len(codes) and (codes.min() < 0 or codes.max() >= len(NODE_TYPES)):
            raise SchemaError("a node has an unknown type code; the graph was written by something else")
        if np.any(np.diff(codes) < 0):
            raise SchemaError("nodes are not sorted by type; build graphs with GraphBuilder")
        self._validate_edges(codes)
        for name, values in self.features.items():
            if len(values) != len(self):
                raise SchemaError(f"feature {name!r} has {len(values)} rows for {len(self)} nodes; mine again")

    def _validate_edges(self, codes: np.ndarray) -> None:
        if not self.num_edges:
            return
        relation, (source, target) = self.edge_relation, self.edge_index
        if min(source.min(), target.min()) < 0 or max(source.max(), target.max()) >= len(codes):
            raise SchemaError(f"an edge points outside the {len(codes)} nodes")
        if relation.min() < 0 or relation.max() >= len(EDGE_TYPES) or np.any(np.diff(relation) < 0):
            raise SchemaError("edges are not sorted by a known relation")
        wanted = np.array([[TYPE_CODE[e.source], TYPE_CODE[e.target]] for e in EDGE_TYPES])[relation]
        wrong = np.flatnonzero((codes[source] != wanted[:, 0]) | (codes[target] != wanted[:, 1]))
        if len(wrong):
            edge = int(wrong[0])
            ends = NODE_TYPES[codes[source[edge]]], NODE_TYPES[codes[target[edge]]]
            raise SchemaError(triple_message(ends[0], EDGE_TYPES[relation[edge]].relation, ends[1]))


def _merged_settings(settings: list[dict[str, Any]]) -> dict[str, Any]:
    """Tables of words, such as the effect of each tool, of both; the rest is kept apart under ``merged``."""
    apart: list[dict[str, Any]] = []
    for one in settings:
        for part in one.get("merged", [one]):
            if part not in apart:
                apart.append(part)
    apart.sort(key=lambda part: orjson.dumps(part, option=orjson.OPT_SORT_KEYS))
    united: dict[str, Any] = {}
    for part in apart:
        for name, value in part.items():
            if isinstance(value, dict) and value and all(isinstance(word, str) for word in value.values()):
                united[name] = united.get(name, {}) | value
    return united | {"merged": apart}
