"""e_match: what a query and a node have to do with each other, as a fixed list of numbers.

Everything here is computed from the graph, which is mined from recorded runs alone, and from the live history. No
feature knows which tool or domain it speaks of, so a reranker trained on one memory can be used with the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fresh.retrieval.bm25 import tokenize
from fresh.retrieval.encoder import Encoder
from fresh.retrieval.query import Query
from fresh.retrieval.view import MAX_COMPARED_TASKS, GraphView
from graph_schema.trajectory import CallStatus
from graph_schema.types import TYPE_CODE, NodeType

MATCH_NAMES: tuple[str, ...] = (
    "bm25", "bm25_reciprocal_rank", "cosine_text", "cosine_request",
    "tool_bm25", "tool_cosine_text", "tool_cosine_request",
    "seer_s1_best", "seer_s1_mean", "seer_s2_best", "seer_s2_mean", "seer_s3_best", "seer_s3_mean",
    "vote_sharp", "vote_soft", "left_sharp", "left_soft", "left_base", "left_lift",
    "follows_last", "follows_any", "tool_follows_last", "tool_follows_any",
    "tool_done", "tool_failed", "tool_is_last", "error_same_tool", "error_overlap",
    "offered", "not_offered", "read", "write", "other", "write_confirmed",
)  # fmt: skip
"""Columns of `MatchFeatures.match`."""

HISTORY_NAMES: tuple[str, ...] = (
    "calls", "failed_calls", "user_turns", "confirmed", "spoken", "in_error", "wrote", "reads_done",
)  # fmt: skip
"""Columns of `MatchFeatures.history`: what is true of the moment, whatever the node."""

_SHARP, _SOFT = 0.05, 0.2
NEAREST_TASKS = 256
_BM25_RANKED = 256
_TOOLS_BESIDE_TEXT = 0.2
"""Weight of the overlap in tools, beside that of the request, in finding the nearest tasks."""
_FULL_WEIGHT_WORDS = 30
"""A text of so many words weighs fully in a query's vector; "yes, please" hardly does."""
_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class EncodedQuery:
    """A query with its two text vectors, unit length, [d] each."""

    query: Query
    text: NDArray[np.float32]
    request: NDArray[np.float32]


def encode_queries(queries: Sequence[Query], encoder: Encoder) -> list[EncodedQuery]:
    """Embeds many queries at once, each distinct part once."""
    texts = sorted({text for query in queries for text in (*query.parts, *query.said)})
    vectors = dict(zip(texts, encoder.encode(texts), strict=True))
    return [_encoded(query, vectors, encoder.dim) for query in queries]


def encode_query(query: Query, encoder: Encoder) -> EncodedQuery:
    """Embeds one query; the encoder remembers the latest texts, so in a run only what is new costs time."""
    vectors = {text: encoder.encode_query(text) for text in (*query.parts, *query.said)}
    return _encoded(query, vectors, encoder.dim)


def _encoded(query: Query, vectors: Mapping[str, NDArray[np.float32]], dim: int) -> EncodedQuery:
    return EncodedQuery(query, _joined(query.parts, vectors, dim), _joined(query.said, vectors, dim))


def _joined(texts: Sequence[str], vectors: Mapping[str, NDArray[np.float32]], dim: int) -> NDArray[np.float32]:
    """Mean of the texts' vectors by their number of words, up to a bound, brought to unit length."""
    total = np.zeros(dim, dtype=np.float32)
    for text in texts:
        total += min(len(text.split()), _FULL_WEIGHT_WORDS) * vectors[text]
    length = np.linalg.norm(total)
    return total / length if length > 0 else total


@dataclass(frozen=True, slots=True)
class _Tally:
    """The history by tool of the memory, [K + 1] each; the last entry is for tools the memory does not know."""

    done: NDArray[np.float32]
    failed: NDArray[np.float32]
    last: int


@dataclass(frozen=True, slots=True)
class _GoodTasks:
    """Tasks of which a good run is known.

    Attributes:
        text: Embeddings of their texts, [t, d].
        sequences: How often the good run used each tool, [t, K].
        used: Whether it did, [t, K].
    """

    text: NDArray[np.float32]
    sequences: NDArray[np.float32]
    used: NDArray[np.float32]


class MatchFeatures:
    """Computes e_match over a graph.

    Args:
        view: The graph.
    """

    def __init__(self, view: GraphView) -> None:
        self.view = view

    def match(
        self, encoded: EncodedQuery, nodes: NDArray[np.int64], bm25: NDArray[np.float64] | None = None
    ) -> NDArray[np.float32]:
        """Features of one query and some nodes.

        Args:
            encoded: The query.
            nodes: Positions in the graph, [n].
            bm25: BM25 scores of all nodes, [N], if already known.

        Returns:
            [n, M] in the order of `MATCH_NAMES`; every entry finite.
        """
        view, query = self.view, encoded.query
        scores = view.bm25.scores(query.text) if bm25 is None else bm25
        tally = self._tally(query)
        tool = view.tool_of[nodes]
        columns: dict[str, NDArray[np.float32]] = {}
        self._text(columns, encoded, nodes, tool, scores)
        self._tasks(columns, encoded, nodes, tool, scores, tally)
        self._order(columns, nodes, tool, tally)
        self._past(columns, query, nodes, tool, tally)
        return np.stack([columns[name] for name in MATCH_NAMES], axis=1).astype(np.float32)

    def history(self, query: Query) -> NDArray[np.float32]:
        """What is true of the moment, [H] in the order of `HISTORY_NAMES`."""
        effects = self.view.effects
        done = [self.view.tool_index.get(t, -1) for t, status in query.used if status is CallStatus.OK]
        reads, writes = effects[done, 0].sum(), effects[done, 1].sum()
        failed = sum(status is CallStatus.ERROR for _, status in query.used)
        return np.array(
            [
                np.log1p(len(query.used)),
                np.log1p(failed),
                np.log1p(query.user_turns),
                query.confirmed,
                query.spoken,
                bool(query.last_error),
                np.log1p(writes),
                np.log1p(reads),
            ],
            dtype=np.float32,
        )

    def _tally(self, query: Query) -> _Tally:
        size = len(self.view.tools) + 1
        done, failed = np.zeros(size, np.float32), np.zeros(size, np.float32)
        last = -1
        for tool, status in query.used:
            row = self.view.tool_index.get(tool, -1)
            done[row] += status is CallStatus.OK
            failed[row] += status is CallStatus.ERROR
            last = row if status is CallStatus.OK else last
        return _Tally(done, failed, last)

    def _text(
        self,
        columns: dict[str, NDArray[np.float32]],
        encoded: EncodedQuery,
        nodes: NDArray[np.int64],
        tool: NDArray[np.int64],
        scores: NDArray[np.float64],
    ) -> None:
        own = (scores[nodes] / (scores.max(initial=0.0) + _EPSILON)).astype(np.float32)
        vectors = self.view.text[nodes].astype(np.float32)
        text, request = vectors @ encoded.text, vectors @ encoded.request
        columns["bm25"], columns["cosine_text"], columns["cosine_request"] = own, text, request
        columns["bm25_reciprocal_rank"] = _reciprocal_rank(scores, self.view.guidance)[nodes]
        for name, values in (("bm25", own), ("cosine_text", text), ("cosine_request", request)):
            columns[f"tool_{name}"] = self._best_of_tool(values, tool)

    def _best_of_tool(self, values: NDArray[np.float32], tool: NDArray[np.int64]) -> NDArray[np.float32]:
        best = np.full(len(self.view.tools) + 1, -np.inf, dtype=np.float32)
        np.maximum.at(best, tool, values)
        best[-1] = 0.0
        return best[tool]

    def _tasks(
        self,
        columns: dict[str, NDArray[np.float32]],
        encoded: EncodedQuery,
        nodes: NDArray[np.int64],
        tool: NDArray[np.int64],
        scores: NDArray[np.float64],
        tally: _Tally,
    ) -> None:
        """SEER's comparison with recorded tasks, and what the nearest tasks did or had still to do."""
        view = self.view
        seer = seer_scores(view, encoded)
        best, mean = self.over_tasks(seer, nodes)
        for i, name in enumerate(("s1", "s2", "s3")):
            columns[f"seer_{name}_best"], columns[f"seer_{name}_mean"] = best[:, i], mean[:, i]
        tasks = self._nearest_tasks(scores)
        left = (tasks.sequences > tally.done[:-1]).astype(np.float32)
        near = tasks.text @ encoded.request + _TOOLS_BESIDE_TEXT * _tool_overlap(tally.done[:-1], tasks.sequences)
        base = left.mean(axis=0, dtype=np.float64) if len(left) else np.zeros(len(view.tools))
        for name, scale in (("sharp", _SHARP), ("soft", _SOFT)):
            weight = _softmax(near / scale)
            columns[f"vote_{name}"] = _of_tool(weight @ tasks.used, tool)
            columns[f"left_{name}"] = _of_tool(weight @ left, tool)
        columns["left_base"] = _of_tool(base, tool)
        columns["left_lift"] = columns["left_sharp"] - columns["left_base"]

    def _nearest_tasks(self, scores: NDArray[np.float64]) -> _GoodTasks:
        """All tasks of a small memory; of a large one, those BM25 puts first."""
        view = self.view
        if view.num_tasks <= MAX_COMPARED_TASKS:
            return self._all_tasks
        own = scores[view.task_start : view.task_start + view.num_tasks]
        return self._good_tasks(np.sort(np.argpartition(-own, NEAREST_TASKS)[:NEAREST_TASKS]))

    @cached_property
    def _all_tasks(self) -> _GoodTasks:
        return self._good_tasks(np.arange(self.view.num_tasks))

    def _good_tasks(self, chosen: NDArray[np.int64]) -> _GoodTasks:
        view = self.view
        chosen = chosen[view.sequences[chosen].any(axis=1)]
        sequences = view.sequences[chosen]
        text = view.text[view.task_start + chosen].astype(np.float32)
        return _GoodTasks(text, sequences, (sequences > 0).astype(np.float32))

    def over_tasks(
        self, values: NDArray[np.float32], nodes: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Best and mean of values, [T, c], over the tasks behind each node, [n, c]; 0 for a node without tasks."""
        start, task = self.view.node_tasks
        size = start[nodes + 1] - start[nodes]
        shape = (len(nodes), values.shape[1])
        best, mean = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        some = np.flatnonzero(size)
        if not len(some):
            return best, mean
        counts = size[some]
        ends = np.cumsum(counts)
        flat = np.arange(ends[-1]) + np.repeat(start[nodes[some]] - (ends - counts), counts)
        found = values[task[flat]]
        best[some] = np.maximum.reduceat(found, ends - counts)
        mean[some] = np.add.reduceat(found, ends - counts) / counts[:, None]
        return best, mean

    def _order(
        self,
        columns: dict[str, NDArray[np.float32]],
        nodes: NDArray[np.int64],
        tool: NDArray[np.int64],
        tally: _Tally,
    ) -> None:
        view = self.view
        size = len(view.tools)
        done = np.flatnonzero(tally.done[:-1])
        last = np.zeros(len(view), np.float32)
        anywhere = np.zeros(len(view), np.float32)
        start, node, share = view.next_nodes
        for row in done:
            part = slice(start[row], start[row + 1])
            np.maximum.at(anywhere, node[part], share[part])
            if row == tally.last:
                last[node[part]] = share[part]
        columns["follows_last"], columns["follows_any"] = last[nodes], anywhere[nodes]
        nothing = np.zeros(size, np.float32)
        after_last = view.next_tools[tally.last] if tally.last >= 0 else nothing
        columns["tool_follows_last"] = _of_tool(after_last, tool)
        columns["tool_follows_any"] = _of_tool(view.next_tools[done].max(axis=0, initial=0.0), tool)

    def _past(
        self,
        columns: dict[str, NDArray[np.float32]],
        query: Query,
        nodes: NDArray[np.int64],
        tool: NDArray[np.int64],
        tally: _Tally,
    ) -> None:
        view = self.view
        has_tool = tool >= 0
        last_tool = view.tool_index.get(query.last_tool, -1)
        is_last = (has_tool & (tool == last_tool)).astype(np.float32)
        columns["tool_done"] = np.log1p(tally.done[tool]) * has_tool
        columns["tool_failed"] = np.log1p(tally.failed[tool]) * has_tool
        columns["tool_is_last"] = is_last
        columns["error_same_tool"] = is_last * bool(query.last_error)
        columns["error_overlap"] = self._error_overlap(query, nodes)
        offered = np.zeros(len(view.tools) + 1, np.float32)
        if query.offered is not None:
            offered[[view.tool_index[t] for t in query.offered if t in view.tool_index]] = 1
        known = np.float32(query.offered is not None)
        columns["offered"] = offered[tool] * has_tool
        columns["not_offered"] = (known - offered[tool]) * has_tool
        for column, name in enumerate(("read", "write", "other")):
            columns[name] = view.effects[tool, column]
        columns["write_confirmed"] = columns["write"] * query.confirmed

    def _error_overlap(self, query: Query, nodes: NDArray[np.int64]) -> NDArray[np.float32]:
        """Jaccard overlap of the last error's words with the texts of errors and repairs."""
        out = np.zeros(len(nodes), np.float32)
        words = frozenset(tokenize(query.last_error))
        if not words:
            return out
        roles = (self.view.types[nodes] == TYPE_CODE[NodeType.ERROR]) | (
            self.view.types[nodes] == TYPE_CODE[NodeType.REPAIR]
        )
        for position in np.flatnonzero(roles):
            own = self.view.words_of(int(nodes[position]))
            out[position] = len(words & own) / max(len(words | own), 1)
        return out


def seer_scores(view: GraphView, encoded: EncodedQuery) -> NDArray[np.float32]:
    """SEER's s1, s2 and s3 of the tasks it compares, [c, 3]; see `GraphView.compared`."""
    query = encoded.query
    used = [tool for tool, _ in query.used]
    offered = None if query.offered is None else sorted(query.offered)
    return view.seer.scores(encoded.request, used, offered).astype(np.float32)


def _of_tool(values: NDArray[np.floating], tool: NDArray[np.int64]) -> NDArray[np.float32]:
    """A value for each tool, [K], at each node; 0 for a node without a tool."""
    return np.append(values, 0.0).astype(np.float32)[tool]


def _softmax(values: NDArray[np.floating]) -> NDArray[np.floating]:
    if not len(values):
        return values
    weight = np.exp(values - values.max())
    return weight / weight.sum()


def _tool_overlap(done: NDArray[np.float32], sequences: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosine of the tools used so far with those of each recorded task, [T]; 0 before the first call."""
    norm = np.linalg.norm(sequences, axis=1) * np.linalg.norm(done)
    return np.where(norm > 0, sequences @ done / np.maximum(norm, _EPSILON), 0.0).astype(np.float32)


def _reciprocal_rank(scores: NDArray[np.float64], among: NDArray[np.int64]) -> NDArray[np.float32]:
    """``1 / rank`` of the best nodes among those that are ranked, 0 for the others."""
    out = np.zeros(len(scores), np.float32)
    own = scores[among]
    hits = np.flatnonzero(own)
    if len(hits) > _BM25_RANKED:
        hits = hits[np.argpartition(-own[hits], _BM25_RANKED)[:_BM25_RANKED]]
    best = hits[np.argsort(-own[hits], kind="stable")]
    out[among[best]] = 1.0 / np.arange(1, len(best) + 1)
    return out
