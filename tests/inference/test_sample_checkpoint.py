"""The committed checkpoint loads, guides and gates at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fresh.mining import mine
from fresh.traces import load as read
from inference import load

REPOSITORY = Path(__file__).resolve().parents[2]
DESKS = REPOSITORY / "tests" / "data" / "desks"
CANCEL = ("cancel_order", {"order_id": "#G9051", "reason": "changed my mind"})
ASKED = [{"role": "user", "content": "I am nils@aster.example. Please cancel order #G9051, I changed my mind."}]


@pytest.fixture(scope="module")
def memory():  # type: ignore[no-untyped-def]
    return load(REPOSITORY / "checkpoints" / "sample")


@pytest.fixture(scope="module")
def tools() -> list[dict[str, object]]:
    return json.loads((DESKS / "garden.jsonl").read_text().splitlines()[0])["tools"]


def test_it_is_small_and_names_no_place_of_the_machine_it_was_made_on() -> None:
    files = list((REPOSITORY / "checkpoints" / "sample").iterdir())
    assert sum(file.stat().st_size for file in files) < 2_000_000
    manifest = next(file for file in files if file.name == "manifest.json").read_text()
    assert json.loads(manifest)["data"]["files"] == ["garden.jsonl", "library.jsonl"]
    assert str(REPOSITORY) not in manifest


def test_it_holds_what_the_miner_finds_today(memory) -> None:  # type: ignore[no-untyped-def]
    today = mine(read(DESKS)[0])
    assert memory.graph.counts() == today.counts(), "make sample"
    assert memory.graph.feature_names["stat"] == today.feature_names["stat"], "make sample"


def test_it_guides(memory, tools) -> None:  # type: ignore[no-untyped-def]
    text = memory.guide(ASKED, tools=tools).text
    assert "find_customer with email=nils@aster.example" in text


def test_it_gates(memory, tools) -> None:  # type: ignore[no-untyped-def]
    decision = memory.gate(CANCEL, ASKED, tools=tools)
    assert decision.verdict == "revise"
    assert [(todo.tool, todo.arguments) for todo in decision.todo] == [("get_order", {"order_id": "#G9051"})]
