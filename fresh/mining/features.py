"""Stored statistics of each node: the e_stat part of FRESH's node features (h_v^(0), section 3.3)."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np

from fresh.expg.select import DEFAULT_BUDGET, quota
from fresh.expg.stats import FEATURE_NAMES, summarise_sizes
from fresh.mining.evidence import Judged, RunEvidence
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
EXPG_FEATURES = tuple(f"expg_{name}" for name in FEATURE_NAMES)
_PRECONDITION_FIELDS = ("necessity", "caught", "confidence", "lift")
_EFFECTS = ("read", "write", "other")


def add_features(graph: ExperienceGraph, runs: list[RunEvidence], encoder: Encoder | None) -> ExperienceGraph:
    """The graph with the feature ``stat`` (float32 [N, s]), and ``text`` (float16 [N, d]) where an encoder is given."""
    stat = np.concatenate([count_features(graph), class_features(graph, runs)], axis=1)
    names = [*COUNT_FEATURES, *EXPG_FEATURES]
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


def class_features(graph: ExperienceGraph, runs: list[RunEvidence]) -> np.ndarray:
    """ExpG's equivalence-class statistics, float32 [N, len(EXPG_FEATURES)] (arXiv 2608.03403).

    An Action has those of its own calls, a Task zeros, and every other node those of its tool's calls.
    """
    by_tool: dict[str, list[Judged]] = defaultdict(list)
    by_pattern: dict[str, list[Judged]] = defaultdict(list)
    for call in itertools.chain.from_iterable(item.calls for item in runs):
        if call.judged is not None:
            by_tool[call.tool].append(call.judged)
            by_pattern[call.pattern].append(call.judged)
    tools = {tool: _class_vector(judged) for tool, judged in by_tool.items()}
    patterns = {pattern: _class_vector(judged) for pattern, judged in by_pattern.items()}
    result = np.zeros((len(graph), len(EXPG_FEATURES)), dtype=np.float32)
    actions = graph.indices(NodeType.ACTION)
    keys = graph.tables.nodes["key"].slice(actions.start, len(actions)).to_pylist()
    own = dict(zip(actions, keys, strict=True))
    for index, tool in enumerate(graph.tools):
        vector = patterns.get(own[index]) if index in own else tools.get(tool)
        if vector is not None:
            result[index] = vector
    return result


def _class_vector(judged: list[Judged]) -> list[float]:
    statistics = summarise_sizes(
        Counter(item.scores for item in judged),
        aspect_sums=[sum(column) for column in zip(*(item.scores for item in judged), strict=True)],
        successes=sum(item.success for item in judged),
        seconds=[item.seconds for item in judged if item.seconds is not None],
        tokens=[float(item.tokens) for item in judged if item.tokens is not None],
        q=quota((item.length for item in judged), DEFAULT_BUDGET),
        alpha=None,
    )
    return statistics.vector()


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
