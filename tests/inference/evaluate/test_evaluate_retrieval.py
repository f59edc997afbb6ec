from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch

from fresh.retrieval.corpus import Corpus
from fresh.retrieval.features import MATCH_NAMES
from fresh.retrieval.rankers import RANKERS
from fresh.retrieval.reranker import Reranker, RerankerConfig
from graph_schema.errors import ConfigError
from inference.evaluate.retrieval import CONFIGS, SHUFFLED, TRAINED, RetrievalConfig, evaluate_retrieval, load_corpus
from inference.evaluate.run_retrieval import RUN_RANKERS, Documents, without_repeats
from tests.retrieval_world import corpus

CORPUS = corpus(40)
CONFIG = RetrievalConfig(name="desk", paths=("x",), folds=2, points_per_run=3, whole_runs=True)


def by_hand(
    corpus: Corpus,
    runs: Sequence[int],
    *,
    model: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    max_epochs: int = 0,
    seed: int = 0,
) -> tuple[Reranker, dict[str, float]]:
    """A reranker whose score is what like requests had still to do; nothing at all for shuffled labels."""
    view = corpus.view(runs)
    assert not {corpus.groups[i] for i in runs} & {g for i, g in enumerate(corpus.groups) if i not in set(runs)}
    config = RerankerConfig(text_dim=64, stat_names=tuple(view.stat_names), hidden=8, text_hidden=4, encoder="hashed")
    reranker = Reranker(config)
    torch.nn.init.zeros_(reranker.node_head[2].weight)
    torch.nn.init.zeros_(reranker.direct.weight)
    if not (data or {}).get("shuffle_labels"):
        reranker.direct.weight.data[0, MATCH_NAMES.index("left_sharp")] = 1
    return reranker, {"val/ndcg@10": 0.5}


def test_report_on_runs_held_out() -> None:
    report = evaluate_retrieval(CORPUS, CONFIG, by_hand)
    assert set(report.nodes) == {*RANKERS, TRAINED, SHUFFLED}
    mean = {name: own["ndcg@10"].mean for name, own in report.nodes.items()}
    assert mean[TRAINED] > mean[report.best_other] >= max(mean[name] for name in RANKERS)
    assert abs(mean[SHUFFLED] - mean["random"]) < 0.15
    assert report.ratio == pytest.approx(mean[TRAINED] / mean[report.best_other])
    gap = report.difference["ndcg@10"]
    assert gap.mean == pytest.approx(mean[TRAINED] - mean[report.best_other]) and gap.low <= gap.mean <= gap.high
    assert set(report.runs) == {*RUN_RANKERS, "r-gcn"} and report.runs_difference is not None
    assert report.counts["tasks"] == 20 and report.counts["run_queries"] > 20
    assert len(report.tables()) == 2


def test_report_repeats_and_is_written_whole(tmp_path: Path) -> None:
    first, second = (evaluate_retrieval(CORPUS, CONFIG, by_hand).nodes["bm25"] for _ in range(2))
    assert first == second
    report = evaluate_retrieval(CORPUS, CONFIG, by_hand)
    report.write_json(tmp_path / "out.json")
    written = orjson.loads((tmp_path / "out.json").read_bytes())
    assert written["settings"]["folds"] == 2 and written["versions"]["torch"] and written["settings"]["seed"] == 0
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


def test_no_repeats_keeps_failures_behind_and_takes_kinds_in_turn() -> None:
    documents = Documents(CORPUS, range(12), CORPUS.view(range(12)))
    documents.success = np.array([1.0] * 11 + [0.0])
    kinds = [next(iter(kind)) for kind in documents.kinds if kind]
    scores = np.arange(12, 0, -1.0)
    order = np.argsort(-without_repeats(documents, scores))
    distinct = len(set(kinds[:11]))
    assert distinct == 4 and len({kinds[i] for i in order[:4]}) == 4
    assert order[0] == 0 and order[-1] == 11 and sorted(order) == list(range(12))


def test_packaged_configs_are_read() -> None:
    names = {"airline", "retail", "agentdojo"}
    assert names <= {path.stem for path in CONFIGS.glob("*.yaml")}
    assert {RetrievalConfig.read(name).name for name in names} == names


def test_mistakes_in_a_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="airline"):
        RetrievalConfig.read("nowhere")
    (tmp_path / "odd.yaml").write_text("name: x\npaths: [a]\nfold: 3\n")
    with pytest.raises(ConfigError, match="fold"):
        RetrievalConfig.read(tmp_path / "odd.yaml")
    with pytest.raises(ConfigError, match="none of"):
        load_corpus(RetrievalConfig.read("airline"), tmp_path, CORPUS.encoder)


def test_configs_find_the_recorded_runs(shared_data: Path) -> None:
    found = load_corpus(RetrievalConfig.read("airline"), shared_data, CORPUS.encoder)
    assert len(found) > 400 and {run.domain for run in found.runs} == {"airline"}
    assert len(set(found.groups)) < len({run.task_key for run in found.runs}), "customers join tasks"
