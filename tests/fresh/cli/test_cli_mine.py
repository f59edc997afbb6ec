"""``fresh mine`` as a user meets it: what it prints, what it leaves on disk, and how it fails."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_desk import DIRTY, GARDEN, LIBRARY, Fresh, contents, simple_run, write_runs

from graph_schema.graph import ExperienceGraph
from graph_schema.types import NodeType


def test_mine_writes_a_memory_and_says_what_it_read(fresh: Fresh, tmp_path: Path) -> None:
    result = fresh("mine", GARDEN, LIBRARY, "-o", tmp_path / "m", "--no-embed", "--json", tmp_path / "report.json")
    assert result.status == 0
    report = json.loads((tmp_path / "report.json").read_text())
    graph = ExperienceGraph.load(tmp_path / "m")
    runs = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in (GARDEN, LIBRARY))
    assert report["runs"] == runs == graph.tables.runs.num_rows
    assert report["counts"] == graph.counts()
    assert sum(row["success"] + row["failure"] + row["unknown"] for row in report["outcomes"]) == runs
    assert {row["domain"] for row in report["outcomes"]} == {"garden", "library"}
    times = [error["times"] for error in report["errors"]]
    assert 0 < len(times) <= 10
    assert times == sorted(times, reverse=True)
    for title in ("by outcome", "Nodes and edges", "Most frequent errors", "Skipped: nothing"):
        assert title in result.out
    assert report["errors"][0]["tool"] in result.out


def test_memory_is_the_same_bytes_whatever_the_order_and_the_workers(fresh: Fresh, tmp_path: Path) -> None:
    orders = [(GARDEN, LIBRARY, DIRTY), (DIRTY, LIBRARY, GARDEN), (LIBRARY, GARDEN, DIRTY, GARDEN)]
    memories = []
    for number, (paths, workers) in enumerate(zip(orders, ("1", "2", "3"), strict=True)):
        memories.append(tmp_path / str(number))
        args = ("--encoder", "hashed", "--workers", workers, "-o", memories[-1])
        assert fresh("mine", *paths, *args).status == 0
    first, *others = (contents(folder) for folder in memories)
    assert "manifest.json" in first
    assert all(other == first for other in others)


def test_a_run_in_two_files_counts_once_in_either_order(fresh: Fresh, tmp_path: Path) -> None:
    copy = tmp_path / "again.jsonl"
    shutil.copy(GARDEN, copy)
    assert fresh("mine", GARDEN, copy, "-o", tmp_path / "a", "--no-embed").status == 0
    assert fresh("mine", copy, GARDEN, "-o", tmp_path / "b", "--no-embed").status == 0
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    lines = len(GARDEN.read_text(encoding="utf-8").splitlines())
    assert ExperienceGraph.load(tmp_path / "a").tables.runs.num_rows == lines


def test_mining_again_replaces_the_memory(fresh: Fresh, tmp_path: Path) -> None:
    assert fresh("mine", GARDEN, "-o", tmp_path / "m", "--no-embed").status == 0
    assert fresh("mine", LIBRARY, "-o", tmp_path / "m", "--no-embed").status == 0
    assert {run["domain"] for run in ExperienceGraph.load(tmp_path / "m").tables.runs.to_pylist()} == {"library"}


def test_skipped_records_are_named_with_file_position_and_reason(fresh: Fresh, tmp_path: Path) -> None:
    broken = write_runs(tmp_path / "runs.jsonl", simple_run(success=True), {"nothing": "here"})
    broken.write_text(broken.read_text() + '{"messages": [{"role": "us', encoding="utf-8")
    result = fresh("mine", broken, "-o", tmp_path / "m", "--no-embed", "--json", tmp_path / "report.json")
    assert result.status == 0
    skipped = json.loads((tmp_path / "report.json").read_text())["skipped"]
    assert [item["position"] for item in skipped] == ["line 2", "line 3"]
    assert all(item["file"] == str(broken) and item["reason"] for item in skipped)
    assert "Skipped: 2" in result.out
    assert "line 3" in result.out


def test_strict_refuses_what_would_be_skipped(fresh: Fresh, tmp_path: Path) -> None:
    broken = write_runs(tmp_path / "runs.jsonl", simple_run(success=True), {"nothing": "here"})
    result = fresh("mine", broken, "-o", tmp_path / "m", "--no-embed", "--strict")
    assert result.status == 2
    assert "line 2" in result.one_line
    assert not (tmp_path / "m").exists()


def test_dirty_traces_are_read_and_reported(fresh: Fresh, tmp_path: Path) -> None:
    result = fresh("mine", DIRTY, "-o", tmp_path / "m", "--no-embed", "--json", tmp_path / "report.json")
    assert result.status == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["repairs"] or report["skipped"]
    assert "Mended while reading" in result.out or "Skipped: " in result.out


def test_runs_without_outcome_are_mined_with_a_warning(fresh: Fresh, tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs.jsonl", simple_run())
    result = fresh("mine", runs, "-o", tmp_path / "m", "--no-embed")
    assert result.status == 0
    assert "no run has a known outcome" in result.one_line
    assert ExperienceGraph.load(tmp_path / "m").tables.runs["outcome"].to_pylist() == ["unknown"]


def test_inferred_effects_are_shown_and_corrected_in_one_file(fresh: Fresh, tmp_path: Path) -> None:
    runs, effects = write_runs(tmp_path / "runs.jsonl", simple_run(success=True)), tmp_path / "effects.json"
    result = fresh("mine", runs, "-o", tmp_path / "m", "--no-embed", "--write-effects", effects)
    assert result.status == 0
    assert "open_gate" in result.out
    assert "--effects FILE" in result.out
    assert json.loads(effects.read_text()) == {"open_gate": "write"}
    effects.write_text('{"open_gate": "read"}')
    again = fresh("mine", runs, "-o", tmp_path / "m", "--no-embed", "--effects", effects)
    assert "Inferred from the tools' names" not in again.out
    assert ExperienceGraph.load(tmp_path / "m").settings["effects"] == {"open_gate": "read"}


def test_tools_file_says_what_tools_do_and_corrections_overrule_it(fresh: Fresh, tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs.jsonl", simple_run(success=True))
    tools, effects = tmp_path / "tools.json", tmp_path / "effects.json"
    tool = {"name": "open_gate", "description": "Looks whether a gate is open.", "inputSchema": {"type": "object"}}
    tools.write_text(json.dumps([tool | {"annotations": {"readOnlyHint": True}}]))
    assert fresh("mine", runs, "-o", tmp_path / "m", "--no-embed", "--tools", tools).status == 0
    graph = ExperienceGraph.load(tmp_path / "m")
    assert graph.settings["effects"] == {"open_gate": "read"}
    node = next(graph.nodes(NodeType.TOOL))
    assert node.data["purpose"] == "Looks whether a gate is open."
    effects.write_text('{"open_gate": "other"}')
    args = ("--tools", tools, "--effects", effects)
    assert fresh("mine", runs, "-o", tmp_path / "m", "--no-embed", *args).status == 0
    assert ExperienceGraph.load(tmp_path / "m").settings["effects"] == {"open_gate": "other"}


def missing_path(folder: Path) -> list[str | Path]:
    return [folder / "absent.jsonl"]


def empty_folder(folder: Path) -> list[str | Path]:
    (folder / "empty").mkdir()
    return [folder / "empty"]


def no_runs(folder: Path) -> list[str | Path]:
    (folder / "other.json").write_text('{"a": 1}')
    return [folder / "other.json"]


def unknown_format(folder: Path) -> list[str | Path]:
    return [GARDEN, "--format", "nonesuch"]


def missing_effects(folder: Path) -> list[str | Path]:
    return [GARDEN, "--effects", folder / "absent.json"]


def wrong_effect(folder: Path) -> list[str | Path]:
    (folder / "effects.json").write_text('{"cancel_order": "sometimes"}')
    return [GARDEN, "--effects", folder / "effects.json"]


def empty_tools(folder: Path) -> list[str | Path]:
    (folder / "tools.json").write_text("[]")
    return [GARDEN, "--tools", folder / "tools.json"]


def unknown_encoder(folder: Path) -> list[str | Path]:
    return [GARDEN, "--encoder", folder / "absent-model"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (missing_path, "no such file or folder"),
        (empty_folder, "file in the folder"),
        (no_runs, "no runs of a known format"),
        (unknown_format, "one of: "),
        (missing_effects, "effects file"),
        (wrong_effect, "'read', 'write' or 'other'"),
        (empty_tools, "no tools in"),
        (unknown_encoder, "text encoder"),
    ],
)
def test_bad_input_gets_one_line_and_leaves_nothing(
    fresh: Fresh, tmp_path: Path, arguments: Callable[[Path], list[str | Path]], words: str
) -> None:
    output = tmp_path / "memory"
    embed = [] if arguments is unknown_encoder else ["--no-embed"]
    result = fresh("mine", *arguments(tmp_path), "-o", output, *embed)
    assert result.status == 2
    assert words in result.one_line
    assert not output.exists()


def test_output_that_is_no_memory_is_refused_before_reading(fresh: Fresh, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("keep me")
    result = fresh("mine", tmp_path / "absent.jsonl", "-o", tmp_path)
    assert result.status == 2
    assert "name another folder" in result.one_line
    assert [file.name for file in tmp_path.iterdir()] == ["precious.txt"]


def test_a_frozen_memory_is_not_mined_over(fresh: Fresh, memory: Path, tmp_path: Path) -> None:
    frozen = tmp_path / "frozen"
    shutil.copytree(memory, frozen)
    manifest = json.loads((frozen / "manifest.json").read_text())
    (frozen / "manifest.json").write_text(json.dumps(manifest | {"kind": "memory"}))
    before = contents(frozen)
    result = fresh("mine", GARDEN, "-o", frozen, "--no-embed")
    assert result.status == 2
    assert "frozen" in result.one_line
    assert contents(frozen) == before
