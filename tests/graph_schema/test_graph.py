from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from graphs import STEPS, Step, build, content, make_run
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_schema import (
    EDGE_TYPES,
    NODE_TYPES,
    ExperienceGraph,
    GraphBuilder,
    NodeType,
    Relation,
    SchemaError,
    node_id,
)
from graph_schema.graph import EDGE_SCHEMA, Tables


def small() -> ExperienceGraph:
    """Two actions of one tool, seen in two runs."""
    builder = GraphBuilder()
    runs = [builder.add_run(make_run(n)) for n in (1, 2)]
    tool = builder.add_node(NodeType.TOOL, "lend", text="lend", tool="lend", data={"effect": "write"})
    first = builder.add_node(NodeType.ACTION, "lend(a)", text="lend a", tool="lend")
    second = builder.add_node(NodeType.ACTION, "lend(b)", text="lend b", tool="lend")
    for run in runs:
        builder.count(first, run, success=2, failure=1)
        builder.add_edge(first, Relation.USES, tool, run)
    builder.count(second, runs[1], unknown=1)
    builder.add_edge(second, Relation.USES, tool, runs[1], count=5)
    return builder.build()


class TestBuilder:
    @settings(max_examples=60, deadline=None)
    @given(STEPS, st.randoms(use_true_random=False))
    def test_order_of_additions_does_not_matter(self, steps: list[Step], shuffle: random.Random) -> None:
        mixed = list(steps)
        shuffle.shuffle(mixed)
        assert content(build(mixed)) == content(build(steps))

    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
    def test_one_node_described_differently_is_the_same_whatever_came_first(self, order: tuple[int, ...]) -> None:
        says = [("short", {"a": 1}), ("longer text", {"a": 2}), ("longer text", {"a": 3})]
        builder = GraphBuilder()
        for i in order:
            builder.add_node(NodeType.TOOL, "x", text=says[i][0], tool="x", data=says[i][1])
        graph = builder.build()
        assert len(graph) == 1
        assert (graph.node(0).text, graph.node(0).data) == ("short", {"a": 1})

    @pytest.mark.parametrize(
        ("source", "relation", "target"),
        [t for t in itertools.product(NODE_TYPES, Relation, NODE_TYPES) if t not in EDGE_TYPES],
    )
    def test_every_other_triple_is_refused(self, source: NodeType, relation: Relation, target: NodeType) -> None:
        builder = GraphBuilder()
        run = builder.add_run(make_run(1))
        ends = builder.add_node(source, "s", text=""), builder.add_node(target, "t", text="")
        with pytest.raises(SchemaError, match=f"{source} -{relation}-> {target} is not allowed"):
            builder.add_edge(ends[0], relation, ends[1], run)
        assert builder.build().num_edges == 0

    def test_the_same_edge_again_counts_and_does_not_repeat(self) -> None:
        graph = small()
        edges, counts = graph.edges_of(Relation.USES)
        assert edges.shape == (2, 2)
        assert counts.tolist() == [2, 5]

    def test_an_unknown_count_is_a_mistake(self) -> None:
        builder = GraphBuilder()
        node, run = builder.add_node(NodeType.TOOL, "x", text=""), builder.add_run(make_run(1))
        with pytest.raises(ValueError, match="not in"):
            builder.count(node, run, sucess=1)


class TestReading:
    def test_counts_are_summed_over_runs(self) -> None:
        node = small().node(1)
        assert (node.key, node.success, node.failure, node.unknown, node.runs) == ("lend(a)", 4, 2, 0, 2)
        assert (node.first_seen, node.last_seen) == (1001.0, 1002.0)

    def test_undated_runs_give_no_time(self) -> None:
        builder = GraphBuilder()
        builder.count(builder.add_node(NodeType.TOOL, "x", text=""), builder.add_run(make_run(3)), success=1)
        node = builder.build().node(0)
        assert node.runs == 1
        assert np.isnan(node.first_seen) and np.isnan(node.last_seen)

    def test_types_are_blocks_and_every_type_is_counted(self) -> None:
        graph = small()
        assert list(graph.indices(NodeType.TOOL)) == [0]
        assert list(graph.indices(NodeType.ACTION)) == [1, 2]
        assert len(graph.indices(NodeType.REPAIR)) == 0
        counts = graph.counts()
        assert counts["Action"] == 2 and counts["uses"] == 2 and counts["Task"] == 0 and counts["precedes"] == 0
        assert len(counts) == len(NODE_TYPES) + len(EDGE_TYPES)

    def test_neighbours_most_frequent_first(self) -> None:
        graph = small()
        assert graph.successors(1, Relation.USES) == [(0, 2)]
        assert graph.predecessors(0, Relation.USES) == [(2, 5), (1, 2)]
        assert graph.predecessors(0, Relation.REQUIRES) == []
        assert graph.out_edges(0).tolist() == []
        assert sorted(graph.in_edges(0).tolist()) == [0, 1]

    def test_find_by_key_and_by_tool(self) -> None:
        graph = small()
        assert graph.find(NodeType.ACTION, "lend(b)") == 2
        assert graph.find(NodeType.TOOL, "lend(b)") is None
        assert graph.of_tool("lend") == [0, 1, 2]
        assert graph.of_tool("lend", NodeType.ACTION) == [1, 2]
        assert graph.of_tool("nothing") == []

    def test_each_node_leads_back_to_its_runs(self) -> None:
        graph = small()
        assert [run.id for run in graph.runs_of(1)] == ["run1", "run2"]
        assert [(run.id, run.file, run.record) for run in graph.runs_of(2)] == [("run2", "f.jsonl", 2)]
        assert graph.runs_of(0) == []

    def test_a_node_outside_is_named(self) -> None:
        with pytest.raises(SchemaError, match="node 99 is not in this graph of 3 nodes"):
            small().node(99)

    def test_ids_depend_on_type_and_key_alone(self) -> None:
        graph = small()
        assert graph.node(1).id == node_id(NodeType.ACTION, "lend(a)")
        assert node_id(NodeType.ACTION, "x") != node_id(NodeType.TOOL, "x")
        assert len({node.id for node in graph.nodes()}) == len(graph)

    def test_an_empty_graph_is_a_graph(self) -> None:
        graph = GraphBuilder().build()
        assert len(graph) == 0 and graph.num_edges == 0
        assert set(graph.counts().values()) == {0}
        assert list(graph.nodes()) == [] and graph.texts == []


class TestValidation:
    def test_a_swapped_edge_is_refused(self) -> None:
        graph = small()
        edges = graph.tables.edges.to_pydict()
        edges["source"], edges["target"] = edges["target"], edges["source"]
        with pytest.raises(SchemaError, match="Tool -uses-> Action is not allowed; uses joins Action to Tool"):
            ExperienceGraph(with_edges(graph, edges))

    def test_an_edge_to_nowhere_is_refused(self) -> None:
        graph = small()
        edges = graph.tables.edges.to_pydict() | {"target": [0, 7]}
        with pytest.raises(SchemaError, match="outside the 3 nodes"):
            ExperienceGraph(with_edges(graph, edges))

    def test_an_unknown_relation_is_refused(self) -> None:
        graph = small()
        edges = graph.tables.edges.to_pydict() | {"relation": [1, 10]}
        with pytest.raises(SchemaError, match="known relation"):
            ExperienceGraph(with_edges(graph, edges))

    def test_features_have_one_row_a_node(self) -> None:
        graph = small()
        with pytest.raises(SchemaError, match="'stat' has 2 rows for 3 nodes"):
            ExperienceGraph(graph.tables, features={"stat": np.zeros((2, 4), np.float32)})

    def test_nodes_out_of_order_are_refused(self) -> None:
        graph = small()
        tables = with_edges(graph, {name: [] for name in EDGE_SCHEMA.names})
        tables.nodes = tables.nodes.take([1, 0, 2])
        with pytest.raises(SchemaError, match="not sorted by type"):
            ExperienceGraph(tables)


def with_edges(graph: ExperienceGraph, edges: dict[str, list[int]]) -> Tables:
    old = graph.tables
    table = pa.table(edges, schema=EDGE_SCHEMA)
    return Tables(old.nodes, table, old.runs, old.provenance, old.edge_provenance)


class TestMerge:
    @settings(max_examples=40, deadline=None)
    @given(STEPS, STEPS)
    def test_idempotent_and_commutative(self, one: list[Step], two: list[Step]) -> None:
        left, right = build(one), build(two)
        assert content(left.merge(left)) == content(left)
        # A run belongs to one trace, so runs that both share must show the same; here the first one stands.
        only_right = [row["id"] for row in content(right)["runs"] if row not in content(left)["runs"]]
        if len(only_right) == right.tables.runs.num_rows:
            assert content(left.merge(right)) == content(right.merge(left))
            assert left.merge(right).settings == right.merge(left).settings
        again = left.merge(right)
        assert content(again.merge(right)) == content(again)
        assert content(again.merge(left)) == content(again)

    def test_other_runs_add_up(self) -> None:
        graphs = []
        for number in (1, 2):
            builder = GraphBuilder()
            run = builder.add_run(make_run(number))
            builder.count(builder.add_node(NodeType.TOOL, "x", text="x", tool="x"), run, success=number)
            graphs.append(builder.build(settings={"effects": {f"x{number}": "read"}, "runs": 1}))
        merged = graphs[0].merge(graphs[1])
        assert (merged.node(0).success, merged.node(0).runs) == (3, 2)
        assert merged.settings["effects"] == {"x1": "read", "x2": "read"}
        assert "runs" not in merged.settings
        assert merged.features == {}

    def test_all_parts_of_three_merges_are_kept_in_the_settings(self) -> None:
        parts = [GraphBuilder().build(settings={"name": {"of": str(n)}, "n": n}) for n in range(3)]
        left = parts[0].merge(parts[1]).merge(parts[2])
        right = parts[0].merge(parts[2].merge(parts[1]))
        assert left.settings == right.settings
        assert [part["n"] for part in left.settings["merged"]] == [0, 1, 2]
