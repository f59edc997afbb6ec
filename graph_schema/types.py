"""Node types, relations, and the triples an edge may form."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class NodeType(StrEnum):
    """The seven node types, in storage order."""

    TASK = "Task"
    TOOL = "Tool"
    ACTION = "Action"
    OBSERVATION = "Observation"
    ERROR = "Error"
    PRECONDITION = "Precondition"
    REPAIR = "Repair"


class Relation(StrEnum):
    """The ten relations, in storage order."""

    CONTAINS = "contains"
    USES = "uses"
    RETURNS = "returns"
    VERIFIED_BY = "verified_by"
    FAILS_BECAUSE = "fails_because"
    REQUIRES = "requires"
    GUARDS = "guards"
    FIXED_BY = "fixed_by"
    SUPPORTS = "supports"
    PRECEDES = "precedes"


class EdgeType(NamedTuple):
    """A triple as PyTorch Geometric writes it."""

    source: NodeType
    relation: Relation
    target: NodeType


EDGE_TYPES: tuple[EdgeType, ...] = (
    EdgeType(NodeType.TASK, Relation.CONTAINS, NodeType.ACTION),
    EdgeType(NodeType.ACTION, Relation.USES, NodeType.TOOL),
    EdgeType(NodeType.ACTION, Relation.RETURNS, NodeType.OBSERVATION),
    EdgeType(NodeType.ACTION, Relation.VERIFIED_BY, NodeType.OBSERVATION),
    EdgeType(NodeType.ACTION, Relation.FAILS_BECAUSE, NodeType.ERROR),
    EdgeType(NodeType.ACTION, Relation.REQUIRES, NodeType.PRECONDITION),
    EdgeType(NodeType.PRECONDITION, Relation.GUARDS, NodeType.ACTION),
    EdgeType(NodeType.ERROR, Relation.FIXED_BY, NodeType.REPAIR),
    EdgeType(NodeType.REPAIR, Relation.SUPPORTS, NodeType.ACTION),
    EdgeType(NodeType.ACTION, Relation.PRECEDES, NodeType.ACTION),
)
"""Each relation has exactly one triple, so a relation alone names its edge type."""

NODE_TYPES: tuple[NodeType, ...] = tuple(NodeType)
GUIDANCE_TYPES: tuple[NodeType, ...] = (
    NodeType.ACTION,
    NodeType.ERROR,
    NodeType.PRECONDITION,
    NodeType.REPAIR,
)
"""The types a line of guidance can be made from, and so the ones retrieval ranks."""

TYPE_CODE = {node_type: code for code, node_type in enumerate(NODE_TYPES)}
RELATION_CODE = {edge.relation: code for code, edge in enumerate(EDGE_TYPES)}
"""Numbers under which types and relations are stored."""


def triple_message(source: NodeType, relation: Relation, target: NodeType) -> str:
    """What is wrong with an edge whose triple is not allowed."""
    allowed = EDGE_TYPES[RELATION_CODE[relation]]
    return f"edge {source} -{relation}-> {target} is not allowed; {relation} joins {allowed.source} to {allowed.target}"
