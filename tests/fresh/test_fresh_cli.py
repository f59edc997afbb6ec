"""The command line as a user meets it: what it prints, what it leaves on disk, and how it fails."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fresh import cli
from fresh.cli.files import conversation
from graph_schema.graph import ExperienceGraph
from graph_schema.types import NodeType

DATA = Path(__file__).resolve().parent.parent / "data"
GARDEN, LIBRARY = DATA / "desks" / "garden.jsonl", DATA / "desks" / "library.jsonl"
DIRTY = DATA / "dirty" / "desks.jsonl"


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def one_line(self) -> str:
        """The single line on standard error that a failed command may print."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        assert len(lines) == 1, self.err
        assert lines[0].startswith("fresh: ")
        assert "Traceback" not in self.err
        return lines[0]


Fresh = Callable[..., Result]


@pytest.fixture
def fresh(capsys: pytest.CaptureFixture[str]) -> Fresh:
    def run(*args: str | Path) -> Result:
        capsys.readouterr()
        try:
            cli.main([str(arg) for arg in args])
            status: Any = 0
        except SystemExit as stop:
            status = stop.code or 0
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "memory"
    with pytest.raises(SystemExit) as stop:
        cli.main(["mine", str(GARDEN), str(LIBRARY), "-o", str(path), "--encoder", "hashed"])
    assert not stop.value.code
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def write_runs(path: Path, *runs: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(run) + "\n" for run in runs), encoding="utf-8")
    return path


def simple_run(**extra: Any) -> dict[str, Any]:
    call = {"id": "1", "type": "function", "function": {"name": "open_gate", "arguments": '{"gate": 4}'}}
    messages = [
        {"role": "user", "content": "Open gate 4."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": '{"open": true}'},
    ]
    return {"messages": messages, **extra}


# -- mine --------------------------------------------------------------------------------------------------------


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


# -- from traces to a gated action -------------------------------------------------------------------------------


class Step(NamedTuple):
    """A conversation that the memory was not mined from, cut before its write."""

    memory: Path
    run: dict[str, Any]
    before: int
    replaced: dict[str, str]

    def messages(self, folder: Path, length: int) -> Path:
        file = folder / f"messages-{length}.json"
        file.write_text(json.dumps({"messages": self.run["messages"][:length], "tools": self.run["tools"]}))
        return file

    def call(self, folder: Path, name: str = "", **arguments: str) -> Path:
        call = json.loads(json.dumps(self.run["messages"][self.before]["tool_calls"][0]))
        made = json.loads(call["function"]["arguments"])
        call["function"] |= {"arguments": json.dumps(made | arguments)} | ({"name": name} if name else {})
        (folder / "call.json").write_text(json.dumps(call))
        return folder / "call.json"


@pytest.fixture
def step(memory: Path) -> Step:
    """A new customer wants what others wanted before: every name and number is another one."""
    for line in GARDEN.read_text(encoding="utf-8").splitlines():
        names = tool_names(json.loads(line))
        if json.loads(line)["reward"] == 1.0 and names[-1] == ["swap_item"] and names.count(["swap_item"]) == 1:
            break
    email = re.findall(r"[a-z]+\.[a-z]+@", line)[0].rstrip("@")
    people = dict(zip(email.split("."), ("nora", "vale"), strict=True))
    people |= {old.capitalize(): new.capitalize() for old, new in people.items()}
    numbers = sorted(set(re.findall(r"#G\d{4}|\bcard_\d{4}|\b\d{6}\b|_\d{4}\b", line)), key=len, reverse=True)
    replaced = people | {old: f"{old[:-4]}99{number:02}" for number, old in enumerate(numbers)}
    run = json.loads(re.sub("|".join(map(re.escape, replaced)), lambda match: replaced[match[0]], line))
    write = [message for message, calls in enumerate(all_tool_names(run)) if calls == ["swap_item"]]
    return Step(memory, run, write[0], replaced)


def all_tool_names(run: dict[str, Any]) -> list[list[str]]:
    return [[call["function"]["name"] for call in m.get("tool_calls") or ()] for m in run["messages"]]


def tool_names(run: dict[str, Any]) -> list[list[str]]:
    return [names for names in all_tool_names(run) if names]


def test_a_write_whose_conditions_hold_is_allowed(fresh: Fresh, step: Step, tmp_path: Path) -> None:
    result = fresh("gate", step.memory, step.messages(tmp_path, step.before), step.call(tmp_path))
    assert result.status == 0
    assert result.out.startswith("allow")


def test_a_premature_write_is_sent_back_with_what_to_do_first(fresh: Fresh, step: Step, tmp_path: Path) -> None:
    args = (step.memory, step.messages(tmp_path, 1), step.call(tmp_path))
    decision = json.loads(fresh("gate", *args, "--json", "--provenance").out)
    assert decision["verdict"] == "revise"
    calls = [(todo["tool"], todo["arguments"]) for todo in decision["todo"] if todo["kind"] == "call"]
    order = json.loads((tmp_path / "call.json").read_text())["function"]["arguments"]
    assert ("get_order", {"order_id": json.loads(order)["order_id"]}) in calls
    assert {todo["argument"] for todo in decision["todo"] if todo["kind"] == "correct_argument"} >= {"item_id"}
    assert any(finding["runs"] for finding in decision["findings"])
    text = fresh("gate", *args).out
    assert decision["reason"] in text
    assert all(todo["text"] in text for todo in decision["todo"])


def test_an_invented_number_and_an_unknown_tool_are_not_allowed(fresh: Fresh, step: Step, tmp_path: Path) -> None:
    messages = step.messages(tmp_path, step.before)
    for arguments in ({"new_item_id": "123450"}, {"name": "burn_order"}):
        result = fresh("gate", step.memory, messages, step.call(tmp_path, **arguments))
        assert result.status == 0
        assert result.out.split(":")[0] in ("revise", "block", "transfer"), result.out


def test_guidance_fits_the_step_and_names_its_runs(fresh: Fresh, step: Step, tmp_path: Path) -> None:
    start, later = step.messages(tmp_path, 1), step.messages(tmp_path, step.before - 2)
    first, second = fresh("guide", step.memory, start), fresh("guide", step.memory, later)
    assert first.status == second.status == 0
    assert re.search(r"Do: call get_order with order_id=#G\d+ \(from the request\)", first.out)
    assert "Do: call find_customer" not in second.out
    assert "Done: find_customer" in second.out
    lines = json.loads(fresh("guide", step.memory, start, "--json", "--provenance").out)["lines"]
    known = {run["id"] for run in ExperienceGraph.load(step.memory).tables.runs.to_pylist()}
    named = {run for line in lines for run in line["runs"]}
    assert named
    assert named <= known
    assert not any(old in first.out + second.out for old in step.replaced)


def test_a_missing_memory_at_the_gate_is_one_line(fresh: Fresh, step: Step, tmp_path: Path) -> None:
    result = fresh("gate", tmp_path / "absent", step.messages(tmp_path, 1), step.call(tmp_path))
    assert result.status == 2
    assert "no memory at" in result.one_line
