from __future__ import annotations

import numpy as np
import pytest

from fresh.history import RunIndex
from fresh.retrieval.candidates import NUM_RELATIONS, Candidates, Recall, RecallSettings
from fresh.retrieval.query import Query, make_query
from graph_schema.types import EDGE_TYPES, NodeType
from tests.retrieval_world import corpus, run

CORPUS = corpus()
VIEW = CORPUS.view(range(32))
QUERY = make_query(RunIndex(run(99, "pay_fine").turns).at(3), ["pay_fine", "get_loan"])


def edges_of(found: Candidates) -> set[tuple[int, int, int]]:
    source, target = found.nodes[found.edge_index]
    return set(zip(source.tolist(), found.relation.tolist(), target.tolist(), strict=True))


def test_small_memory_is_taken_whole_with_edges_both_ways() -> None:
    found = Recall(VIEW).find(QUERY)
    graph = VIEW.graph
    assert (found.nodes == np.arange(len(graph))).all()
    there = set(zip(graph.edge_index[0], graph.edge_relation, graph.edge_index[1], strict=True))
    back = {(t, int(r) + len(EDGE_TYPES), s) for s, r, t in there}
    assert edges_of(found) == there | back
    assert found.relation.max() < NUM_RELATIONS


@pytest.mark.parametrize("bound", [1, 5, 12, 30])
def test_bound_holds_and_edges_are_the_memory_s_own(bound: int) -> None:
    found = Recall(VIEW, RecallSettings(small=0, max_nodes=bound, top_k=8)).find(QUERY)
    assert 0 < len(found.nodes) <= bound and (np.diff(found.nodes) > 0).all()
    assert edges_of(found) <= edges_of(Recall(VIEW).find(QUERY))


def test_tools_in_play_are_reached_though_no_word_is_shared() -> None:
    query = Query(parts=("zzz",), offered=frozenset({"cancel_hold"}))
    found = Recall(VIEW, RecallSettings(small=0, max_nodes=20)).find(query)
    action = VIEW.graph.of_tool("cancel_hold", NodeType.ACTION)[0]
    assert action in found.nodes


def test_hub_does_not_fill_the_subgraph() -> None:
    settings = RecallSettings(small=0, max_nodes=60, top_k=1, per_tool=1, per_relation=2, hops=1)
    query = Query(parts=("zzz",), offered=frozenset({"find_member"}))
    found = Recall(VIEW, settings).find(query)
    tasks = np.count_nonzero(np.isin(found.nodes, list(VIEW.graph.indices(NodeType.TASK))))
    assert tasks <= 2, "every task contains the look-up, two are taken"


def test_nothing_to_start_from() -> None:
    found = Recall(VIEW, RecallSettings(small=0, max_nodes=10)).find(Query(parts=("...",)))
    assert len(found.nodes) == 0 and found.edge_index.shape == (2, 0)
    empty = CORPUS.view([])
    for settings in (RecallSettings(), RecallSettings(small=-1)):
        assert len(Recall(empty, settings).find(QUERY).nodes) == 0
