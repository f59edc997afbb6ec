"""Queries, candidates, positives and negatives, from feedback alone.

Every training query is asked of a memory that was mined without its own task, as every query will be once the memory is
frozen. Were its own run in the graph, the node texts would hold its words and the counts its calls, and the network
would learn to look for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fresh.retrieval.candidates import Recall
from fresh.retrieval.corpus import Corpus
from fresh.retrieval.features import MatchFeatures
from fresh.retrieval.relevance import grades, task_writes
from fresh.retrieval.reranker import Example, make_example
from fresh.retrieval.view import GraphView
from fresh.splits import folds
from graph_schema.types import TYPE_CODE, NodeType

_NOT_RANKED = -1.0
"""Grade of nodes that are neither right nor wrong for a query, because they are not what it asks for."""


@dataclass(frozen=True)
class SupervisionSettings:
    """How queries are drawn from runs.

    Attributes:
        inner_folds: Parts the tasks are dealt into; each part's queries are asked of a memory of the others. The first
            part is for validation.
        points_per_run: At most this many decision points of a run, drawn at random.
        runs_per_task: At most this many runs of a task, drawn at random.
        whole_runs: Whether to learn the retrieval of whole runs too.
        shuffle_labels: Gives each query's grades to random nodes: the control that must not learn anything.
        seed: Of all drawing.
    """

    inner_folds: int = 4
    points_per_run: int = 6
    runs_per_task: int = 8
    whole_runs: bool = True
    shuffle_labels: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Labelled:
    """A query over its candidates, with what feedback says of them.

    Attributes:
        example: Inputs of the network.
        grades: Relevance of each candidate, [n]; -1 for those that are not ranked for this query.
        hard: Candidates among the negatives that look right, [n]: BM25's best, and nodes of failed uses.
        whole_run: The query is for recorded tasks, not for guidance.
        task: The task it comes from, as a number.
        missed: Relevant nodes of the memory that recall left out, counted so that metrics can pay for them.
    """

    example: Example
    grades: NDArray[np.float32]
    hard: NDArray[np.bool_]
    whole_run: bool
    task: int
    missed: int = 0


@dataclass(frozen=True)
class Supervision:
    """What to train on and what to stop by."""

    train: list[Labelled]
    valid: list[Labelled]


def supervise(corpus: Corpus, runs: Sequence[int], settings: SupervisionSettings) -> Supervision:
    """Builds training and validation queries from some runs of a corpus.

    Args:
        corpus: The runs.
        runs: Which of them may be used.
        settings: How.

    Raises:
        ConfigError: Fewer groups of tasks than inner folds.
    """
    part = folds([corpus.groups[i] for i in runs], settings.inner_folds, settings.seed)
    train: list[Labelled] = []
    valid: list[Labelled] = []
    for number in range(settings.inner_folds):
        inside = [i for i, own in zip(runs, part, strict=True) if own == number]
        view = corpus.view(i for i, own in zip(runs, part, strict=True) if own != number)
        (valid if number == 0 else train).extend(_ask(corpus, inside, view, settings))
    return Supervision(train, valid)


def _ask(corpus: Corpus, runs: Sequence[int], view: GraphView, settings: SupervisionSettings) -> Iterator[Labelled]:
    """All queries of some runs, asked of one memory."""
    recall = Recall(view)
    features = MatchFeatures(view)
    rng = np.random.default_rng(settings.seed)
    numbers = {task: i for i, task in enumerate(sorted({run.task_key for run in corpus.runs}))}
    writes = task_writes(view)
    chosen = _some_of_each_task(corpus, runs, settings, rng)
    # All texts at once: the encoder sorts them by length and wastes nothing on padding.
    corpus.encode(p.query for i in chosen for p in corpus.some_points(i, settings.points_per_run, settings.seed))
    corpus.encode(corpus.openings[i] for i in chosen if settings.whole_runs)
    for i in chosen:
        task = numbers[corpus.runs[i].task_key]
        points = corpus.some_points(i, settings.points_per_run, settings.seed)
        for point, query in zip(points, corpus.encode(p.query for p in points), strict=True):
            found = recall.find(query.query)
            truth = grades(view, point)
            labelled = _labelled(make_example(view, features, found, query), truth, view.guidance, False, task)
            if (labelled.grades > 0).any():
                yield _shuffled(labelled, rng) if settings.shuffle_labels else labelled
        if settings.whole_runs:
            yield from _ask_for_runs(corpus, i, view, recall, features, writes, task)


def _some_of_each_task(
    corpus: Corpus, runs: Sequence[int], settings: SupervisionSettings, rng: np.random.Generator
) -> list[int]:
    by_task: dict[str, list[int]] = {}
    for i in runs:
        by_task.setdefault(corpus.runs[i].task_key, []).append(i)
    chosen: list[int] = []
    for own in by_task.values():
        chosen += [own[j] for j in sorted(rng.permutation(len(own))[: settings.runs_per_task])]
    return chosen


def _ask_for_runs(
    corpus: Corpus,
    run: int,
    view: GraphView,
    recall: Recall,
    features: MatchFeatures,
    writes: Sequence[frozenset[str] | None],
    task: int,
) -> Iterator[Labelled]:
    """The query for recorded tasks that needed the same writes, if this run's are known."""
    wanted = corpus.good_writes[run]
    if wanted is None:
        return
    truth = np.zeros(len(view), dtype=np.float32)
    known = np.array([w is not None for w in writes], dtype=bool)
    truth[view.task_start : view.task_start + view.num_tasks] = [w == wanted for w in writes]
    among = view.task_start + np.flatnonzero(known)
    (query,) = corpus.encode([corpus.openings[run]])
    labelled = _labelled(make_example(view, features, recall.find(query.query), query), truth, among, True, task)
    if (labelled.grades > 0).any() and (labelled.grades == 0).any():
        yield labelled


def _labelled(
    example: Example, truth: NDArray[np.float32], among: NDArray[np.int64], whole_run: bool, task: int
) -> Labelled:
    nodes, view = example.candidates.nodes, example.view
    ranked = np.zeros(len(truth), dtype=bool)
    ranked[among] = True
    own = np.where(ranked[nodes], truth[nodes], _NOT_RANKED).astype(np.float32)
    negative = own == 0
    bm25 = example.candidates.bm25[nodes] * negative
    bar = np.sort(bm25)[-min(16, len(bm25))]
    failed = view.graph.column("failure")[nodes] > view.graph.column("success")[nodes]
    hard = negative & ((bm25 >= max(bar, 1e-9)) | (failed & (view.types[nodes] == TYPE_CODE[NodeType.ACTION])))
    missed = int((truth[ranked] > 0).sum() - (own > 0).sum())
    return Labelled(example, own, hard, whole_run, task, missed)


def _shuffled(labelled: Labelled, rng: np.random.Generator) -> Labelled:
    """The same grades on random candidates of those that are ranked."""
    mixed = labelled.grades.copy()
    ranked = mixed >= 0
    mixed[ranked] = rng.permutation(mixed[ranked])
    return Labelled(labelled.example, mixed, labelled.hard & (mixed == 0), labelled.whole_run, labelled.task)


def ask(corpus: Corpus, runs: Sequence[int], memory: Sequence[int], settings: SupervisionSettings) -> list[Labelled]:
    """Labelled queries of some runs, asked of a memory mined from others."""
    return list(_ask(corpus, runs, corpus.view(memory), settings))
