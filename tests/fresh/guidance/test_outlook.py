from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_shop import make_graph

from fresh.guidance import GuidanceSettings
from fresh.guidance.outlook import Expected, Outlook, Record, likeliest_set, rest
from fresh.knowledge import ToolIndex
from fresh.retrieval.bm25 import BM25Index
from fresh.retrieval.query import Query
from graph_schema.graph import ExperienceGraph
from graph_schema.trajectory import CallStatus
from graph_schema.types import NodeType

GRAPH = make_graph()
BM25 = BM25Index.build(GRAPH.texts)
OUTLOOK = Outlook(ToolIndex(GRAPH), GuidanceSettings())


def chances(request: str, done: tuple[str, ...] = (), graph: ExperienceGraph = GRAPH) -> dict[str, float]:
    outlook = OUTLOOK if graph is GRAPH else Outlook(ToolIndex(graph), GuidanceSettings())
    query = Query(parts=(request,), said=(request,), used=tuple((tool, CallStatus.OK) for tool in done))
    similar = BM25Index.build(graph.texts).scores(request)
    found = outlook.forecast(query, np.zeros(len(graph)), similar)
    return {item.tool: item.chance for item in found.expected}


def test_what_similar_tasks_needed_is_likely():
    cancelling, removing = chances("cancel my order please"), chances("remove something from my order")
    assert cancelling["cancel_order"] > 0.5 > cancelling["remove_items"]
    assert removing["remove_items"] > 0.5 > removing["cancel_order"]


def test_what_is_done_is_no_longer_to_come():
    before, after = chances("cancel my order"), chances("cancel my order", ("find_customer", "get_order"))
    assert before["get_order"] > 0.5 > after["get_order"]
    assert after["cancel_order"] > 0.5


def test_a_tool_that_mostly_failed_is_called_but_not_advised():
    query = Query(parts=("burn",), said=("burn",))
    found = OUTLOOK.forecast(query, np.zeros(len(GRAPH)), BM25.scores("burn"))
    assert "burn_order" in found.calls and "burn_order" not in {item.tool for item in found.expected}


def test_what_a_solution_has_is_advised_however_often_agents_failed_at_it():
    outlook = Outlook(ToolIndex(GRAPH), GuidanceSettings(min_success_rate=0.995))
    assert not outlook.advises("cancel_order")
    outlook = Outlook(ToolIndex(GRAPH), GuidanceSettings(min_success_rate=0.995))
    solved = Record(solution=("cancel_order", "burn_order", "never_called"))
    outlook._records = dict.fromkeys(range(len(GRAPH.indices(NodeType.TASK))), solved)
    assert outlook.advises("cancel_order")
    assert not outlook.advises("burn_order"), "it has never succeeded"
    assert not outlook.advises("never_called")


def test_only_tools_on_offer_are_expected():
    query = Query(parts=("cancel",), said=("cancel",), offered=frozenset({"get_order"}))
    found = OUTLOOK.forecast(query, np.zeros(len(GRAPH)), BM25.scores("cancel"))
    assert {item.tool for item in found.expected} == set(found.calls) == {"get_order"}


def test_the_likeliest_come_first_with_their_place():
    query = Query(parts=("cancel",), said=("cancel my order please",))
    found = OUTLOOK.forecast(query, np.zeros(len(GRAPH)), BM25.scores("cancel my order please")).expected
    assert [item.chance for item in found] == sorted((item.chance for item in found), reverse=True)
    place = {item.tool: item.place for item in found}
    assert place["find_customer"] < place["get_order"] < place["cancel_order"]


def test_an_empty_memory_expects_nothing():
    from graph_schema.builder import GraphBuilder

    empty = GraphBuilder().build(settings={})
    found = Outlook(ToolIndex(empty), GuidanceSettings()).forecast(Query(parts=()), np.zeros(0), np.zeros(0))
    assert found.expected == () and found.calls == {}


def test_a_solution_says_what_is_needed_and_the_runs_what_is_called():
    record = Record.of({"tools": [["look", "think", "write"]], "solution": ["look", "write"]})
    vote = record.votes(Counter(["look"]))
    assert vote.needed == {"write": 1.0} and vote.called == {"think": 1.0, "write": 1.0}
    assert Record.of({"solution": []}).votes(Counter()).needed == {}
    assert not Record.of({"tools": []}) and Record.of({"solution": []})


@pytest.mark.parametrize("data", [{}, {"tools": None}, {"tools": [1]}, {"tools": [[1]]}, {"solution": "look"}])
def test_odd_task_data_is_no_record(data: dict[str, object]):
    assert not Record.of(data)


def test_runs_that_went_another_way_agree_less():
    record = Record.of({"tools": [["a", "b", "c"]]})
    assert record.votes(Counter()).agreement == 1
    assert record.votes(Counter("ab")).agreement == 1
    assert record.votes(Counter("xy")).agreement == pytest.approx(1 / 3)


def test_rest_begins_after_the_last_call_that_is_done():
    assert rest(["a", "b", "c", "a"], Counter("b")) == ["c", "a"]
    assert rest(["a", "b", "c", "a"], Counter("ac")) == ["a"]
    assert rest(["a", "b"], Counter()) == ["a", "b"]
    assert rest(["a", "a"], Counter("x")) == ["a", "a"]


@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=7))
def test_the_named_set_is_the_best_of_all_sets(found: list[float]):
    expected = [Expected(str(i), p, 0.0) for i, p in enumerate(sorted(found, reverse=True))]

    def value(chosen: tuple[Expected, ...]) -> float:
        return 2 * sum(item.chance for item in chosen) / (len(chosen) + sum(found))

    best = max(value(chosen) for k in range(1, len(expected) + 1) for chosen in combinations(expected, k))
    assert value(tuple(likeliest_set(expected))) == pytest.approx(best)


def test_nothing_expected_names_nothing():
    assert likeliest_set([]) == []


def test_without_neighbours_and_prior_nothing_is_made_up():
    settings = GuidanceSettings(prior_strength=0, similar_tasks=0)
    query = Query(parts=("cancel",), said=("cancel my order please",))
    found = Outlook(ToolIndex(GRAPH), settings).forecast(query, np.zeros(len(GRAPH)), BM25.scores("cancel"))
    assert all(np.isfinite(item.chance) for item in found.expected)
    assert set(found.calls.values()) == {0.0}
