"""The demo's steps, with few runs and a mined graph in place of a trained memory."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

pytest.importorskip("tau2", reason="the tau2 extra is not installed")

from rich.console import Console

from fresh.mining import mine
from fresh.traces import load
from inference.demo import run_demo
from inference.evaluate.tau2 import load_settings

DOMAIN = "airline"


def test_demo_records_mines_fits_and_measures_in_this_order(tmp_path: Path) -> None:
    steps: list[str] = []
    output, recordings = tmp_path / "checkpoint", tmp_path / "recordings"

    def mined(folder: Path) -> None:
        steps.append("mine")
        assert [file.name for file in folder.glob("*.json.gz")] == [f"{DOMAIN}.json.gz"]

    def fitted(folder: Path, target: Path) -> None:
        steps.append("fit")
        runs, report = load(folder)
        assert report.skipped == []
        assert {run.domain for run in runs} == {DOMAIN}
        mine(runs).save(target)

    console = Console(file=io.StringIO(), width=120)
    run_demo(
        output,
        mine=mined,
        fit=fitted,
        console=console,
        json_file=tmp_path / "new" / "results.json",
        settings=load_settings(record_trials=1, trials=1, resamples=50),
        recordings=recordings,
        domains=[DOMAIN],
    )
    assert steps == ["mine", "fit"]
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "executor is simulated" in text
    assert "no language model is called" in text
    results = json.loads((tmp_path / "new" / "results.json").read_text())
    assert results["executor"] == "simulated"
    arms = results["comparisons"][0]
    assert arms["without"]["gated"] is False
    assert arms["gated"]["gated"] is True
    assert arms["without"]["outcomes"].keys() == arms["gated"]["outcomes"].keys()
    trained_on = {run.task_id for run in load(recordings)[0]}
    assert not trained_on & arms["gated"]["outcomes"].keys()
