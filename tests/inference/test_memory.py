from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from memory_shop import TOOLS, Chat, call, make_graph

from fresh.frozen import BM25_FILE, freeze, read_frozen
from fresh.gate import GateSettings, Verdict
from fresh.guidance import HeuristicRanker, Section
from graph_schema import ConfigError, ExperienceGraph, FrozenMemoryError, MemoryFileError
from inference import FrozenMemory, load

CANCEL = {"order_id": "#W111", "reason": "mistake"}
ADVICE = {
    "tool": "get_order",
    "advice": {"core_function": "shows one order"},
    "experiences": 9,
    "selected": 3,
    "classes": 2,
    "quota": 3,
    "success_rate": 0.9,
    "mean_score": 0.8,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memory") / "shop"
    freeze(make_graph(), path, card="# Shop\n", manifest={"metrics": {"ndcg": 0.5}})
    return path


@pytest.fixture(scope="module")
def memory(folder: Path) -> FrozenMemory:
    return load(folder)


def test_it_guides_and_gates_from_messages(memory: FrozenMemory):
    guidance = memory.guide(Chat().messages, tools=TOOLS)
    assert guidance.section(Section.DO)[0].text.startswith("call find_customer")
    assert memory.gate(call("cancel_order", CANCEL), Chat().messages, tools=TOOLS).verdict is Verdict.REVISE
    ready = Chat().read("#W111").agreed().messages
    assert memory.gate(call("cancel_order", CANCEL), ready, tools=TOOLS).allowed


def test_the_message_that_makes_the_call_may_be_the_last(memory: FrozenMemory):
    messages = Chat().read("#W111").agreed().messages
    proposed = call("cancel_order", CANCEL)
    with_call = [*messages, {"role": "assistant", "content": None, "tool_calls": [proposed]}]
    assert memory.gate(proposed, with_call, tools=TOOLS).allowed


def test_a_graphs_folder_without_index_or_reranker_works_too(tmp_path: Path):
    make_graph().save(tmp_path / "graph")
    plain = load(tmp_path / "graph")
    assert isinstance(plain.ranker, HeuristicRanker)
    assert plain.guide(Chat().messages, TOOLS).text == load_frozen_text(tmp_path)


def load_frozen_text(tmp_path: Path) -> str:
    freeze(make_graph(), tmp_path / "frozen")
    return load(tmp_path / "frozen").guide(Chat().messages, TOOLS).text


def test_card_and_manifest_are_there(memory: FrozenMemory):
    assert memory.card == "# Shop\n" and memory.manifest["metrics"] == {"ndcg": 0.5}
    assert (
        memory.manifest["kind"] == "memory"
        and memory.manifest["frozen"] is True
        and "Task" in memory.manifest["counts"]
    )


def test_a_frozen_memory_refuses_to_change(memory: FrozenMemory):
    with pytest.raises(FrozenMemoryError, match="frozen"):
        memory.evolve(None, beta=0.1)
    with pytest.raises(FrozenMemoryError, match="judge"):
        memory.judge = None
    assert memory.gate(call("get_order", {"order_id": "#W1"}), []).allowed


def test_own_settings_come_from_the_manifest_and_the_caller_overrides(tmp_path: Path):
    freeze(make_graph(), tmp_path / "m", manifest={"gate_settings": {"ask_confirmation": False}})
    read = Chat().read("#W111").messages
    assert load(tmp_path / "m").gate(call("cancel_order", CANCEL), read, TOOLS).allowed
    strict = load(tmp_path / "m", gate=GateSettings())
    assert strict.gate(call("cancel_order", CANCEL), read, TOOLS).verdict is Verdict.REVISE


def test_retrieve_ranks_nodes(memory: FrozenMemory):
    found = memory.retrieve(Chat().messages, TOOLS, k=5)
    assert 0 < len(found) <= 5 and [s for _, s in found] == sorted((s for _, s in found), reverse=True)
    assert "cancel_order" in [node.tool for node, _ in found]
    assert memory.retrieve([], k=5) == []


def test_settle_takes_calls_in_any_form(memory: FrozenMemory):
    messages = Chat().read("#W111").agreed().messages
    wrong = call("cancel_order", CANCEL | {"order_id": "#W999"})
    decision = memory.settle(
        wrong, messages, lambda _c, d: ("cancel_order", CANCEL | {"order_id": d.todo[0].candidates[0]})
    )
    assert decision.executed_call is not None and decision.executed_call.arguments == CANCEL


def test_tool_lists_get_what_is_known_and_the_callers_list_stays(tmp_path: Path):
    freeze(make_graph(), tmp_path / "m", tool_guidance={"get_order": ADVICE})
    before = json.dumps(TOOLS)
    changed = load(tmp_path / "m").tools(TOOLS)
    described = {t["function"]["name"]: t["function"]["description"] for t in changed}
    assert "shows one order" in described["get_order"] and described["cancel_order"] == "Cancel an order"
    assert json.dumps(TOOLS) == before and load(tmp_path / "m").tools([]) == []


def test_guidance_of_another_version_is_one_clear_error(tmp_path: Path):
    freeze(make_graph(), tmp_path / "m", tool_guidance={"get_order": {"tool": "get_order"}})
    with pytest.raises(MemoryFileError, match="guidance for tool lists"):
        load(tmp_path / "m").tools(TOOLS)


def test_a_damaged_or_missing_memory_is_one_clear_error(folder: Path, tmp_path: Path):
    with pytest.raises(MemoryFileError, match="no memory at"):
        load(tmp_path / "nowhere")
    freeze(make_graph(), tmp_path / "m")
    stored = read_frozen(tmp_path / "m").files[BM25_FILE]
    stored.write_bytes(stored.read_bytes()[:-1])
    with pytest.raises(MemoryFileError, match="hash"):
        load(tmp_path / "m")


def test_an_index_of_another_graph_is_refused(tmp_path: Path):
    from fresh.retrieval.bm25 import BM25Index

    freeze(make_graph(), tmp_path / "m", bm25=BM25Index.build(["one text"]))
    with pytest.raises(MemoryFileError, match="1 texts"):
        load(tmp_path / "m").guide(Chat().messages)


def test_features_survive(tmp_path: Path):
    graph = make_graph()
    text = np.ones((len(graph), 4), dtype=np.float16)
    graph = ExperienceGraph(graph.tables, settings=graph.settings, features={"text": text})
    freeze(graph, tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").graph.features["text"], text)


def test_provenance_read_late_is_that_of_the_memory_loaded(tmp_path: Path):
    freeze(make_graph(), tmp_path / "m")
    memory = load(tmp_path / "m")
    for _ in range(2):  # two saves remove the files of the first
        freeze(make_graph(rules=False), tmp_path / "m")
    assert memory.guide(Chat().messages, TOOLS, provenance=True).lines[0].runs[0] == "run00"


@pytest.mark.parametrize("messages", ["hello", {"role": "user"}, 5])
def test_messages_that_are_none_are_refused(memory: FrozenMemory, messages: object):
    with pytest.raises(ConfigError, match="messages"):
        memory.guide(messages)  # type: ignore[arg-type]


def test_neither_gate_nor_guidance_needs_torch(folder: Path):
    code = (
        "import sys, json; from inference import load; m = load(sys.argv[1]); "
        "m.guide([{'role': 'user', 'content': 'cancel order #W1'}]); m.gate(('get_order', {'order_id': '#W1'}), []); "
        "print([n for n in ('torch', 'lightning', 'sentence_transformers', 'jsonargparse') if n in sys.modules])"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, cwd=root, check=True
    )
    assert done.stdout.strip() == "[]"


def _cyclic() -> dict[str, object]:
    value: dict[str, object] = {}
    value["again"] = value
    return value


def _deep(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("value", [_cyclic(), _deep(900), _deep(5000), 10**5000], ids=["cyclic", "900", "5000", "huge"])
def test_arguments_that_no_json_can_hold_are_blocked(memory: FrozenMemory, value: object):
    decision = memory.gate(("cancel_order", {"order_id": value}), [])
    assert decision.verdict is Verdict.BLOCK and "cannot be read: nested too deeply" in decision.reason


@pytest.mark.parametrize("time", [10**400, float("nan"), "9" * 5000])
def test_a_time_that_is_none_is_left_out(memory: FrozenMemory, time: object):
    messages = [{"role": "user", "content": "hello", "timestamp": time}]
    assert memory.gate(("get_order", {"order_id": "#W1"}), messages) == memory.gate(
        ("get_order", {"order_id": "#W1"}), [{"role": "user", "content": "hello"}]
    )


@pytest.mark.parametrize("tools", ["get_order", {"tools": TOOLS}, 7])
def test_tool_lists_that_are_none_are_refused(memory: FrozenMemory, tools: object):
    with pytest.raises(ConfigError, match="tools must be a list"):
        memory.guide([], tools)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="tools must be a list"):
        memory.gate(("get_order", {}), [], tools)  # type: ignore[arg-type]


def test_a_tool_that_is_no_object_is_named(memory: FrozenMemory):
    with pytest.raises(ConfigError, match="tool 1 is NoneType"):
        memory.tools([TOOLS[0], None])  # type: ignore[list-item]
