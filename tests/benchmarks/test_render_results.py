"""README's tables come from result files and from nowhere else."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PLACE = "before\n<!-- results: r.json | fresh something --json FILE -->\nold\n<!-- end results -->\nafter\n"
ESTIMATE = {"mean": 0.5, "low": 0.25, "high": 0.75}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("render_results", ROOT / "benchmarks" / "render_results.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_readme_is_what_the_results_say(script: ModuleType) -> None:
    assert script.main(["--check"]) == 0, "run: make results"


def test_a_missing_result_is_called_missing_and_names_its_command(script: ModuleType, tmp_path: Path) -> None:
    text = script.render(PLACE, tmp_path)
    assert "old" not in text
    assert "Not measured yet" in text
    assert "`fresh something --json FILE`" in text
    assert script.render(text, tmp_path) == text


def test_retrieval(script: ModuleType, tmp_path: Path) -> None:
    better = {"mean": 0.6, "low": 0.5, "high": 0.7}
    values = {
        "nodes": {"r-gcn": {"ndcg@10": better}, "random": {"ndcg@10": ESTIMATE}},
        "best_other": "random",
        "difference": {"ndcg@10": ESTIMATE},
        "ratio": 1.2,
        "runs": {"bm25": ESTIMATE},
        "counts": {"tasks": 7},
        "settings": {"seed": 3},
        "versions": {"torch": "2.13.0"},
    }
    (tmp_path / "r.json").write_text(json.dumps(values))
    text = script.render(PLACE, tmp_path)
    assert text.index("| random | 0.500 [0.250, 0.750] |") < text.index("| r-gcn | 0.600 [0.500, 0.700] |")
    assert "1.20 times" in text
    assert "7 tasks" in text
    assert "torch 2.13.0; seed 3" in text


def test_closed_loop(script: ModuleType, tmp_path: Path) -> None:
    arm = {
        "domain": "airline",
        "pass_k": {"1": ESTIMATE},
        "faults": {"skipped_read": {"made": 8, "caught": 6}, "wrong_object": {"made": 2, "caught": 2}},
        "due_writes": 50,
        "held_writes": 1,
        "write_ms": 1.25,
    }
    values = {"comparisons": [{"without": arm, "gated": arm, "gain": {"1": ESTIMATE}}]}
    (tmp_path / "r.json").write_text(json.dumps(values))
    text = script.render(PLACE, tmp_path)
    assert "| airline | 80.0% of 10 | 2.0% of 50 | 1.25 ms |" in text
    assert "simulated" in text


def test_text_is_kept_as_it_is_and_unknown_results_are_refused(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("a | b\n")
    assert "```text\na | b\n```" in script.render(PLACE.replace("r.json", "r.txt"), tmp_path)
    (tmp_path / "r.json").write_text('{"something": 1}')
    with pytest.raises(SystemExit, match="does not know"):
        script.render(PLACE, tmp_path)


def test_gate(script: ModuleType, tmp_path: Path) -> None:
    share = {"part": 1, "whole": 2, "low": 0.1, "high": 0.9, "value": 0.5}
    count = {"held": share, "refused": 1, "foreseeable": 2, "held_foreseeable": 1, "meaning_only": 0}
    report = {"name": "shop", "passed_right": share, "held_wrong": share, "held_accepted": share, "held_refused": None}
    chosen = {"max_false_block": 0.01, "false_block": share, "recall": share}
    curves = [{"name": "shop", "chosen": chosen}, {"name": "desk", "chosen": None}]
    values = {"gate": [report | {"kinds": {"wrong object": count}}], "curves": curves}
    (tmp_path / "r.json").write_text(json.dumps(values))
    text = script.render(PLACE, tmp_path)
    rate = "50.0% [10.0%, 90.0%] of 2"
    assert f"| shop | {rate} | {rate} | {rate} | - |" in text
    assert "| shop | wrong object | 2 | 1 | 1 | 2 | 1 | 0 |" in text
    assert f"| shop | 1.0% | {rate} | {rate} |" in text
    assert "desk" not in text
    unseen = {"unseen_calls": 40, "unseen_mined": 0, "unseen_checks": {"repeated": 2}, "unseen_verdicts": {"allow": 38}}
    values["transfer"] = unseen | {"known_calls": 9, "known_mined": 1, "default": "check"}
    (tmp_path / "r.json").write_text(json.dumps(values))
    text = script.render(PLACE, tmp_path)
    assert (
        "0 of 40 calls" in text
        and "1 of 9 calls" in text
        and "allow 38; what spoke, warnings included: repeated 2" in text
    )
    assert "wrong object" not in text


def test_a_model_in_the_loop(script: ModuleType, tmp_path: Path) -> None:
    tokens = {"mean": 4321.4, "low": 4000.0, "high": 4500.0}
    means = {"reward": ESTIMATE, "prompt tokens": tokens, "read accuracy": None}
    arms = {"none": {"means": means, "differences": {}}, "guidance": {"means": means, "differences": means}}
    values = {"arms": arms, "domain": "shop", "common": {"model": "m-1"}, "runs": [{"task": "1"}, {"task": "1"}]}
    (tmp_path / "r.json").write_text(json.dumps(values))
    text = script.render(PLACE, tmp_path)
    assert "|  | none | guidance |" in text
    assert "| reward | 0.50 [0.25, 0.75] | 0.50 [0.25, 0.75] |\n| less none |  | 0.50 [0.25, 0.75] |" in text
    assert "| prompt tokens | 4321 [4000, 4500] | 4321 [4000, 4500] |" in text
    assert "| read accuracy | - | - |" in text
    assert "shop, 1 tasks, a small sample; the model is m-1" in text


def test_memories_compared(script: ModuleType, tmp_path: Path) -> None:
    names = ("next_f1", "foreseen_recall", "false_warnings", "foreseen_f1", "harm")
    measures = dict.fromkeys(names, ESTIMATE)
    rows = [
        {"memory": "fresh", "measures": measures, "cost": {"tokens": 250.4, "p50_ms": 1.26}},
        {"memory": "none", "measures": measures | {"false_warnings": None}, "cost": {"tokens": 0, "p50_ms": 0}},
    ]
    values = {
        "compare": "desk",
        "rows": rows,
        "best": {name: ["fresh"] for name in names},
        "verdicts": ["fresh leads."],
        "counts": {"measured_runs": 8, "tasks": 4, "points": 20},
        "settings": {"mine_agents": [], "measure_agents": ["m-*"]},
        "notes": ["Made with different code."],
    }
    (tmp_path / "r.json").write_text(json.dumps(values))
    text = script.render(PLACE, tmp_path)
    best = "**0.500 [0.250, 0.750]**"
    assert f"| fresh | {' | '.join([best] * 5)} | 250 | 1.3 |" in text
    assert "| none | 0.500 [0.250, 0.750] | 0.500 [0.250, 0.750] | - |" in text
    assert "- fresh leads." in text and "measured: m-*; 8 runs of 4 held-out tasks, 20 decision points" in text
    assert (
        "(docs/results/compare-desk.md)" in text
        and "(docs/results/compare-desk.png)" in text
        and "different code" in text
    )
