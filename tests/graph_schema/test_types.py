from __future__ import annotations

from graph_schema import EDGE_TYPES, GUIDANCE_TYPES, NODE_TYPES, NodeType, Relation


def test_seven_node_types_and_ten_relations() -> None:
    assert [str(t) for t in NODE_TYPES] == [
        "Task",
        "Tool",
        "Action",
        "Observation",
        "Error",
        "Precondition",
        "Repair",
    ]
    assert len(EDGE_TYPES) == len(Relation) == 10


def test_a_relation_names_its_triple() -> None:
    assert len({edge.relation for edge in EDGE_TYPES}) == len(EDGE_TYPES)
    assert {edge.relation for edge in EDGE_TYPES} == set(Relation)


def test_guidance_is_never_made_of_a_task_a_tool_or_an_observation() -> None:
    assert set(GUIDANCE_TYPES) == set(NODE_TYPES) - {NodeType.TASK, NodeType.TOOL, NodeType.OBSERVATION}
