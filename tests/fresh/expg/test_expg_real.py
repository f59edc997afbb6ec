"""The rule-based evaluator and the guidance on recorded runs of real models; skipped where these are absent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fresh.expg import Distilled, DistilSettings, Experience, RuleEvaluator, distil
from fresh.expg.observed import is_identifier, leaves, scalars, words
from fresh.expg.report import Report, report
from fresh.traces import load, load_tools_file
from graph_schema.trajectory import Trajectory

FILES = (
    "tau-bench/airline-gpt-4o.jsonl.gz",
    "tau-bench/retail-with-preconditions.jsonl.gz",
    "agentdojo/gpt-4o-2024-05-13.jsonl.gz",
)


@pytest.fixture(scope="module")
def runs(shared_data: Path) -> list[Trajectory]:
    return load([shared_data / file for file in FILES])[0]


@pytest.fixture(scope="module")
def experiences(runs: list[Trajectory]) -> list[Experience]:
    return RuleEvaluator().evaluate(runs)


@pytest.fixture(scope="module")
def found(runs: list[Trajectory], shared_data: Path) -> Report:
    tools = [s for name in ("airline", "retail") for s in load_tools_file(shared_data / f"tau-bench/tools.{name}.json")]
    return report(runs, {spec.name: spec for spec in tools})


@pytest.fixture(scope="module", params=[None, 0.0])
def distilled(experiences: list[Experience], request: pytest.FixtureRequest) -> Distilled:
    return distil(experiences, settings=DistilSettings(alpha=request.param))


def test_every_error_response_scores_zero(found: Report) -> None:
    assert found.error_responses > 70
    assert found.errors_not_zero == 0


def test_a_made_up_identifier_fails_far_more_often(found: Report) -> None:
    row = next(r for r in found.agreement if r.aspect == "matches_context" and "error" in r.evidence)
    assert row.decided > 1000
    assert row.bad_of_zeros / row.zeros > 3 * row.bad_of_ones / (row.decided - row.zeros)


def test_what_is_faulty_is_no_gold_write(found: Report) -> None:
    row = next(r for r in found.agreement if r.aspect == "needed_now" and "solution" in r.evidence)
    assert row.bad_of_zeros / row.zeros > 1.5 * row.bad_of_ones / (row.decided - row.zeros)


def test_guidance_shows_nothing_of_a_run(distilled: Distilled, runs: list[Trajectory]) -> None:
    private: set[str] = set()
    people: set[str] = set()
    names: set[str] = set()
    for _, call in (found for trajectory in runs for found in trajectory.calls()):
        names.update(word for name in (call.tool, *(call.arguments or {})) for word in words(name))
        answer = scalars(call.observation.text) if call.observation else []
        for _, value in (*leaves(call.arguments or {}), *answer):
            if is_identifier(value) or (isinstance(value, str) and sum(map(str.isdigit, value)) >= 5):
                telling = (w for w in words(value) if len(w) > 4 and any(c.isdigit() or c == "@" for c in w))
                private.update(telling)
            if isinstance(value, str) and re.fullmatch(r"[A-Z][a-z]+ [A-Z][a-z]+", value):
                people.add(value)
    assert len(private) > 1000 and len(people) > 50 and len(distilled.guidance) > 60
    for guidance in distilled.guidance.values():
        text = guidance.model_dump_json(include={"tool", "advice", "constraint"})
        assert not (set(words(text)) - names) & private
        assert "@" not in text
        assert not any(person in text for person in people)


def test_best_practices_are_short_and_counted(distilled: Distilled) -> None:
    for guidance in distilled.guidance.values():
        assert len(guidance.advice.best_practices.split()) <= 200
        assert guidance.advice.best_practices == "" or " calls" in guidance.advice.best_practices
        assert (guidance.constraint is not None) == guidance.stable
