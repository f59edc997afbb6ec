"""What a memory is made of: run records, node and edge types, the graph, its file.

Names are loaded when first used, so that importing the error tree alone costs neither NumPy nor Arrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graph_schema.builder import GraphBuilder
    from graph_schema.errors import (
        ConfigError,
        EvaluatorError,
        FreshError,
        FrozenMemoryError,
        MemoryFileError,
        MissingExtraError,
        SchemaError,
        TraceError,
    )
    from graph_schema.graph import ExperienceGraph, Node, Run, node_id
    from graph_schema.trajectory import (
        CallStatus,
        Effect,
        Feedback,
        GoldAction,
        Observation,
        Outcome,
        Role,
        Source,
        ToolCall,
        ToolSpec,
        Trajectory,
        Turn,
    )
    from graph_schema.types import EDGE_TYPES, GUIDANCE_TYPES, NODE_TYPES, EdgeType, NodeType, Relation

__all__ = [
    "EDGE_TYPES",
    "GUIDANCE_TYPES",
    "NODE_TYPES",
    "CallStatus",
    "ConfigError",
    "EdgeType",
    "Effect",
    "EvaluatorError",
    "ExperienceGraph",
    "Feedback",
    "FreshError",
    "FrozenMemoryError",
    "GoldAction",
    "GraphBuilder",
    "MemoryFileError",
    "MissingExtraError",
    "Node",
    "NodeType",
    "Observation",
    "Outcome",
    "Relation",
    "Role",
    "Run",
    "SchemaError",
    "Source",
    "ToolCall",
    "ToolSpec",
    "TraceError",
    "Trajectory",
    "Turn",
    "node_id",
]

_HOMES = {
    "errors": (
        "ConfigError",
        "EvaluatorError",
        "FreshError",
        "FrozenMemoryError",
        "MemoryFileError",
        "MissingExtraError",
        "SchemaError",
        "TraceError",
    ),
    "builder": ("GraphBuilder",),
    "graph": ("ExperienceGraph", "Node", "Run", "node_id"),
    "trajectory": (
        "CallStatus",
        "Effect",
        "Feedback",
        "GoldAction",
        "Observation",
        "Outcome",
        "Role",
        "Source",
        "ToolCall",
        "ToolSpec",
        "Trajectory",
        "Turn",
    ),
    "types": ("EDGE_TYPES", "GUIDANCE_TYPES", "NODE_TYPES", "EdgeType", "NodeType", "Relation"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
