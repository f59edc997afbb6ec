"""The graph in the forms of PyTorch Geometric and NetworkX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graph_schema.types import EDGE_TYPES, NODE_TYPES

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import HeteroData

    from graph_schema.graph import ExperienceGraph


def to_hetero_data(graph: ExperienceGraph) -> HeteroData:
    """Converts to `HeteroData`.

    Every node type has ``num_nodes`` and ``text``; each feature of the graph becomes ``x_<name>``, float32
    [N_t, d]. Every edge type has ``edge_index`` int64 [2, E_r] in positions within the types, and
    ``edge_count`` int64 [E_r]; types without nodes or edges are present and empty.
    """
    import numpy as np
    import torch
    from torch_geometric.data import HeteroData

    data = HeteroData()
    for node_type in NODE_TYPES:
        block = graph.indices(node_type)
        store = data[str(node_type)]
        store.num_nodes = len(block)
        store.text = graph.texts[block.start : block.stop]
        for name, values in graph.features.items():
            store[f"x_{name}"] = torch.from_numpy(values[block.start : block.stop].astype(np.float32))
    for edge in EDGE_TYPES:
        index, count = graph.edges_of(edge.relation)
        starts = np.array([[graph.indices(edge.source).start], [graph.indices(edge.target).start]])
        store = data[str(edge.source), str(edge.relation), str(edge.target)]
        store.edge_index = torch.from_numpy(index - starts)
        store.edge_count = torch.from_numpy(count.astype(np.int64))
    return data


def to_networkx(graph: ExperienceGraph) -> networkx.MultiDiGraph:
    """Converts to a multigraph: node attributes are `Node`'s fields, edge keys are relations with a ``count``."""
    import dataclasses

    import networkx

    result: networkx.MultiDiGraph[str] = networkx.MultiDiGraph()
    ids = []
    for node in graph.nodes():
        ids.append(node.id)
        result.add_node(node.id, **(dataclasses.asdict(node) | {"type": str(node.type)}))
    source, target = graph.edge_index
    for edge in range(graph.num_edges):
        relation = str(EDGE_TYPES[graph.edge_relation[edge]].relation)
        count = int(graph.edge_count[edge])
        result.add_edge(ids[source[edge]], ids[target[edge]], key=relation, relation=relation, count=count)
    return result
