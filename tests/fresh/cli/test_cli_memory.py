"""What is done with a memory on the command line, and how commands fail."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
from cli_desk import GARDEN, LIBRARY, Fresh

from fresh import cli
from fresh.cli.files import conversation
from graph_schema.errors import ConfigError
from graph_schema.graph import ExperienceGraph
from graph_schema.types import NodeType

# -- inspect -----------------------------------------------------------------------------------------------------


def test_inspect_prints_the_counts(fresh: Fresh, memory: Path) -> None:
    values = json.loads(fresh("inspect", memory, "--json").out)
    graph = ExperienceGraph.load(memory)
    assert values["nodes"] | values["edges"] == graph.counts()
    assert {row["tool"] for row in values["tools"]} == {node.key for node in graph.nodes(NodeType.TOOL)}
    text = fresh("inspect", memory).out
    assert "Nodes and edges" in text
    assert all(row["tool"] in text for row in values["tools"])


def test_inspect_runs_lists_every_run(fresh: Fresh, memory: Path) -> None:
    listed = json.loads(fresh("inspect", memory, "--runs", "--json").out)["run_list"]
    graph = ExperienceGraph.load(memory)
    assert [run["id"] for run in listed] == graph.tables.runs["id"].to_pylist()
    assert "garden.jsonl:0" in fresh("inspect", memory, "--runs").out


def test_inspect_tool_says_everything_with_the_runs_behind_it(fresh: Fresh, memory: Path) -> None:
    values = json.loads(fresh("inspect", memory, "--tool", "cancel_order", "--json").out)
    graph = ExperienceGraph.load(memory)
    index = graph.find(NodeType.TOOL, "cancel_order")
    assert index is not None
    node = graph.node(index)
    assert (values["verified"], values["failed"]) == (node.success, node.failure)
    assert values["success_rate"] == pytest.approx(node.success / (node.success + node.failure), abs=1e-4)
    assert [run["id"] for run in values["runs"]] == [run.id for run in graph.runs_of(index)]
    assert values["errors"]
    assert sum(error["times"] for error in values["errors"]) == values["errors_seen"]
    assert all(0 <= row["confidence"] <= 1 and row["support"] > 0 for row in values["preconditions"])
    assert all(error["run_count"] == len(error["runs"]) > 0 for error in values["errors"])
    text = fresh("inspect", memory, "--tool", "cancel_order").out
    for title in ("success rate", "Actions", "Preconditions", "Errors", "Repairs", "garden.jsonl:"):
        assert title in text


def test_inspect_unknown_tool_names_the_nearest(fresh: Fresh, memory: Path) -> None:
    result = fresh("inspect", memory, "--tool", "cancel_ordr")
    assert result.status == 2
    assert "did you mean cancel_order" in result.one_line


def test_inspect_damaged_and_newer_memories(fresh: Fresh, memory: Path, tmp_path: Path) -> None:
    damaged, newer = tmp_path / "damaged", tmp_path / "newer"
    shutil.copytree(memory, damaged)
    nodes = next(damaged.glob("nodes.*.parquet"))
    nodes.write_bytes(nodes.read_bytes()[:-9])
    assert "damaged" in fresh("inspect", damaged).one_line
    shutil.copytree(memory, newer)
    manifest = json.loads((newer / "manifest.json").read_text())
    (newer / "manifest.json").write_text(json.dumps(manifest | {"format_version": 99}))
    assert "upgrade" in fresh("inspect", newer).one_line
    assert "fresh mine" in fresh("inspect", tmp_path / "absent").one_line


# -- merge -------------------------------------------------------------------------------------------------------


def test_merge_joins_runs_and_counts_a_shared_run_once(fresh: Fresh, memory: Path, tmp_path: Path) -> None:
    garden, library, both = tmp_path / "g", tmp_path / "l", tmp_path / "both"
    assert fresh("mine", GARDEN, "-o", garden, "--no-embed").status == 0
    assert fresh("mine", LIBRARY, "-o", library, "--no-embed").status == 0
    assert fresh("merge", garden, library, "-o", both, "--no-embed").status == 0
    merged, whole = ExperienceGraph.load(both), ExperienceGraph.load(memory)
    assert merged.tables.runs["id"].to_pylist() == whole.tables.runs["id"].to_pylist()
    assert fresh("merge", both, garden, "-o", tmp_path / "again", "--no-embed").status == 0
    assert ExperienceGraph.load(tmp_path / "again").tables.nodes.equals(merged.tables.nodes)


# -- messages and calls ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "not JSON"), ("{}", "expected a JSON list of messages"), ('[{"content": "hello"}]', "with 'role'")],
)
def test_wrong_messages_file(fresh: Fresh, memory: Path, tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "messages.json"
    file.write_text(text)
    for command in (("guide", memory, file), ("gate", memory, file, file)):
        result = fresh(*command)
        assert result.status == 2
        assert words in result.one_line


def test_a_tools_file_without_tools_is_refused(tmp_path: Path) -> None:
    (tmp_path / "messages.json").write_text('[{"role": "user", "content": "hi"}]')
    (tmp_path / "tools.json").write_text('{"a": 1}')
    with pytest.raises(ConfigError, match=r"no tools in .*tools\.json"):
        conversation(tmp_path / "messages.json", tmp_path / "tools.json")


def test_messages_and_tools_may_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "conversation.json"
    messages, tools = [{"role": "user", "content": "hello"}], [{"name": "greet"}]
    file.write_text(json.dumps({"messages": messages, "tools": tools}))
    assert conversation(file, None) == (messages, tools)
    other = tmp_path / "tools.json"
    other.write_text(json.dumps({"tools": [{"name": "wave"}]}))
    assert conversation(file, other) == (messages, [{"name": "wave"}])


# -- passing on --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["fit", "validate", "test"])
def test_training_gets_its_arguments_untouched(fresh: Fresh, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    seen: list[list[str]] = []
    stand_in = types.ModuleType("training.__main__")
    stand_in.main = seen.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "training.__main__", stand_in)
    args = ["--config", "a.yaml", "--trainer.max_epochs=3", "--model.lr", "-1e-3", "--help"]
    assert fresh(command, *args).status == 0
    assert seen == [[command, *args]]


def test_expg_is_mounted(fresh: Fresh) -> None:
    result = fresh("expg", "--help")
    assert result.status == 0
    assert "acquire" in result.out
    assert fresh("expg", "nonesuch").status == 2


# -- faults ------------------------------------------------------------------------------------------------------


def test_results_that_cannot_be_written_are_one_line_and_the_memory_stays(fresh: Fresh, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for option in ("--json", "--write-effects"):
        result = fresh(
            "mine", GARDEN, "-o", tmp_path / "m", "--no-embed", option, tmp_path / "file" / "deeper" / "x.json"
        )
        assert result.status == 2
        assert "cannot read or write" in result.one_line and "deeper" in result.one_line
        assert fresh("inspect", tmp_path / "m").status == 0


def test_a_full_disk_is_one_line(
    memory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ExperienceGraph, "load", fail)
    with pytest.raises(SystemExit, match="2"):
        cli.main(["inspect", str(memory)])
    assert capsys.readouterr().err == "fresh: cannot read or write the disk: No space left on device\n"


@pytest.mark.parametrize("parent", ["file", "file/deeper"])
def test_output_below_a_file_is_refused_before_reading(fresh: Fresh, tmp_path: Path, parent: str) -> None:
    (tmp_path / "file").write_text("in the way")
    result = fresh("mine", tmp_path / "absent.jsonl", "-o", tmp_path / parent / "m")
    assert result.status == 2
    assert "is a file" in result.one_line


def test_a_merged_memory_knows_the_outcomes_of_its_runs(fresh: Fresh, memory: Path, tmp_path: Path) -> None:
    fresh("merge", memory, memory, "-o", tmp_path / "twice", "--no-embed")
    one, twice = (json.loads(fresh("inspect", path, "--json").out) for path in (memory, tmp_path / "twice"))
    assert twice["outcomes"] == one["outcomes"] and sum(one["outcomes"].values()) == one["runs"]


def test_ctrl_c_ends_reading_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    runs = GARDEN.read_text() * 150
    for number in range(4):
        (tmp_path / f"{number}.jsonl").write_text(runs)
    command = [sys.executable, "-m", "fresh.cli", "mine", str(tmp_path), "-o", str(tmp_path / "m"), "--workers", "2"]
    process = subprocess.Popen(
        [*command, "--no-embed"], stderr=subprocess.PIPE, start_new_session=True, preexec_fn=_listen, cwd=Path.cwd()
    )
    time.sleep(2.5)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    started = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - started < 3  # the files in hand would take longer
    assert process.returncode == 130 and b"Traceback" not in err
    assert not (tmp_path / "m").exists()


def _listen() -> None:
    """A shell's background jobs ignore Ctrl-C, and so do their children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_fault_of_our_own_keeps_its_traceback(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(ExperienceGraph, "load", fail)
    with pytest.raises(RuntimeError, match="a fault"):
        cli.main(["inspect", str(memory)])


def test_unknown_option_is_a_usage_error(fresh: Fresh) -> None:
    result = fresh("mine", "--nonesuch")
    assert result.status == 2
    assert "--nonesuch" in result.err
