"""The benchmarks run and say what they compare; how fast it is depends on the machine and is not tested."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def run(script: str, *options: str) -> str:
    paths = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, str(REPOSITORY / "benchmarks" / script), *options]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": paths, "COLUMNS": "110"}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_bm25_prints_a_ratio_for_every_size_and_length() -> None:
    out = run("bench_bm25.py", "--documents", "50", "300", "--rounds", "1")
    rows = [line for line in out.splitlines() if re.search(r"\d+x", line)]
    assert [re.findall(r"│ ([\d,]+) +│ +(\d+) │", row)[0] for row in rows] == [
        ("50", "12"),
        ("50", "200"),
        ("300", "12"),
        ("300", "200"),
    ]


def test_rgcn_agrees_with_the_reference() -> None:
    sizes = ["--graphs", "2", "--nodes", "20", "--edges", "60", "--hidden", "8", "--rounds", "1"]
    out = run("bench_rgcn.py", *sizes)
    apart = [float(value) for value in re.findall(r"│ +(\d\.\de[-+]\d+) ", out)]
    assert len(apart) == 4
    assert max(apart) < 1e-4


def test_variants_take_turns_and_warm_up_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    from timing import interleaved, ratio

    turns: list[str] = []
    seconds = interleaved({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, rounds=2, warmup=1)
    assert turns == ["a", "b"] * 3
    assert {name: len(times) for name, times in seconds.items()} == {"a": 2, "b": 2}
    assert ratio([4.0, 9.0, 8.0], [2.0, 3.0, 1.0]) == 3


def test_mining_prints_runs_a_second_with_and_without_scores() -> None:
    out = run("bench_mine.py", "--rounds", "1", "--copies", "1")
    speeds = re.findall(r"│ (mine|without ExpG) +│ +([\d,]+) │", out)
    assert [name for name, _ in speeds] == ["mine", "without ExpG"]
    assert all(int(speed.replace(",", "")) > 0 for _, speed in speeds)
