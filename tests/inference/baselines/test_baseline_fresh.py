"""FRESH, its ablations and the controls made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from desk_runs import BUDGET, SETTING, moments, split, tools_of

from fresh.frozen import RERANKER_FILE
from fresh.guidance import HeuristicRanker, estimate_tokens
from fresh.retrieval.corpus import Corpus
from fresh.retrieval.features import MATCH_NAMES
from fresh.retrieval.reranker import Reranker
from fresh.retrieval.retriever import Retriever
from graph_schema.errors import ConfigError
from graph_schema.trajectory import Outcome
from graph_schema.types import NodeType
from inference.baselines import fresh_memory
from inference.baselines.controls import IrrelevantMemory
from inference.baselines.fresh_memory import FreshMemory, SuccessCorpus
from inference.baselines.recall import Moment
from inference.baselines.registry import GROUPS, MEMORIES
from inference.compare.points import chat_before
from training.fit import fit_reranker

ABLATIONS = [name for name, entry in MEMORIES.items() if entry.group == "ablations"]
SMALL = {
    "model": {"hidden": 16, "text_hidden": 8},
    "data": {"inner_folds": 2, "points_per_run": 2, "runs_per_task": 1, "per_task": 4},
    "max_epochs": 1,
}


class CountingFitter:
    """The real fitter, and what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def __call__(self, corpus: Corpus, runs: Sequence[int], **options: Any) -> tuple[Reranker, dict[str, float]]:
        self.asked.append(options | {"corpus": corpus, "runs": list(runs)})
        return fit_reranker(corpus, runs, **options)


FITTER = CountingFitter()
TRAINED = replace(SETTING, fitter=FITTER, training=SMALL)


@pytest.fixture(scope="module")
def arms() -> dict[str, FreshMemory]:
    names = ["fresh", "fresh-shuffled", *ABLATIONS]
    return {name: MEMORIES[name](split()[0], TRAINED) for name in names}  # type: ignore[misc]


def network(memory: FreshMemory) -> Reranker:
    ranker = memory.memory.ranker
    assert isinstance(ranker, Retriever)
    return ranker.reranker


def test_every_arm_advises_within_the_budget(arms: dict[str, FreshMemory]) -> None:
    for memory in arms.values():
        texts = []
        for run, messages in moments(8):
            texts.append(memory.guide(messages, tools_of(run), BUDGET).text)
            assert memory.guide(messages, tools_of(run), 40).tokens <= 40
        assert sum(bool(text) for text in texts) >= 6 and max(map(estimate_tokens, texts)) <= BUDGET
        assert memory.guide([], None, BUDGET).text == "" and memory.guide([], None, BUDGET).tools is None


def test_arms_that_training_cannot_tell_apart_share_a_network(arms: dict[str, FreshMemory]) -> None:
    assert len(FITTER.asked) == 6  # fresh and no gate share one, the heuristic retriever needs none
    full, no_gate = network(arms["fresh"]), network(arms["fresh-no-gate"])
    assert all((a == b).all() for a, b in zip(full.state_dict().values(), no_gate.state_dict().values(), strict=True))
    assert len({id(asked["corpus"]) for asked in FITTER.asked}) == 2  # all runs, and the successes
    assert all(asked["seed"] == 0 and asked["max_epochs"] == 1 for asked in FITTER.asked)


def test_the_memory_is_a_folder_that_goes_with_it() -> None:
    memory = MEMORIES["fresh-heuristic"](split()[0], SETTING)
    assert isinstance(memory, FreshMemory)
    folder = Path(memory._folder.name)
    assert memory.size() == sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) > 10_000
    memory._folder.cleanup()
    assert not folder.exists()


def test_heuristic_retriever(arms: dict[str, FreshMemory]) -> None:
    assert isinstance(arms["fresh-heuristic"].memory.ranker, HeuristicRanker)
    assert isinstance(arms["fresh"].memory.ranker, Retriever)
    assert not any(RERANKER_FILE.split(".")[0] in f.name for f in Path(arms["fresh-heuristic"]._folder.name).rglob("*"))


def test_no_graph_network_passes_no_messages(arms: dict[str, FreshMemory]) -> None:
    assert len(network(arms["fresh-no-graph"]).convolutions) == 0 < len(network(arms["fresh"]).convolutions)


def test_features_that_are_left_out(arms: dict[str, FreshMemory]) -> None:
    full, no_expg, no_seer = (network(arms[n]).config for n in ("fresh", "fresh-no-expg", "fresh-no-seer"))
    assert any(name.startswith("expg") for name in full.stat_names) and not full.match_left_out
    assert no_expg.stat_names == tuple(name for name in full.stat_names if not name.startswith("expg"))
    assert no_seer.stat_names == full.stat_names and no_expg.match_left_out == ()
    assert no_seer.match_left_out == tuple(name for name in MATCH_NAMES if name.startswith("seer"))
    assert len(no_seer.match_left_out) == 6


def test_no_failure_memory_knows_no_failures(arms: dict[str, FreshMemory]) -> None:
    graph, full = arms["fresh-no-failures"].memory.graph, arms["fresh"].memory.graph
    for kind in (NodeType.ERROR, NodeType.REPAIR):
        assert len(graph.indices(kind)) == 0 < len(full.indices(kind))
    assert graph.column("failure").sum() == 0 < full.column("failure").sum()
    assert {run.outcome for run in map(graph.run, range(graph.tables.runs.num_rows))} == {"success"}
    for run, messages in moments():
        text = arms["fresh-no-failures"].guide(messages, tools_of(run), BUDGET).text
        assert "Avoid:" not in text and "Repair:" not in text
    assert any("Avoid:" in arms["fresh"].guide(m, tools_of(r), BUDGET).text for r, m in moments())


def test_no_gate_enforces_nothing_and_lets_all_pass(arms: dict[str, FreshMemory]) -> None:
    gates = {name: arms[name].memory for name in ("fresh", "fresh-no-gate")}
    rules = {
        name: sum(len(memory.judge.rules(tool)) for tool in memory.judge.index.names) for name, memory in gates.items()
    }
    assert rules["fresh"] > 0 == rules["fresh-no-gate"]
    held = dict.fromkeys(gates, 0)
    for run, messages in moments(8):
        for name, memory in gates.items():
            invented = ("cancel_order", {"order_id": "#G0000", "reason": "late"})
            held[name] += not memory.gate(invented, messages, tools_of(run)).allowed
            assert "Check:" not in arms["fresh-no-gate"].guide(messages, tools_of(run), BUDGET).text
    assert held["fresh"] and not held["fresh-no-gate"]


def test_shuffled_labels_are_asked_for(arms: dict[str, FreshMemory]) -> None:
    asked = [options["data"] for options in FITTER.asked if options["data"].get("shuffle_labels")]
    assert asked == [SMALL["data"] | {"shuffle_labels": True, "whole_runs": False}]
    assert network(arms["fresh-shuffled"]).config == network(arms["fresh"]).config


def test_the_settings_own_left_out_features_stay_left_out() -> None:
    setting = replace(TRAINED, training={"data": {"without": ["log_"]}, "model": None})
    options = fresh_memory._options(MEMORIES["fresh-no-seer"].memory().parts, setting)  # type: ignore[attr-defined]
    assert options["data"]["without"] == ["log_", "seer"] and options["model"] == {} and "max_epochs" not in options


def test_what_cannot_be_built_says_why() -> None:
    with pytest.raises(ConfigError, match="needs a fitter"):
        MEMORIES["fresh"](split()[0], SETTING)
    with pytest.raises(ConfigError, match="there are no runs"):
        MEMORIES["fresh"]([], TRAINED)
    with pytest.raises(ConfigError, match="unknown options of the training: epochs"):
        MEMORIES["fresh"](split()[0], replace(TRAINED, training={"epochs": 3}))
    failures = [run for run in split()[0] if run.feedback.outcome is Outcome.FAILURE]
    with pytest.raises(ConfigError, match="no run is known to have succeeded"):
        MEMORIES["fresh-no-failures"](failures, TRAINED)
    with pytest.raises(ConfigError, match="2 folds need at least 2"):
        MEMORIES["fresh"](failures[:1], TRAINED)
    assert MEMORIES["fresh-heuristic"](failures, SETTING).size() > 0


def test_successes_alone_leave_the_runs_as_they_are() -> None:
    corpus = SuccessCorpus(split()[0], SETTING.encoder)
    assert 0 < len(corpus) < len(split()[0])
    before = [len(evidence.calls) for evidence in corpus.evidence]
    corpus.view(range(4))
    assert [len(evidence.calls) for evidence in corpus.evidence] == before
    assert len(corpus.points) == len(corpus)  # calls and evidence still go together


def test_a_subject_is_never_split() -> None:
    setting = replace(SETTING, subject_arguments=("reason",))  # shared by tasks, as a customer is
    by_task = fresh_memory._prepared(split()[0], SETTING, failures=True).corpus
    by_person = fresh_memory._prepared(split()[0], setting, failures=True).corpus
    assert len(set(by_person.groups)) < len(set(by_task.groups))


# -- irrelevant memory ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(arms: dict[str, FreshMemory]) -> tuple[FreshMemory, IrrelevantMemory]:
    memory = arms["fresh-heuristic"]
    return memory, IrrelevantMemory.around(memory, split()[0], SETTING)


def test_irrelevant_guidance_is_as_long_and_about_something_else(pair: tuple[FreshMemory, IrrelevantMemory]) -> None:
    memory, irrelevant = pair
    lengths, same = [], 0
    for run, messages in moments():
        real = memory.guide(messages, tools_of(run), BUDGET)
        other = irrelevant.guide(messages, tools_of(run), BUDGET)
        assert other.tokens <= real.tokens
        lengths.append((real.tokens, other.tokens))
        same += bool(real.text) and real.text == other.text
    real_mean, other_mean = np.mean(lengths, axis=0)
    assert other_mean > 0.5 * real_mean and same < 0.1 * len(lengths)


def test_irrelevant_guidance_shows_no_particular(pair: tuple[FreshMemory, IrrelevantMemory]) -> None:
    old = {call.recorded_id for run in split()[0] for _, call in run.calls()}
    old |= {str(v) for run in split()[0] for _, c in run.calls() for v in (c.arguments or {}).values() if "-" in str(v)}
    for one in pair[1]._pool:
        assert not any(value and value in line for value in old for line in one.lines)


def test_irrelevant_guidance_depends_on_moment_and_seed_alone(pair: tuple[FreshMemory, IrrelevantMemory]) -> None:
    memory, irrelevant = pair
    again = IrrelevantMemory.around(memory, [*reversed(split()[0])], SETTING)
    seeded = IrrelevantMemory(memory, irrelevant._pool, seed=7)
    asked = [(messages, tools_of(run), BUDGET) for run, messages in moments(12)]
    first = [irrelevant.guide(*question) for question in asked]
    assert first == [again.guide(*question) for question in asked]
    assert first != [seeded.guide(*question) for question in asked]


def test_irrelevant_guidance_is_never_of_the_same_task(pair: tuple[FreshMemory, IrrelevantMemory]) -> None:
    memory, irrelevant = pair
    own = split()[0][0]
    chat = chat_before(own, next(turn for turn, _ in own.calls()))
    request = Moment.of(chat, None).query.said[0]
    same = [one for one in irrelevant._pool if one.request == request]
    assert same and len(same) < len(irrelevant._pool)
    assert irrelevant.guide(chat, tools_of(own), BUDGET).text
    assert IrrelevantMemory(memory, same, 0).guide(chat, tools_of(own), BUDGET).text == ""


# -- registry ---------------------------------------------------------------------------------------------------------


def test_the_registry_names_what_it_builds() -> None:
    for name, entry in MEMORIES.items():
        assert entry.line and "\n" not in entry.line
        if entry.group != "packages":
            assert entry.memory().name == name
    assert GROUPS["baselines"][0] == "none" and "fresh" in GROUPS["ablations"] and "bm25" in GROUPS["controls"]
    assert {name for name, entry in MEMORIES.items() if entry.extra} == set(GROUPS["packages"]) - {"fresh"}
    assert {name for group in GROUPS.values() for name in group} == set(MEMORIES)
