from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fresh.frozen import freeze, read_frozen
from fresh.history import RunIndex
from fresh.retrieval.candidates import Recall
from fresh.retrieval.encoder import HashedEncoder
from fresh.retrieval.features import MATCH_NAMES, MatchFeatures, encode_query
from fresh.retrieval.query import Query, make_query
from fresh.retrieval.reranker import Example, Reranker, RerankerConfig, Standardise, collate, make_example, stat_columns
from fresh.retrieval.retriever import Retriever
from fresh.retrieval.view import GraphView
from graph_schema.errors import ConfigError, MemoryFileError, SchemaError
from graph_schema.types import GUIDANCE_TYPES
from tests.retrieval_world import corpus, run

CORPUS = corpus()
VIEW = CORPUS.view(range(24))
CONFIG = RerankerConfig(text_dim=64, stat_names=tuple(VIEW.stat_names), hidden=16, text_hidden=8, encoder="hashed")


def example(view: GraphView = VIEW, turn: int = 2) -> Example:
    query = encode_query(make_query(RunIndex(run(99, "pay_fine").turns).at(turn)), CORPUS.encoder)
    return make_example(view, MatchFeatures(view), Recall(view).find(query.query), query)


def model(config: RerankerConfig = CONFIG) -> Reranker:
    torch.manual_seed(0)
    return Reranker(config).eval()


def test_a_batch_scores_as_its_examples_alone() -> None:
    network, examples = model(), [example(turn=1), example(turn=3), example(CORPUS.view(range(9)))]
    with torch.no_grad():
        together = network(collate(examples))
        alone = [network(collate([e])) for e in examples]
    for head in (0, 1):
        torch.testing.assert_close(together[head], torch.cat([scores[head] for scores in alone]), atol=1e-5, rtol=1e-4)


def test_messages_travel_along_edges_both_ways() -> None:
    batch = collate([example()])
    network = model(replace(CONFIG, layers=1))
    source = int(batch.plan.source[0])
    changed = replace_row(batch.stat, source)
    with torch.no_grad():
        before, _ = network(batch)
        batch.stat = changed
        after, _ = network(batch)
    moved = set(torch.nonzero((before - after).abs() > 1e-7).squeeze(1).tolist())
    neighbours = {int(t) for s, t in example().candidates.edge_index.T if s == source}
    assert moved == neighbours | {source} and len(neighbours) > 1


def replace_row(values: torch.Tensor, row: int) -> torch.Tensor:
    changed = values.clone()
    changed[row] += 3
    return changed


def test_weights_travel_through_a_file(tmp_path: Path) -> None:
    network = model()
    network.stat_norm.fit(torch.randn(50, len(CONFIG.stat_names)))
    network.write_weights(tmp_path / "w.safetensors")
    again = Reranker.read(CONFIG.plain(), tmp_path / "w.safetensors")
    batch = collate([example()])
    with torch.no_grad():
        assert torch.equal(network(batch)[0], again(batch)[0])
    assert again.config == CONFIG and not again.training


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    model().write_weights(tmp_path / "w.safetensors")
    with pytest.raises(MemoryFileError, match="cannot be read"):
        Reranker.read(CONFIG.plain() | {"hidden": 32}, tmp_path / "w.safetensors")
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "w.safetensors").read_bytes()[:100])
    with pytest.raises(MemoryFileError, match="cannot be read"):
        Reranker.read(CONFIG.plain(), tmp_path / "cut.safetensors")
    with pytest.raises(MemoryFileError, match="does not know the reranker's future"):
        Reranker.read(CONFIG.plain() | {"future": 1}, tmp_path / "w.safetensors")


def test_other_features_are_refused() -> None:
    with pytest.raises(SchemaError, match="32 wide"):
        stat_columns(replace(CONFIG, text_dim=32), VIEW)
    with pytest.raises(SchemaError, match=r"lacks \(unheard_of"):
        stat_columns(replace(CONFIG, stat_names=("unheard_of",)), VIEW)
    with pytest.raises(SchemaError, match="other match features"):
        stat_columns(replace(CONFIG, match_names=CONFIG.match_names[:-1]), VIEW)


def test_statistics_are_found_by_name_and_some_can_be_left_out() -> None:
    some = tuple(VIEW.stat_names[::-2])
    columns = stat_columns(replace(CONFIG, stat_names=some), VIEW)
    assert [VIEW.stat_names[i] for i in columns] == list(some)
    assert collate([example()], columns).stat.shape[1] == len(some)


def test_standardise_copes_with_constant_columns() -> None:
    layer = Standardise(2)
    rows = torch.stack([torch.arange(10.0), torch.full((10,), 4.0)], dim=1)
    layer.fit(rows)
    out = layer(rows)
    assert out[:, 0].mean().abs() < 1e-6 and not out[:, 1].any()
    assert layer(torch.tensor([[1e9, 4.0]]))[0, 0] == 8


def test_retriever_ranks_guidance_nodes_and_survives_a_file(tmp_path: Path) -> None:
    retriever = Retriever(VIEW.graph, model(), CORPUS.encoder)
    query = make_query(RunIndex(run(99, "pay_fine").turns).at(2))
    ranking = retriever.rank(query)
    assert (np.diff(ranking.scores) <= 0).all()
    assert {VIEW.graph.node(int(i)).type for i in ranking.nodes} <= set(GUIDANCE_TYPES)
    assert len(ranking.nodes) == len(VIEW.guidance) and len(retriever.rank_tasks(query).nodes) == VIEW.num_tasks

    freeze(VIEW.graph, tmp_path / "memory", reranker=retriever.reranker, bm25=VIEW.bm25)
    files = read_frozen(tmp_path / "memory")
    reranker = files.reranker()
    assert reranker is not None
    again = Retriever(files.graph, reranker, CORPUS.encoder, files.bm25())
    same = again.rank(query)
    assert (same.nodes == ranking.nodes).all() and np.allclose(same.scores, ranking.scores, atol=1e-6)
    everywhere = retriever.scores(query)
    assert len(everywhere) == len(VIEW) and everywhere.max() == 0.5 and everywhere.min() >= 0
    best = max(ranking.nodes, key=lambda node: everywhere[node])
    assert best == ranking.nodes[0]


def test_likeness_is_of_words_and_of_meaning() -> None:
    class Meaning(HashedEncoder):
        """Takes every text for the text of the memory's second task."""

        def encode_query(self, text: str) -> NDArray[np.float32]:
            return np.asarray(VIEW.text[VIEW.task_start + 1], dtype=np.float32)

    request = VIEW.graph.texts[VIEW.task_start]
    query = Query(parts=(request,), said=(request,))
    tasks = slice(VIEW.task_start, VIEW.task_start + VIEW.num_tasks)
    alike = Retriever(VIEW.graph, model(), CORPUS.encoder).likeness(query)
    assert alike[tasks].argmax() == 0 and alike[tasks].max() == pytest.approx(1, abs=1e-3)
    words, mixed = VIEW.bm25.scores(query.request), Retriever(VIEW.graph, model(), Meaning(64)).likeness(query)
    others = np.delete(np.arange(len(VIEW)), np.arange(len(VIEW))[tasks])
    assert (mixed[others] == words[others]).all()
    assert mixed[tasks][1] == pytest.approx(0.5 + words[tasks][1] / words[tasks].max() / 2, abs=1e-3)


def test_likeness_in_a_large_memory_asks_for_the_meaning_of_the_nearest_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fresh.retrieval.retriever.MAX_COMPARED_TASKS", 1)
    monkeypatch.setattr("fresh.retrieval.retriever.NEAREST_TASKS", 1)
    request = VIEW.graph.texts[VIEW.task_start]
    alike = Retriever(VIEW.graph, model(), CORPUS.encoder).likeness(Query(parts=(request,), said=(request,)))
    tasks = alike[VIEW.task_start : VIEW.task_start + VIEW.num_tasks]
    assert tasks.argmax() == 0 and np.count_nonzero(tasks) == 1


def test_empty_memory_ranks_nothing() -> None:
    empty = CORPUS.view([]).graph
    query = make_query(RunIndex(run(99, "pay_fine").turns).at(2))
    retriever = Retriever(empty, model(), CORPUS.encoder)
    assert len(retriever.rank(query).nodes) == 0 and len(retriever.likeness(query)) == 0


def test_a_device_that_is_not_there_is_named(tmp_path: Path) -> None:
    freeze(VIEW.graph, tmp_path / "memory", reranker=model(), bm25=VIEW.bm25)
    with pytest.raises(ConfigError, match=r"cannot run on 'no such device' here.*device='cpu'"):
        read_frozen(tmp_path / "memory").reranker("no such device")


def test_repr() -> None:
    assert repr(model()).startswith("Reranker(hidden=16, layers=2, parameters=")


def test_match_features_that_are_left_out_change_nothing() -> None:
    blind = model(replace(CONFIG, match_left_out=("seer_s1_best", "seer_s3_mean")))
    batch = collate([example()])
    changed = collate([example()])
    columns = [MATCH_NAMES.index(name) for name in blind.config.match_left_out]
    changed.match[:, columns] += 1.0
    assert torch.equal(blind(batch)[0], blind(changed)[0])
    assert not torch.equal(model()(batch)[0], model()(changed)[0])
    assert "match_seen" not in blind.state_dict()
