from __future__ import annotations

import numpy as np
from graphs import STEPS, Step, build
from hypothesis import given, settings

from graph_schema import EDGE_TYPES, NODE_TYPES, ExperienceGraph, GraphBuilder, NodeType, Relation


@settings(max_examples=20, deadline=None)
@given(STEPS)
def test_hetero_data_names_every_type_and_keeps_every_edge(steps: list[Step]) -> None:
    graph = build(steps)
    data = graph.to_hetero_data()
    assert data.node_types == [str(t) for t in NODE_TYPES]
    assert data.edge_types == [tuple(map(str, e)) for e in EDGE_TYPES]
    assert sum(data[str(t)].num_nodes for t in NODE_TYPES) == len(graph)
    for edge in EDGE_TYPES:
        store = data[tuple(map(str, edge))]
        index, count = graph.edges_of(edge.relation)
        assert tuple(store.edge_index.shape) == (2, index.shape[1])
        assert store.edge_count.tolist() == count.tolist()
        ends = [(graph.texts[s], graph.texts[t]) for s, t in index.T]
        back = [
            (data[str(edge.source)].text[s], data[str(edge.target)].text[t]) for s, t in store.edge_index.T.tolist()
        ]
        assert back == ends


def test_hetero_data_of_an_empty_graph_is_empty_everywhere() -> None:
    data = GraphBuilder().build().to_hetero_data()
    assert data.num_nodes == 0
    assert all(tuple(data[tuple(map(str, e))].edge_index.shape) == (2, 0) for e in EDGE_TYPES)
    assert data.validate()


def test_features_are_split_by_type() -> None:
    builder = GraphBuilder()
    builder.add_node(NodeType.REPAIR, "r", text="r")
    builder.add_node(NodeType.TASK, "t", text="t")
    plain = builder.build()
    graph = ExperienceGraph(plain.tables, features={"text": np.array([[1, 2], [3, 4]], np.float16)})
    data = graph.to_hetero_data()
    assert data["Task"].text == ["t"]  # a feature of that name does not hide the words
    assert data["Repair"].text == ["r"]
    assert data["Task"].x_text.tolist() == [[1, 2]]
    assert data["Repair"].x_text.tolist() == [[3, 4]]
    assert tuple(data["Tool"].x_text.shape) == (0, 2)


@settings(max_examples=20, deadline=None)
@given(STEPS)
def test_networkx_has_the_same_nodes_edges_and_counts(steps: list[Step]) -> None:
    graph = build(steps)
    other = graph.to_networkx()
    assert set(other.nodes) == {node.id for node in graph.nodes()}
    assert other.number_of_edges() == graph.num_edges
    assert sum(count for *_, count in other.edges(data="count")) == int(graph.edge_count.sum())
    ids = [node.id for node in graph.nodes()]
    for relation in Relation:
        edges = {(ids[s], ids[t]) for s, t in graph.edges_of(relation)[0].T}
        assert {(s, t) for s, t, key in other.edges(keys=True) if key == relation} == edges
