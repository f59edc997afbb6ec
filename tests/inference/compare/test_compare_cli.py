"""The command line as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fresh.cli import main
from tests.compare_world import DESKS


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "desks.yaml"
    path.write_text("name: desks\npaths: [garden.jsonl]\nfolds: 2\npoints_per_run: 2\nencoder: hashed\n")
    return path


def run(args: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(args)
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out, shown.err


def test_compare_from_the_command_line(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["compare", str(config), "--data", str(DESKS), "-m", "none,few-shot", "--work", str(tmp_path / "work")]
    status, out, err = run([*args, "--budget", "150", "--seed", "3", "--json", str(tmp_path / "x.json")], capsys)
    assert status == 0, err
    assert "few-shot" in out and "seed 3" in out
    (report,) = json.loads((tmp_path / "x.json").read_text())["compare"]
    assert [row["memory"] for row in report["rows"]] == ["none", "few-shot"]
    assert report["settings"]["budget"] == 150 and report["rows"][1]["cost"]["most_tokens"] <= 150


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-m", "few-shoot"], "no memory called 'few-shoot'; did you mean few-shot"),
        (["--data", "nowhere"], "there is no folder nowhere"),
        (["--mine-agent", "llama*"], "no agent is called 'llama*'"),
        (["--folds", "99"], "99 folds need"),
    ],
)
def test_mistakes_end_with_one_line(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], message: str
) -> None:
    base = ["compare", str(config), "--data", str(DESKS), "--work", str(tmp_path / "work"), "-m", "none"]
    status, out, err = run([*base, *args], capsys)
    assert status == 2 and message in err and err.startswith("fresh: ") and err.count("\n") == 1 and not out


def test_lists_memories_and_groups(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(["compare", "--list"], capsys)
    assert status == 0 and "fresh: the trained graph memory" in out and "ablations (group): fresh, " in out


def test_counts_behind_pass_hat_k(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(["eval", "passk", "0.288", "0.117", "0.113", "0.100", "--tasks", "20"], capsys)
    assert out == "no counts give these of 20 tasks run 4 times\n"
    _, out, _ = run(["eval", "passk", "0.75", "0.5", "--tasks", "2", "--json"], capsys)
    assert json.loads(out) == {"tasks": 2, "pass_hat": [0.75, 0.5], "counts": [[1, 1]]}
    status, _, err = run(["eval", "passk", "1.5", "--tasks", "2"], capsys)
    assert status == 2 and "shares between 0 and 1" in err
