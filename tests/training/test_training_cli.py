from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from fresh.traces import load as load_traces
from graph_schema.storage import checked_files, graph_from_files, read_manifest
from inference import load
from tests.conftest import REPOSITORY
from tests.retrieval_world import runs
from training.__main__ import main

QUICK = [
    "--trainer.max_epochs=2",
    "--data.per_task=4",
    "--data.points_per_run=2",
    "--trainer.enable_progress_bar=false",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recorded runs as chat messages, one a line."""
    path = tmp_path_factory.mktemp("recorded") / "desk.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps(as_messages(i)) for i in range(24)))
    return path


def as_messages(number: int) -> dict[str, object]:
    trajectory, messages = runs(24)[number], []
    for turn in trajectory.turns:
        if not turn.calls:
            messages.append({"role": str(turn.role), "content": turn.text})
        for call in turn.calls:
            function = {"name": call.tool, "arguments": orjson.dumps(call.arguments).decode()}
            asked = [{"id": call.id, "function": function}]
            messages.append({"role": "assistant", "content": None, "tool_calls": asked})
            text = call.observation.text if call.observation else ""
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return {"messages": messages, "success": True, "task_id": trajectory.task_id}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configs write below the current folder."""
    monkeypatch.chdir(tmp_path)


def fit(folder: Path, where: Path, *options: str) -> Path:
    target = where / "memory"
    main(
        [
            "fit",
            f"--config={REPOSITORY / 'training' / 'configs' / 'sample.yaml'}",
            f"--data.paths=[{folder}]",
            f"--export={target}",
            *QUICK,
            *options,
        ]
    )
    return target


def test_fit_exports_a_frozen_memory(folder: Path, tmp_path: Path) -> None:
    target = fit(folder, tmp_path)
    manifest = read_manifest(target)
    assert manifest["kind"] == "memory" and manifest["frozen"] is True and manifest["encoder"] == "hashed"
    assert 0 < manifest["metrics"]["val/ndcg@10"] <= 1 and manifest["data"]["runs"] == 24
    assert manifest["training"]["model"]["hidden"] == 32
    files = checked_files(target, manifest)
    assert "Limits" in files["card.md"].read_text()
    tools = sorted({call.tool for run in load_traces(folder)[0] for _, call in run.calls()})
    described = load(target).tools([{"type": "function", "function": {"name": name}} for name in tools])
    assert any(tool["function"].get("description") for tool in described), "ExpG's guidance goes with the memory"
    assert list(tmp_path.rglob("metrics.csv")), "the CSV log is always written"

    code = (
        "import sys; from pathlib import Path\n"
        "from inference import load\n"
        "memory = load(sys.argv[1])\n"
        "assert memory.ranker.__class__.__name__ == 'Retriever'\n"
        "guidance = memory.guide([{'role': 'user', 'content': 'please pay the fine'}])\n"
        "assert 'Do:' in guidance.text, guidance.text\n"
        "assert not {'lightning', 'jsonargparse', 'torch_geometric', 'wandb'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(target)], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(graph_from_files(manifest, files)) > 20


def test_checkpoint_loads_with_weights_only_and_without_the_data(folder: Path, tmp_path: Path) -> None:
    import torch

    from training.module import RerankerModule

    fit(folder, tmp_path)
    (best,) = (tmp_path / "runs/fit/sample/best").glob("*.ckpt")
    plain = torch.load(best, weights_only=True)["hyper_parameters"]
    assert plain["hidden"] == 32 and plain["sizes"]["text_dim"] == 256
    module = RerankerModule.load_from_checkpoint(best, map_location="cpu", weights_only=True)
    assert module.network.config.hidden == 32


def test_validate_and_test_take_the_checkpoint(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(folder, tmp_path)
    (best,) = (tmp_path / "runs/fit/sample/best").glob("*.ckpt")
    config = REPOSITORY / "training" / "configs" / "sample.yaml"
    for command in ("validate", "test"):
        main(
            [
                command,
                f"--config={config}",
                f"--data.paths=[{folder}]",
                f"--ckpt_path={best}",
                "--data.points_per_run=2",
                "--trainer.enable_progress_bar=false",
            ]
        )
    assert "test/ndcg@10" in capsys.readouterr().out


def test_users_mistakes_get_one_line(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "precious.txt").write_text("mine")
    with pytest.raises(SystemExit) as stop:
        fit(folder, tmp_path)
    assert stop.value.code == 2 and "not a memory" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        fit(folder, tmp_path / "other", "--model.weighting=guess")
    assert stop.value.code == 2
    with pytest.raises(SystemExit) as stop:
        fit(folder, tmp_path / "other", "--model.hiden=3")
    assert stop.value.code == 2
    assert not (tmp_path / "other" / "memory").exists()


@pytest.mark.parametrize(
    ("paths", "said"), [("[nowhere.jsonl]", "no such file or folder: nowhere.jsonl"), ("[]", "names no recorded runs")]
)
@pytest.mark.parametrize("command", ["fit", "test"])
def test_runs_that_are_not_there_are_told_before_a_trainer_starts(
    command: str, paths: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr("training.cli.MemoryCLI.instantiate_trainer", lambda *_, **__: started.append(_))
    config = REPOSITORY / "training" / "configs" / "sample.yaml"
    with pytest.raises(SystemExit) as stop:
        main([command, f"--config={config}", f"--data.paths={paths}"])
    assert stop.value.code == 2 and said in capsys.readouterr().err and not started


@pytest.mark.parametrize("name", ["tau2", "default", "sample"])
def test_configs_parse(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["fit", f"--config={REPOSITORY / 'training' / 'configs' / f'{name}.yaml'}", "--print_config"])
    assert stop.value.code in (0, None) and "weighting: none" in capsys.readouterr().out
