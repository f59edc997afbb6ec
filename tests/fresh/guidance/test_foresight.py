from __future__ import annotations

import pytest
from memory_shop import RUNS, make_graph

from fresh.guidance.foresight import Foresight
from fresh.knowledge import ToolIndex

GRAPH = make_graph()


def test_the_chance_is_the_share_of_runs_times_that_of_a_call():
    (risk,) = Foresight(ToolIndex(GRAPH), 1).risks({"get_order": 0.5})
    assert risk.tool == "get_order" and GRAPH.data(risk.node)["message"] == "order not found"
    assert 6 / (RUNS + 1) * 0.5 <= risk.chance <= 6 / 7 * 0.5  # six runs showed it, of those that used the tool


def test_the_likeliest_comes_first_and_what_is_not_called_not_at_all():
    foresight = Foresight(ToolIndex(GRAPH), 1)
    found = foresight.risks({"get_order": 0.1, "cancel_order": 0.9})
    assert [risk.tool for risk in found] == ["cancel_order", "cancel_order", "get_order"]
    assert foresight.risks({"find_customer": 1.0, "get_order": 0.0, "unheard_of": 1.0}) == []


@pytest.mark.parametrize(("runs", "least", "count"), [(6, 0.0, 1), (7, 0.0, 0), (1, 0.9, 0)])
def test_rare_errors_are_left_out(runs: int, least: float, count: int):
    assert len(Foresight(ToolIndex(GRAPH), runs).risks({"get_order": 1.0}, least)) == count


def test_a_memory_without_errors_foresees_none():
    from graph_schema.builder import GraphBuilder

    assert Foresight(ToolIndex(GraphBuilder().build(settings={})), 1).risks({"get_order": 1.0}) == []
