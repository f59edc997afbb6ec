"""What holds of every memory that needs no training, whatever it remembers."""

from __future__ import annotations

import json
import re
import time
from functools import cache

import pytest
from desk_runs import BUDGET, SETTING, moments, split, tools_of

from fresh.guidance import estimate_tokens
from fresh.values import is_identifier
from graph_schema.trajectory import Outcome, Trajectory
from inference.baselines.base import Memory
from inference.baselines.registry import MEMORIES

NATIVE = [name for name, entry in MEMORIES.items() if entry.group == "baselines"] + ["bm25"]
SPEAKING = [name for name in NATIVE if name != "none"]
_INTRODUCTION = re.compile(r"(?:I am|name is|this is) ((?:[A-Z][a-z]+ ?){1,2})")
_TOKEN = re.compile(r"[#\w@.+-]*\w")


@cache
def built(name: str) -> Memory:
    return MEMORIES[name](split()[0], SETTING)


def particulars(runs: list[Trajectory]) -> set[str]:
    """Identifiers, e-mail addresses and people's names of some runs."""
    found: set[str] = set()
    for run in runs:
        texts = [turn.text for turn in run.turns]
        for _, call in run.calls(by_user=None):
            texts += [call.raw_arguments, call.observation.text if call.observation else ""]
        for text in texts:
            found.update(token for token in _TOKEN.findall(text) if is_identifier(token))
            found.update(name for names in _INTRODUCTION.findall(text) for name in names.split())
    return found


@pytest.mark.parametrize("name", SPEAKING)
def test_it_advises_within_the_budget(name: str) -> None:
    said = 0
    for run, messages in moments(20):
        for budget in (0, 15, 60, BUDGET):
            advice = built(name).guide(messages, tools_of(run), budget)
            assert advice.tokens == estimate_tokens(advice.text) <= budget
        said += bool(advice.text)
    assert said >= 15


@pytest.mark.parametrize("name", SPEAKING)
def test_it_speaks_of_tools_of_the_desk_at_hand(name: str) -> None:
    if name in ("few-shot", "train-text", "vector-rag"):
        pytest.skip("shows runs as they are, whatever is offered")
    for run, messages in moments(20):
        offered = {spec.name for spec in run.tools or ()}
        known = {call.tool for other in split()[0] for _, call in other.calls()}
        words = set(re.findall(r"\w+", built(name).guide(messages, tools_of(run), BUDGET).text))
        assert words & known <= offered


def test_no_memory_says_nothing() -> None:
    run, messages = moments()[0]
    assert built("none").guide(messages, tools_of(run), BUDGET).text == "" and built("none").size() == 0


@pytest.mark.parametrize("name", NATIVE)
def test_no_particular_of_an_old_run_is_shown(name: str) -> None:
    old = particulars(split()[0])
    assert len(old) > 100
    for run, messages in moments(20):
        advice = built(name).guide(messages, tools_of(run), 600)
        listed = json.dumps(advice.tools) if advice.tools else ""
        assert sorted(old & set(_TOKEN.findall(f"{advice.text}\n{listed}"))) == []


@pytest.mark.parametrize("name", NATIVE)
def test_it_copes_with_little(name: str) -> None:
    memory = built(name)
    run, messages = moments()[0]
    system = [{"role": "system", "content": "You are a clerk."}]
    for chat in ([], system, [{"role": "user", "content": ""}], [{"role": "user", "content": "¿?"}], messages):
        for tools in (None, [], tools_of(run)):
            assert memory.guide(chat, tools, BUDGET).tokens <= BUDGET
    if name not in ("none", "few-shot"):
        assert memory.guide([], tools_of(run), BUDGET).text == ""


@pytest.mark.parametrize("name", NATIVE)
def test_it_can_be_built_from_nothing_and_from_failures(name: str) -> None:
    failures = [run for run in split()[0] if run.feedback.outcome is Outcome.FAILURE]
    run, messages = moments()[2]
    assert MEMORIES[name]([], SETTING).guide(messages, tools_of(run), BUDGET).text == ""
    assert MEMORIES[name](failures, SETTING).guide(messages, tools_of(run), BUDGET).tokens <= BUDGET
    if name in ("replay", "few-shot", "h-epm", "seer"):
        assert MEMORIES[name](failures, SETTING).guide(messages, tools_of(run), BUDGET).text == ""


@pytest.mark.parametrize("name", SPEAKING)
def test_it_does_not_depend_on_the_order_of_runs(name: str) -> None:
    again = MEMORIES[name]([*reversed(split()[0]), *split()[0][:3]], SETTING)
    for run, messages in moments(8):
        assert again.guide(messages, tools_of(run), BUDGET) == built(name).guide(messages, tools_of(run), BUDGET)
    assert again.size() == built(name).size() > 0


@pytest.mark.parametrize("name", NATIVE)
def test_it_answers_quickly(name: str) -> None:
    memory, asked = built(name), moments(20)
    memory.guide(asked[0][1], tools_of(asked[0][0]), BUDGET)
    times = []
    for run, messages in asked:
        start = time.perf_counter()
        memory.guide(messages, tools_of(run), BUDGET)
        times.append(time.perf_counter() - start)
    assert sorted(times)[len(times) // 2] < 0.02
