from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

pytest.importorskip("tau2", reason="the tau2 extra is not installed")

from graph_schema.errors import ConfigError
from inference.evaluate.tau2.record import record_runs
from inference.evaluate.tau2.settings import ErrorKind, load_settings

SETTINGS = load_settings(record_trials=2)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory):
    return record_runs("airline", "train", tmp_path_factory.mktemp("runs") / "airline.json", SETTINGS)


def test_the_package_reads_its_own_format(recording) -> None:
    from tau2.data_model.simulation import Results

    results = Results.load(recording.path)
    assert len(results.tasks) == recording.tasks == 30
    assert len(results.simulations) == recording.runs == 60
    rewards = [simulation.reward_info.reward for simulation in results.simulations]
    assert sum(rewards) == recording.successes and 0 < recording.successes < 60
    assert {(s.task_id, s.trial) for s in results.simulations} == {
        (task.id, trial) for task in results.tasks for trial in (0, 1)
    }
    assert len({s.id for s in results.simulations}) == 60
    for simulation in results.simulations:
        assert [message.role for message in simulation.messages[:2]] == ["assistant", "user"]
        assert [message.turn_idx for message in simulation.messages] == list(range(len(simulation.messages)))


def test_injected_errors_are_logged_beside_and_not_inside(recording) -> None:
    lines = [json.loads(line) for line in recording.log.read_text().splitlines()]
    assert len(lines) == sum(recording.injected.values()) > 0
    assert {line["kind"] for line in lines} == set(ErrorKind)
    results = json.loads(recording.path.read_text())
    runs = {(s["task_id"], s["trial"]): s for s in results["simulations"]}
    for line in lines:
        call = runs[line["task_id"], line["trial"]]["messages"][line["message"]]["tool_calls"][0]
        assert {"name": call["name"], "arguments": call["arguments"]} == line["call"] != line["gold"]
    text = recording.path.read_text()
    assert not any(word in text for word in ("injected", "skipped_read", "wrong_object", "mended"))
    assert not recording.log.name.endswith((".json", ".jsonl", ".gz"))


def test_errors_lower_the_reward(recording) -> None:
    assert set(recording.reward_when_injected) == set(recording.injected) == set(ErrorKind)
    weighted = sum(recording.reward_when_injected[kind] * count for kind, count in recording.injected.items())
    assert weighted < 0.5 * sum(recording.injected.values())


def test_the_same_recording_is_the_same_bytes(recording, tmp_path: Path) -> None:
    again = record_runs("airline", "train", tmp_path / "again" / "airline.json.gz", SETTINGS)
    assert gzip.decompress(again.path.read_bytes()) == recording.path.read_bytes()
    assert again.log.read_bytes() == recording.log.read_bytes()
    assert sorted(p.name for p in again.path.parent.iterdir()) == ["airline.injected.log", "airline.json.gz"]
    other = record_runs("airline", "train", tmp_path / "other.json", load_settings(record_trials=2, seed=1))
    assert other.path.read_bytes() != recording.path.read_bytes()


def test_bad_targets_are_named_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.json or \.json\.gz"):
        record_runs("airline", "train", tmp_path / "runs.txt")
    with pytest.raises(ConfigError, match="no split"):
        record_runs("airline", "dev", tmp_path / "runs.json")
    assert list(tmp_path.iterdir()) == []
