"""Each format on files written for this project, and on the recorded runs where they are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fresh.traces import TraceReader, load
from fresh.traces.files import iter_lines
from fresh.traces.tau_bench import domain_of_policy
from graph_schema.errors import ConfigError, TraceError
from graph_schema.trajectory import CallStatus, Effect, GoldAction, Outcome, Trajectory

DATA = Path(__file__).resolve().parents[2] / "data" / "traces"


def _statuses(run: Trajectory) -> list[str]:
    return [call.status.value for _, call in run.calls(by_user=None)]


def test_tau_bench_takes_the_replayed_outcome_and_keeps_the_recorded_one() -> None:
    runs, report = load(DATA / "tau_bench.json")
    assert [run.feedback.outcome for run in runs] == [Outcome.SUCCESS, Outcome.FAILURE, Outcome.FAILURE]
    assert runs[1].feedback.source == "replayed"
    assert runs[1].feedback.checks == {"r_actions": 1.0, "recorded_reward": 1.0}
    assert report.formats == {"tau_bench": 3}


def test_tau_bench_without_labels_takes_the_recorded_outcome() -> None:
    runs, _ = load(DATA / "tau_bench.json", labels=False)
    assert [run.feedback.outcome for run in runs] == [Outcome.SUCCESS, Outcome.SUCCESS, Outcome.FAILURE]
    assert {run.feedback.source for run in runs} == {"recorded"}


def test_a_label_for_another_run_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text((DATA / "tau_bench.json").read_text())
    (tmp_path / "x.labels.jsonl").write_text('{"task_id": 5, "trial": 0, "replayed_reward": 0.0}\n')
    assert load(tmp_path / "x.json")[0][0].feedback.source == "recorded"


def test_tau_bench_reads_task_customer_gold_and_domain() -> None:
    first, second, broken = load(DATA / "tau_bench.json")[0]
    assert (first.task_id, first.subject, first.domain) == ("0", "ada_moss_17", "bicycle hire")
    assert first.request == "Please end my hire H-204."
    assert first.gold == (GoldAction(tool="end_hire", arguments={"hire_id": "H-204"}),)
    assert second.gold == ()
    # Broken off before anything was logged: what is known comes from its neighbours and its label.
    assert (broken.domain, broken.subject, broken.feedback.termination) == (
        "bicycle hire",
        "cleo_fern_8",
        "error",
    )
    assert broken.turns == ()


def test_tau_bench_parallel_calls_with_unreadable_arguments() -> None:
    run = load(DATA / "tau_bench.json")[0][1]
    calls = [call for _, call in run.calls()]
    assert calls[0].arguments is None and calls[0].raw_arguments == '{"hire_id": "H-9", '
    assert [call.observation.text for call in calls if call.observation] == [
        "Error: unreadable arguments",
        "Error: hire not found",
    ]
    assert run.notes == ("arguments_not_json", "error_only_in_text")


@pytest.mark.parametrize(
    ("policy", "domain"),
    [
        ("# Airline Agent Policy\n\nText", "airline"),
        ("# Retail agent policy", "retail"),
        ("Text\n# Home Loans Policy\n# Other", "home loans"),
        ("No heading", ""),
        ("", ""),
    ],
)
def test_the_domain_is_what_the_policys_heading_names(policy: str, domain: str) -> None:
    assert domain_of_policy(policy) == domain


def test_tau2_reads_simulations_with_what_surrounds_them() -> None:
    first, second, third = load(DATA / "tau2.json")[0]
    assert (first.domain, first.agent, first.task_id, first.subject) == (
        "hire",
        "model-a",
        "0",
        "ada_moss_17",
    )
    (call,) = [call for _, call in first.calls()]
    assert (call.seconds, call.tokens, call.status) == (3.0, 42, CallStatus.OK)
    assert first.feedback.checks["db_match"] is True
    assert first.feedback.checks["action_checks"] == {"met": 1, "of": 1}
    assert first.policy.startswith("# Bicycle")
    assert third.feedback.outcome is Outcome.UNKNOWN and third.feedback.source == "none"
    assert third.feedback.termination == "max_steps"
    assert _statuses(third) == ["unanswered"]
    assert second.feedback.failure_origin == "user"


def test_tau2_restores_a_scrambled_task_id_and_distrusts_what_it_cannot_check() -> None:
    _, second, third = load(DATA / "tau2.json")[0]
    assert second.task_id == "1" and second.subject == "ben_oak"
    assert "task_id_restored" in second.notes
    assert third.task_id.startswith("request-") and third.gold is None
    assert "task_id_unverified" in third.notes


def test_tau2_keeps_a_task_id_whose_action_ids_are_merely_off_by_one(tmp_path: Path) -> None:
    results = json.loads((DATA / "tau2.json").read_text())
    results["simulations"] = results["simulations"][:1]
    for action in (
        results["tasks"][0]["evaluation_criteria"]["actions"][0],
        results["simulations"][0]["reward_info"]["action_checks"][0]["action"],
    ):
        action["action_id"] = "1_0"
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results))
    (run,), report = load(path)
    assert run.task_id == "0" and not report.repairs


def test_tau2_marks_the_users_own_calls() -> None:
    second = load(DATA / "tau2.json")[0][1]
    assert list(second.calls()) == []
    ((_, call),) = second.calls(by_user=True)
    assert call.status is CallStatus.ERROR
    assert second.gold is not None and second.gold[0].by_user


def test_tau2_lines_with_task_and_simulation() -> None:
    (run,), _ = load(DATA / "tau2_lines.jsonl")
    assert (run.format, run.domain, run.agent, run.task_id) == ("tau2", "hire", "model-b", "0")
    assert run.feedback.outcome is Outcome.SUCCESS


def test_agentdojo_pairs_calls_whose_ids_are_null_empty_or_absent() -> None:
    run = load(DATA / "agentdojo.jsonl")[0][0]
    texts = [call.observation.text for _, call in run.calls() if call.observation]
    assert texts == [
        "- name: roses\n  dry: true",
        "- name: herbs\n  dry: false",
        "ValueError: the pump is off",
    ]
    assert _statuses(run) == ["ok", "ok", "error"]
    assert run.request == "Water the roses." and run.domain == "garden"


def test_agentdojo_security_says_nothing_without_an_attack() -> None:
    run = load(DATA / "agentdojo.jsonl")[0][0]
    assert run.feedback.attack is None and run.feedback.attack_succeeded is None


def test_agentdojo_runs_under_attack_are_left_out_unless_asked_for() -> None:
    without, report = load(DATA / "agentdojo.jsonl")
    assert len(without) == 2 and report.attacked == 1
    everything, _ = load(DATA / "agentdojo.jsonl", include_attacks=True)
    assert [run.feedback.attack for run in everything] == [None, "important_instructions", None]
    assert everything[1].feedback.attack_succeeded is True


def test_a_file_of_nothing_but_attacks_says_so(tmp_path: Path) -> None:
    path = tmp_path / "attacks.jsonl"
    path.write_text((DATA / "agentdojo.jsonl").read_text().splitlines()[1] + "\n")
    with pytest.raises(TraceError, match="all 1 runs are under an injection attack"):
        load(path)


def test_agentdojo_conversations_with_permissions_and_errors_only_in_text() -> None:
    run = load(DATA / "agentdojo.jsonl")[0][1]
    assert run.tools is not None
    assert {tool.name: tool.effect for tool in run.tools} == {
        "list_beds": Effect.READ,
        "water_bed": Effect.WRITE,
    }
    assert _statuses(run) == ["error"] and "error_only_in_text" in run.notes
    assert run.feedback.outcome is Outcome.UNKNOWN  # no utility was recorded


def test_chat_messages_with_and_without_an_outcome() -> None:
    first, second, third = load(DATA / "chat.jsonl")[0]
    assert (first.feedback.outcome, first.task_id, first.domain) == (Outcome.SUCCESS, "rooms-4", "rooms")
    assert first.tools is not None and first.tools[0].effect is Effect.READ
    assert first.gold is not None and first.gold[0].arguments == {"room": 4}
    assert second.feedback.outcome is Outcome.UNKNOWN and second.task_id.startswith("request-")
    assert _statuses(second) == ["unanswered"]
    assert (third.feedback.outcome, third.feedback.reward, third.task_id) == (Outcome.FAILURE, 0.4, "rooms-6")


@pytest.mark.parametrize(
    ("fact", "outcome"),
    [
        ({"success": "True"}, Outcome.SUCCESS),
        ({"success": 0}, Outcome.FAILURE),
        ({"success": None, "reward": None}, Outcome.UNKNOWN),
        ({"success": "no"}, "success is 'no': write true or false"),
        ({"reward": "1.0"}, "reward is '1.0': write a number, 1 for full success"),
    ],
)
def test_an_outcome_that_cannot_be_read_is_no_unknown_one(tmp_path: Path, fact: Any, outcome: Any) -> None:
    file = tmp_path / "runs.jsonl"
    good = {"messages": [{"role": "user", "content": "hi"}], "success": True}
    file.write_text(f"{json.dumps(good)}\n{json.dumps(good | {'success': None} | fact)}\n")
    runs, report = load(file)
    if isinstance(outcome, Outcome):
        assert runs[1].feedback.outcome is outcome
        return
    assert len(runs) == 1 and outcome in str(report.skipped[0])
    with pytest.raises(TraceError, match=re.escape(outcome)):
        load(file, strict=True)


def test_a_file_that_is_one_list_of_messages_is_one_run(tmp_path: Path) -> None:
    (run,), _ = load(DATA / "chat.json")
    assert [turn.text for turn in run.turns] == ["Hello.", "Hello, how can I help?"]
    lines = tmp_path / "log.jsonl"
    lines.write_text("".join(json.dumps(m) + "\n" for m in json.loads((DATA / "chat.json").read_text())))
    assert load(lines)[0][0].id == run.id


def test_who_and_when_runs_are_failures_without_calls() -> None:
    (run,), _ = load(DATA / "who_and_when.jsonl")
    assert run.feedback.outcome is Outcome.FAILURE and list(run.calls()) == []
    assert run.feedback.checks["mistake_agent"] == "Surveyor"


def test_reflexion_text_becomes_calls_and_an_episode_keeps_its_outcome() -> None:
    log, episode = load(DATA / "reflexion.jsonl")[0]
    assert [(call.tool, call.arguments) for _, call in log.calls()] == [
        ("Search", {"text": "oak [tree]"}),
        ("Finish", {"text": "north"}),
    ]
    assert (log.request, log.trial, log.feedback.outcome) == ("Where is the oak?", 2, Outcome.FAILURE)
    assert "south" not in log.model_dump_json()  # the logger's own answer is no observation
    assert episode.turns == () and episode.feedback.outcome is Outcome.SUCCESS


def test_the_format_can_be_forced_and_an_unknown_one_is_refused() -> None:
    (forced,), _ = load(DATA / "tau2_lines.jsonl", format="tau2")
    assert forced.format == "tau2"
    with pytest.raises(TraceError, match="not a tau_bench run: no list of messages under 'traj'"):
        load(DATA / "chat.jsonl", format="tau_bench")
    with pytest.raises(ConfigError, match="one of: tau_bench, tau2, agentdojo"):
        TraceReader(DATA, format="parquet")


def test_the_callers_domain_wins() -> None:
    assert {run.domain for run in load(DATA / "tau2.json", domain="mine")[0]} == {"mine"}


def test_reading_a_folder_twice_gives_equal_runs_with_unique_ids() -> None:
    first, report = load(DATA)
    assert first == load(DATA, workers=2)[0]
    ids = [run.id for run in first]
    assert len(set(ids)) == len(ids)
    assert {Path(name).name for name in report.not_traces} == {"tools.json", "tau_bench.labels.jsonl"}
    for run in first:
        assert Trajectory.model_validate(run.model_dump()) == run  # built without validation, and valid all the same


COUNTS = {
    "tau-bench/airline-gpt-4o.jsonl.gz": (136, 57),
    "tau-bench/retail-gpt-4o-l0.jsonl.gz": (92, 61),
    "tau-bench/retail-subtasks-feedback.jsonl.gz": (42, 29),
    "tau2/airline-qwen2.5-7b.json.gz": (34, 6),
    "tau2/airline-gpt-4.1.json.gz": (13, 6),
    "tau2/retail-toolorchestra-gpt-4.1-mini.json.gz": (91, 77),
    "tau2/telecom-gpt-4.1-ft.json.gz": (31, 23),
    "tau2-custom-domains/gemma-3-27b-it.jsonl.gz": (177, 163),
    "agentdojo/claude-3-haiku-20240307.jsonl.gz": (88, 40),
    "agentdojo/gemini-2.0-flash-001.jsonl.gz": (93, 42),
    "agentdojo-drift/gpt-4o-mini-2024-07-18.jsonl.gz": (38, 5),
    "who-and-when/Algorithm-Generated.jsonl.gz": (84, 0),
    "reflexion/hotpotqa-react.jsonl.gz": (1480, 656),
    "reflexion/alfworld-env_results.jsonl.gz": (2002, 1710),
}
"""Runs without attack, and successes, by the table that lies beside the recorded runs."""


@pytest.mark.parametrize("name", list(COUNTS))
def test_recorded_files_are_read_whole(shared_data: Path, name: str) -> None:
    runs, report = load(shared_data / name)
    assert not report.skipped
    assert (len(runs), sum(run.feedback.outcome is Outcome.SUCCESS for run in runs)) == COUNTS[name]


def test_the_whole_folder_of_recorded_runs_is_read(shared_data: Path) -> None:
    reader = TraceReader(shared_data)
    count = sum(1 for _ in reader)
    assert count == 7161 and not reader.report.skipped
    assert reader.report.attacked == 23_807
    assert reader.report.formats == {
        "agentdojo": 2292,
        "reflexion": 3482,
        "tau2": 749,
        "tau_bench": 510,
        "who_and_when": 128,
    }


@pytest.mark.parametrize("name", ["airline-gpt-4o", "retail-gpt-4o-l0", "retail-with-preconditions"])
def test_failed_calls_are_those_that_a_replay_counts(shared_data: Path, name: str) -> None:
    folder = shared_data / "tau-bench"
    runs, _ = load(folder / f"{name}.jsonl.gz")
    labels = [record.value for record in iter_lines(folder / f"{name}.labels.jsonl.gz")]
    calls = [[call.arguments is None for _, call in run.calls()] for run in runs]
    assert [sum(unreadable) for unreadable in calls] == [label["bad_json_args"] for label in labels]
    assert [unreadable.count(False) for unreadable in calls] == [label["calls"] for label in labels]
    errors = [_statuses(run).count("error") for run in runs]
    agree = sum(ours == label["error_calls"] for ours, label in zip(errors, labels, strict=True))
    assert agree >= 0.97 * len(runs)


def test_recorded_airline_runs_reuse_call_ids_and_lose_no_result(shared_data: Path) -> None:
    runs, report = load(shared_data / "tau-bench" / "airline-gpt-4o.jsonl.gz")
    assert report.repairs["reused_call_id"] == 26
    assert all(status != "unanswered" for run in runs for status in _statuses(run))


def test_scrambled_task_ids_are_restored(shared_data: Path) -> None:
    runs, report = load(shared_data / "tau2" / "retail-toolorchestra-gpt-4.1-mini.json.gz")
    assert report.repairs["task_id_restored"] == 89
    clean, _ = load(shared_data / "tau2" / "retail-gpt-4.1.json.gz")
    gold = {run.task_id: run.gold for run in clean}
    shared = [run for run in runs if run.task_id in gold]
    assert len(shared) > 20
    same = sum([g.tool for g in run.gold or ()] == [g.tool for g in gold[run.task_id] or ()] for run in shared)
    assert same >= 0.9 * len(shared)
