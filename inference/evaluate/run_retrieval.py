"""Retrieval of whole runs: of other tasks' runs, one that succeeded with the same set of gold writes.

The query is the user's first three turns, so that the figures compare with those of any memory of traces. The trained
ranker shows one run of each kind before it shows a second: runs that made the same writes teach the same thing, and a
recorded task often has a dozen of them. What that alone is worth is seen in the row of BM25 with the same treatment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fresh.retrieval.bm25 import BM25Index
from fresh.retrieval.corpus import Corpus
from fresh.retrieval.features import EncodedQuery, seer_scores
from fresh.retrieval.metrics import Estimate, bootstrap, mean_by_task, ranked, reciprocal_rank
from fresh.retrieval.relevance import task_writes
from fresh.retrieval.retriever import Retriever
from fresh.retrieval.view import GraphView
from graph_schema.trajectory import Outcome
from graph_schema.types import NodeType

_SUCCESS = {Outcome.SUCCESS: 1.0, Outcome.UNKNOWN: 0.5, Outcome.FAILURE: 0.0}


class Documents:
    """Recorded runs as documents.

    Args:
        corpus: All runs.
        runs: Those that are documents.
        view: The memory mined from them.
    """

    def __init__(self, corpus: Corpus, runs: Sequence[int], view: GraphView) -> None:
        self.runs = list(runs)
        self.bm25 = BM25Index.build([corpus.openings[i].text for i in runs])
        self.vectors = np.stack([q.text for q in corpus.encode(corpus.openings[i] for i in runs)])
        self.success = np.array([_SUCCESS[corpus.runs[i].feedback.outcome] for i in runs])
        self.writes = [corpus.good_writes[i] for i in runs]
        nodes = [view.graph.find(NodeType.TASK, corpus.runs[i].task_key) for i in runs]
        self.task = np.array([-1 if node is None else node - view.task_start for node in nodes])
        self.view = view
        known = task_writes(view)
        self.kinds = [known[task] if task >= 0 else None for task in self.task]


RunRanker = Callable[[Documents, EncodedQuery], NDArray[np.float64]]


def _bm25(documents: Documents, query: EncodedQuery) -> NDArray[np.float64]:
    return documents.bm25.scores(query.query.text)


def _dense(documents: Documents, query: EncodedQuery) -> NDArray[np.float64]:
    return (documents.vectors @ query.text).astype(np.float64)


def _seer(documents: Documents, query: EncodedQuery) -> NDArray[np.float64]:
    by_task = np.zeros(documents.view.num_tasks + 1)
    by_task[documents.view.compared] = seer_scores(documents.view, query)[:, :2].sum(axis=1)
    return by_task[documents.task]


def _bm25_and_success(documents: Documents, query: EncodedQuery) -> NDArray[np.float64]:
    scores = _bm25(documents, query)
    return scores / max(scores.max(initial=0.0), 1e-9) + documents.success


def without_repeats(documents: Documents, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores that put the best run of each kind first, then the second best of each, and so on.

    A kind is the set of tools that wrote in a good run of the task, as the memory has it. Runs known to have failed
    keep their place behind the others.
    """
    turn = np.zeros(len(scores))
    seen: Counter[tuple[float, frozenset[str] | None]] = Counter()
    for i in np.argsort(-scores, kind="stable"):
        kind = (float(documents.success[i]), documents.kinds[i])
        turn[i] = seen[kind]
        seen[kind] += 1
    order = np.lexsort((-scores, turn, -documents.success))
    out = np.empty(len(scores))
    out[order] = np.arange(len(scores), 0, -1)
    return out


def _bm25_without_repeats(documents: Documents, query: EncodedQuery) -> NDArray[np.float64]:
    return without_repeats(documents, _bm25_and_success(documents, query))


RUN_RANKERS: dict[str, RunRanker] = {
    "bm25": _bm25,
    "dense": _dense,
    "seer s1 + s2": _seer,
    "bm25 + success prior": _bm25_and_success,
    "bm25 + success prior, no repeats": _bm25_without_repeats,
}
"""Every ranker of runs but the trained one."""


def trained_scores(documents: Documents, retriever: Retriever, query: EncodedQuery) -> NDArray[np.float64]:
    """The trained ranker's scores of runs: runs known to have succeeded first, no repeats.

    The network scores the run's task by its first request; what was said later is in the run alone, so BM25 over the
    run's words is added, both standardised and weighing the same.
    """
    ranking = retriever.rank_tasks(query)
    by_task = np.full(retriever.view.num_tasks + 1, np.nan)
    by_task[ranking.nodes - retriever.view.task_start] = ranking.scores
    own = by_task[documents.task]
    own = np.where(np.isnan(own), np.nanmin(own, initial=0.0), own)  # recall left the task out
    return without_repeats(documents, _standardised(own) + _standardised(_bm25(documents, query)))


def _standardised(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return (scores - scores.mean()) / max(float(scores.std()), 1e-9)


class RunQueries:
    """Reciprocal ranks of every ranker of runs, query by query."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.clusters: dict[Any, int] = {}
        self.values: dict[str, list[float]] = {name: [] for name in (*RUN_RANKERS, "r-gcn")}

    def __len__(self) -> int:
        return len(self.tasks)

    def ask(self, corpus: Corpus, inside: Sequence[int], held_out: Sequence[int], retriever: Retriever) -> None:
        """Asks for runs with the openings of those held out; queries that nothing answers are left out."""
        documents = Documents(corpus, inside, retriever.view)
        for run, query in zip(held_out, corpus.encode(corpus.openings[i] for i in held_out), strict=True):
            gold = corpus.runs[run].gold
            wanted = corpus.good_writes[run]
            if gold is None or wanted is None:
                continue
            truth = np.array([w == wanted for w in documents.writes]) & (documents.success == 1)
            if not truth.any():
                continue
            self.tasks.append(corpus.runs[run].task_key)
            self.clusters[corpus.runs[run].task_key] = corpus.groups[run]
            for name, ranker in RUN_RANKERS.items():
                self._add(name, truth, ranker(documents, query))
            self._add("r-gcn", truth, trained_scores(documents, retriever, query))

    def _add(self, name: str, truth: NDArray[np.bool_], scores: NDArray[np.float64]) -> None:
        order = ranked(scores, seed=len(self.tasks))
        self.values[name].append(reciprocal_rank(truth.astype(np.float32), order))

    def estimates(self) -> dict[str, Estimate]:
        """MRR@10 of each ranker, mean over tasks; empty when nothing was asked."""
        if not self.tasks:
            return {}
        return {n: bootstrap(mean_by_task(v, self.tasks), self.clusters) for n, v in self.values.items()}

    def difference(self, left: str, right: str) -> Estimate | None:
        """Paired difference of two rankers; None when nothing was asked."""
        if not self.tasks:
            return None
        paired = [a - b for a, b in zip(self.values[left], self.values[right], strict=True)]
        return bootstrap(mean_by_task(paired, self.tasks), self.clusters)
