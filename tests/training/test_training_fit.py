from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fresh.retrieval.reranker import Reranker
from graph_schema.errors import ConfigError
from tests.retrieval_world import corpus
from training.data import MemoryData, TaskSampler
from training.fit import fit_reranker
from training.supervision import SupervisionSettings, supervise

CORPUS = corpus(48)
EVERYTHING = list(range(len(CORPUS)))
MODEL = {"hidden": 16, "text_hidden": 8, "lr": 0.01}


def test_no_query_meets_its_own_task() -> None:
    settings = SupervisionSettings(inner_folds=3, points_per_run=2)
    found = supervise(CORPUS, EVERYTHING, settings)
    names = sorted({run.task_key for run in CORPUS.runs})
    for labelled in found.train + found.valid:
        keys = set(labelled.example.view.graph.tables.runs["task_key"].to_pylist())
        assert names[labelled.task] not in keys and len(keys) > 10
    train, valid = ({x.task for x in part} for part in (found.train, found.valid))
    assert train and valid and not train & valid


def test_grades_and_hard_negatives() -> None:
    found = supervise(CORPUS, EVERYTHING, SupervisionSettings(inner_folds=3))
    guidance = [x for x in found.train if not x.whole_run]
    whole = [x for x in found.train if x.whole_run]
    assert guidance and whole
    for labelled in guidance + whole:
        assert (labelled.grades > 0).any() and not (labelled.hard & (labelled.grades != 0)).any()
    assert any(x.hard.any() for x in guidance)
    assert {float(g) for x in whole for g in x.grades} == {-1.0, 0.0, 1.0}


def test_shuffled_labels_keep_their_number_and_lose_their_place() -> None:
    settings = SupervisionSettings(inner_folds=3, whole_runs=False)
    real = supervise(CORPUS, EVERYTHING, settings).train
    mixed = supervise(CORPUS, EVERYTHING, replace(settings, shuffle_labels=True)).train
    assert len(real) == len(mixed)
    assert all((np.sort(a.grades) == np.sort(b.grades)).all() for a, b in zip(real, mixed, strict=True))
    assert any((a.grades != b.grades).any() for a, b in zip(real, mixed, strict=True))


def test_task_sampler_is_even_and_changes_with_the_epoch() -> None:
    sampler = TaskSampler([0] * 50 + [1] * 3, per_task=10, seed=0)
    first = list(sampler)
    assert len(first) == len(sampler) == 13 and sum(i < 50 for i in first) == 10
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first


def test_training_learns_what_shuffled_labels_do_not_teach() -> None:
    options = {"inner_folds": 3}
    _, real = fit_reranker(CORPUS, EVERYTHING, model=MODEL, data=options, max_epochs=6)
    _, mixed = fit_reranker(CORPUS, EVERYTHING, model=MODEL, data=options | {"shuffle_labels": True}, max_epochs=6)
    assert real["val/ndcg@10"] > 0.85
    assert real["val/ndcg@10"] > mixed["val/ndcg@10"] + 0.15


def test_a_seed_repeats_a_fit_exactly() -> None:
    def weights(seed: int) -> dict[str, torch.Tensor]:
        options = {"inner_folds": 3, "points_per_run": 2, "per_task": 4}
        reranker, _ = fit_reranker(CORPUS, EVERYTHING, model=MODEL, data=options, max_epochs=2, seed=seed)
        assert isinstance(reranker, Reranker)
        return reranker.state_dict()

    first, second, other = weights(3), weights(3), weights(4)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_nothing_to_learn_is_said_at_once() -> None:
    data = MemoryData.of_corpus(corpus(8), range(8), inner_folds=9)
    with pytest.raises(ConfigError, match="9 folds need"):
        data.setup()
    with pytest.raises(ConfigError, match="names no recorded runs"):
        MemoryData().setup()


def test_statistics_can_be_left_out() -> None:
    data = MemoryData.of_corpus(CORPUS, EVERYTHING, inner_folds=3, points_per_run=1, without=["log_"])
    data.setup()
    names = data.sizes()["stat_names"]
    assert names and not any(name.startswith("log_") for name in names)
    batch = next(iter(data.train_dataloader()))
    assert batch.inputs.stat.shape[1] == len(names)


def test_paths_that_hold_runs(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="nowhere"):
        MemoryData(paths=[str(tmp_path / "nowhere")], encoder="hashed").setup()
