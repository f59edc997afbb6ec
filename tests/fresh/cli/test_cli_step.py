"""From traces to a gated action, on the command line alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cli_desk import GARDEN, Fresh

from graph_schema.graph import ExperienceGraph


class Step(NamedTuple):
    """A conversation that the memory was not mined from, cut before its write."""

    memory: Path
    run: dict[str, Any]
    before: int
    replaced: dict[str, str]

    def messages(self, folder: Path, length: int) -> Path:
        file = folder / f"messages-{length}.json"
        file.write_text(json.dumps({"messages": self.run["messages"][:length], "tools": self.run["tools"]}))
        return file

    def call(self, folder: Path, name: str = "", **arguments: str) -> Path:
        call = json.loads(json.dumps(self.run["messages"][self.before]["tool_calls"][0]))
        made = json.loads(call["function"]["arguments"])
        call["function"] |= {"arguments": json.dumps(made | arguments)} | ({"name": name} if name else {})
        (folder / "call.json").write_text(json.dumps(call))
        return folder / "call.json"


@pytest.fixture
def step(memory: Path) -> Step:
    """A new customer wants what others wanted before: every name and number is another one."""
    for line in GARDEN.read_text(encoding="utf-8").splitlines():
        names = tool_names(json.loads(line))
        if json.loads(line)["reward"] == 1.0 and names[-1] == ["swap_item"] and names.count(["swap_item"]) == 1:
            break
    email = re.findall(r"[a-z]+\.[a-z]+@", line)[0].rstrip("@")
    people = dict(zip(email.split("."), ("nora", "vale"), strict=True))
    people |= {old.capitalize(): new.capitalize() for old, new in people.items()}
    numbers = sorted(set(re.findall(r"#G\d{4}|\bcard_\d{4}|\b\d{6}\b|_\d{4}\b", line)), key=len, reverse=True)
    replaced = people | {old: f"{old[:-4]}99{number:02}" for number, old in enumerate(numbers)}
    run = json.loads(re.sub("|".join(map(re.escape, replaced)), lambda match: replaced[match[0]], line))
    write = [message for message, calls in enumerate(all_tool_names(run)) if calls == ["swap_item"]]
    return Step(memory, run, write[0], replaced)


def all_tool_names(run: dict[str, Any]) -> list[list[str]]:
    return [[call["function"]["name"] for call in m.get("tool_calls") or ()] for m in run["messages"]]


def tool_names(run: dict[str, Any]) -> list[list[str]]:
    return [names for names in all_tool_names(run) if names]


def test_a_write_whose_conditions_hold_is_allowed(fresh: Fresh, step: Step, tmp_path: Path) -> None:
    result = fresh("gate", step.memory, step.messages(tmp_path, step.before), step.call(tmp_path))
    assert result.status == 0
    assert result.out.startswith("allow")


def test_a_premature_write_is_sent_back_with_what_to_do_first(fresh: Fresh, step: Step, tmp_path: Path) -> None:
    args = (step.memory, step.messages(tmp_path, 1), step.call(tmp_path))
    decision = json.loads(fresh("gate", *args, "--json", "--provenance").out)
    assert decision["verdict"] == "revise"
    calls = [(todo["tool"], todo["arguments"]) for todo in decision["todo"] if todo["kind"] == "call"]
    order = json.loads((tmp_path / "call.json").read_text())["function"]["arguments"]
    assert ("get_order", {"order_id": json.loads(order)["order_id"]}) in calls
    assert {todo["argument"] for todo in decision["todo"] if todo["kind"] == "correct_argument"} >= {"item_id"}
    assert any(finding["runs"] for finding in decision["findings"])
    text = fresh("gate", *args).out
    assert decision["reason"] in text
    assert all(todo["text"] in text for todo in decision["todo"])


def test_an_invented_number_and_an_unknown_tool_are_not_allowed(fresh: Fresh, step: Step, tmp_path: Path) -> None:
    messages = step.messages(tmp_path, step.before)
    for arguments in ({"new_item_id": "123450"}, {"name": "burn_order"}):
        result = fresh("gate", step.memory, messages, step.call(tmp_path, **arguments))
        assert result.status == 0
        assert result.out.split(":")[0] in ("revise", "block", "transfer"), result.out


def test_guidance_fits_the_step_and_names_its_runs(fresh: Fresh, step: Step, tmp_path: Path) -> None:
    start, later = step.messages(tmp_path, 1), step.messages(tmp_path, step.before - 2)
    first, second = fresh("guide", step.memory, start), fresh("guide", step.memory, later)
    assert first.status == second.status == 0
    assert re.search(r"Do: call get_order with order_id=#G\d+ \(from the request\)", first.out)
    assert "Do: call find_customer" not in second.out
    assert "Done: find_customer" in second.out
    lines = json.loads(fresh("guide", step.memory, start, "--json", "--provenance").out)["lines"]
    known = {run["id"] for run in ExperienceGraph.load(step.memory).tables.runs.to_pylist()}
    named = {run for line in lines for run in line["runs"]}
    assert named
    assert named <= known
    assert not any(old in first.out + second.out for old in step.replaced)


def test_a_missing_memory_at_the_gate_is_one_line(fresh: Fresh, step: Step, tmp_path: Path) -> None:
    result = fresh("gate", tmp_path / "absent", step.messages(tmp_path, 1), step.call(tmp_path))
    assert result.status == 2
    assert "no memory at" in result.one_line
