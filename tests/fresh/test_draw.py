from __future__ import annotations

import matplotlib as mpl
import pytest

mpl.use("Agg")

from hand_made import EFFECTS, Refused, run, step, user

from fresh.draw import draw_neighbourhood, neighbourhood
from fresh.mining import mine
from graph_schema import ExperienceGraph, NodeType, SchemaError

TRIED = run(user("x"), step("lend", {"book": "B-1"}, Refused("not found")), step("lend", {"book": "B-2"}))


@pytest.fixture(scope="module")
def graph() -> ExperienceGraph:
    return mine([TRIED], effects=EFFECTS)


def test_neighbours_by_distance_type_and_number(graph: ExperienceGraph) -> None:
    error = graph.indices(NodeType.ERROR)[0]
    near = {graph.node(i).type for i in neighbourhood(graph, error, hops=1)}
    assert near == {NodeType.ERROR, NodeType.ACTION, NodeType.REPAIR}
    assert set(neighbourhood(graph, error, hops=9)) == set(range(len(graph)))
    assert len(neighbourhood(graph, error, hops=9, most=3)) == 3
    types = (NodeType.ERROR, NodeType.REPAIR)
    assert {graph.node(i).type for i in neighbourhood(graph, error, types=types)} == set(types)
    with pytest.raises(SchemaError, match="node 99"):
        neighbourhood(graph, 99)


def test_boxes_stay_apart_and_say_what_they_are(graph: ExperienceGraph) -> None:
    axes = draw_neighbourhood(graph, graph.indices(NodeType.ACTION)[0])
    axes.figure.canvas.draw()
    boxes = [text for text in axes.texts if text.get_text()]
    assert len(boxes) == len(graph)
    assert any("change book and call lend again" in box.get_text().replace("\n", " ") for box in boxes)
    spans = [box.get_bbox_patch().get_window_extent() for box in boxes]
    assert not any(a.overlaps(b) for i, a in enumerate(spans) for b in spans[i + 1 :])
    legend = axes.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == ["Task", "Tool", "Action", "Observation", "Error", "Repair"]
