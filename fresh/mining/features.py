"""Stored statistics of each node: the e_stat part of FRESH's node features (h_v^(0), section 3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fresh.mining.evidence import RunEvidence
from graph_schema.graph import ExperienceGraph
from graph_schema.types import NodeType

if TYPE_CHECKING:
    from fresh.retrieval.encoder import Encoder

COUNT_FEATURES = (
    "log_success",
    "log_failure",
    "log_unknown",
    "success_rate",
    "utility",
    "log_runs",
    "run_share",
    "recency",
    "dated",
    "log_in_degree",
    "log_out_degree",
    "violated_success_rate",
    "necessity",
    "caught",
    "confidence",
    "lift",
    "is_read",
    "is_write",
    "is_other",
)
_PRECONDITION_FIELDS = ("necessity", "caught", "confidence", "lift")
_EFFECTS = ("read", "write", "other")


def add_features(graph: ExperienceGraph, runs: list[RunEvidence], encoder: Encoder | None) -> ExperienceGraph:
    """The graph with the feature ``stat`` (float32 [N, s]), and ``text`` (float16 [N, d]) where an encoder is given."""
    stat, names = count_features(graph), list(COUNT_FEATURES)
    features = {"stat": stat}
    if encoder is not None:
        features["text"] = encoder.encode(graph.texts).astype(np.float16)
    return ExperienceGraph(graph.tables, settings=graph.settings, features=features, feature_names={"stat": names})


def count_features(graph: ExperienceGraph) -> np.ndarray:
    """Statistics from counts alone, float32 [N, len(COUNT_FEATURES)].

    The success rate is smoothed, (s + 1) / (s + f + 2); utility is (s - f) / (s + f + u + 1), in (-1, 1); recency is
    the rank of the last sighting among all nodes, in [0, 1], and 0 where no run was dated.
    """
    success, failure, unknown = (graph.column(n).astype(np.float64) for n in ("success", "failure", "unknown"))
    broken = graph.column("violated_success").astype(np.float64)
    broken_failed = graph.column("violated_failure").astype(np.float64)
    runs = graph.column("runs").astype(np.float64)
    total_runs = max(1, graph.tables.runs.num_rows)
    dated = ~np.isnan(graph.column("last_seen"))
    source, target = graph.edge_index
    size = len(graph)
    columns = [
        np.log1p(success),
        np.log1p(failure),
        np.log1p(unknown),
        (success + 1) / (success + failure + 2),
        (success - failure) / (success + failure + unknown + 1),
        np.log1p(runs),
        runs / total_runs,
        _ranks(graph.column("last_seen"), dated),
        dated.astype(np.float64),
        np.log1p(np.bincount(target, minlength=size)),
        np.log1p(np.bincount(source, minlength=size)),
        np.where(broken + broken_failed > 0, (broken + 1) / (broken + broken_failed + 2), 0.0),
        *_data_columns(graph),
    ]
    return np.stack(columns, axis=1).astype(np.float32) if size else np.zeros((0, len(COUNT_FEATURES)), np.float32)


def _ranks(values: np.ndarray, dated: np.ndarray) -> np.ndarray:
    result = np.zeros(len(values))
    if dated.any():
        unique = np.unique(values[dated])
        result[dated] = (np.searchsorted(unique, values[dated]) + 1) / len(unique)
    return result


def _data_columns(graph: ExperienceGraph) -> list[np.ndarray]:
    conditions = np.zeros((len(_PRECONDITION_FIELDS), len(graph)))
    for node in graph.nodes(NodeType.PRECONDITION):
        conditions[:, node.index] = [node.data[name] for name in _PRECONDITION_FIELDS]
    effects = np.zeros((len(_EFFECTS), len(graph)))
    by_tool = graph.settings.get("effects", {})
    for index, tool in enumerate(graph.tools):
        if tool in by_tool:
            effects[_EFFECTS.index(by_tool[tool]), index] = 1.0
    return [*conditions, *effects]
