from __future__ import annotations

import errno
import hashlib
import json
import multiprocessing
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from graphs import STEPS, Step, build, content, make_run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph_schema import ExperienceGraph, GraphBuilder, MemoryFileError, NodeType, SchemaError
from graph_schema.storage import FORMAT_VERSION, LOCK, MANIFEST, checked_files, read_manifest, write_folder

any_folder = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def graph_of(name: str = "x", features: bool = True) -> ExperienceGraph:
    builder = GraphBuilder()
    builder.count(builder.add_node(NodeType.TOOL, name, text=name, tool=name), builder.add_run(make_run(1)), success=1)
    plain = builder.build(settings={"of": name})
    values = {"stat": np.arange(3, dtype=np.float32).reshape(1, 3), "text": np.ones((1, 2), np.float16)}
    return ExperienceGraph(
        plain.tables,
        settings=plain.settings,
        features=values if features else None,
        feature_names={"stat": ["a", "b", "c"]} if features else None,
    )


def files_in(path: Path) -> set[str]:
    return {file.name for file in path.iterdir()}


def named_in(path: Path) -> set[str]:
    return {MANIFEST} | {entry["path"] for entry in read_manifest(path)["files"].values()}


def one_line(error: pytest.ExceptionInfo[MemoryFileError]) -> str:
    text = str(error.value)
    assert "\n" not in text and len(text) < 400
    return text


class TestRoundTrip:
    @any_folder
    @given(STEPS)
    def test_what_is_saved_is_loaded(self, tmp_path: Path, steps: list[Step]) -> None:
        graph = build(steps)
        graph.save(tmp_path / "m")
        loaded = ExperienceGraph.load(tmp_path / "m")
        assert content(loaded) == content(graph)
        assert loaded.settings == graph.settings

    @any_folder
    @given(STEPS, st.randoms(use_true_random=False))
    def test_the_same_content_gives_the_same_bytes(self, tmp_path: Path, steps: list[Step], shuffle) -> None:  # type: ignore[no-untyped-def]
        mixed = list(steps)
        shuffle.shuffle(mixed)
        for folder, order in (("a", steps), ("b", mixed)):
            shutil.rmtree(tmp_path / folder, ignore_errors=True)
            build(order).save(tmp_path / folder)
        assert files_in(tmp_path / "a") == files_in(tmp_path / "b")
        for name in files_in(tmp_path / "a"):
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()

    def test_features_and_their_names_come_back(self, tmp_path: Path) -> None:
        graph = graph_of()
        graph.save(tmp_path)
        loaded = ExperienceGraph.load(tmp_path)
        assert loaded.feature_names == graph.feature_names
        for name, values in graph.features.items():
            assert loaded.features[name].dtype == values.dtype
            np.testing.assert_array_equal(loaded.features[name], values)

    def test_an_empty_graph_is_saved_and_loaded(self, tmp_path: Path) -> None:
        plain = GraphBuilder().build()
        ExperienceGraph(plain.tables, features={"stat": np.zeros((0, 4), np.float32)}).save(tmp_path / "m")
        loaded = ExperienceGraph.load(tmp_path / "m")
        assert len(loaded) == 0
        assert loaded.features["stat"].shape == (0, 4)

    def test_all_files_are_as_readable_as_any_new_file(self, tmp_path: Path) -> None:
        (tmp_path / "other").touch()
        graph_of().save(tmp_path / "m")
        modes = {file.stat().st_mode for file in (tmp_path / "m").iterdir()}
        assert modes == {(tmp_path / "other").stat().st_mode}

    def test_nothing_in_the_folder_is_pickled(self, tmp_path: Path) -> None:
        graph_of().save(tmp_path)
        assert {Path(name).suffix for name in files_in(tmp_path)} == {".json", ".parquet", ".safetensors"}
        assert not [f for f in tmp_path.iterdir() if f.read_bytes()[:2] in (b"\x80\x04", b"\x80\x05", b"PK")]


class TestSavingAgain:
    def test_a_reader_of_the_memory_before_still_finds_its_files(self, tmp_path: Path) -> None:
        graph_of("old").save(tmp_path)
        manifest = read_manifest(tmp_path)
        graph_of("new").save(tmp_path)
        assert checked_files(tmp_path, manifest).keys() == manifest["files"].keys()
        assert ExperienceGraph.load(tmp_path).node(0).key == "new"

    def test_files_of_the_one_before_that_are_gone(self, tmp_path: Path) -> None:
        names = []
        for name in ("first", "second", "third"):
            graph_of(name).save(tmp_path)
            names.append(named_in(tmp_path))
        assert files_in(tmp_path) == names[1] | names[2]

    def test_the_same_graph_again_leaves_the_folder_as_it_was(self, tmp_path: Path) -> None:
        graph_of().save(tmp_path)
        before = {name: (tmp_path / name).read_bytes() for name in files_in(tmp_path)}
        graph_of().save(tmp_path)
        assert {name: (tmp_path / name).read_bytes() for name in files_in(tmp_path)} == before

    def test_other_files_in_the_folder_are_left_alone(self, tmp_path: Path) -> None:
        graph_of("a").save(tmp_path)
        (tmp_path / "notes.txt").write_text("mine")
        (tmp_path / "nodes.backup.parquet").write_text("mine too")
        for name in ("b", "c"):
            graph_of(name).save(tmp_path)
        assert {"notes.txt", "nodes.backup.parquet"} <= files_in(tmp_path)


class TestDamage:
    @pytest.mark.parametrize("path", ["absent", "empty"])
    def test_no_memory(self, tmp_path: Path, path: str) -> None:
        (tmp_path / "empty").mkdir()
        with pytest.raises(MemoryFileError) as error:
            ExperienceGraph.load(tmp_path / path)
        assert "fresh mine" in one_line(error)

    def test_a_newer_format(self, tmp_path: Path) -> None:
        graph_of().save(tmp_path)
        change_manifest(tmp_path, lambda manifest: manifest.update(format_version=FORMAT_VERSION + 1))
        with pytest.raises(MemoryFileError) as error:
            ExperienceGraph.load(tmp_path)
        assert f"format {FORMAT_VERSION + 1}" in one_line(error) and "upgrade" in str(error.value)

    @pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", "{}", '{"format_version": "x"}', "\x00"])
    def test_a_manifest_that_is_none(self, tmp_path: Path, text: str) -> None:
        graph_of().save(tmp_path)
        (tmp_path / MANIFEST).write_text(text)
        with pytest.raises(MemoryFileError) as error:
            ExperienceGraph.load(tmp_path)
        assert "damaged" in one_line(error) and MANIFEST in str(error.value)

    @pytest.mark.parametrize("files", [None, [], {"a": 1}, {"a": {}}, {"a": {"path": "../x", "sha256": ""}}])
    def test_a_manifest_whose_files_make_no_sense(self, tmp_path: Path, files: object) -> None:
        graph_of().save(tmp_path)
        change_manifest(tmp_path, lambda manifest: manifest.update(files=files))
        with pytest.raises(MemoryFileError) as error:
            ExperienceGraph.load(tmp_path)
        assert "damaged" in one_line(error)

    def test_a_manifest_that_lacks_a_table(self, tmp_path: Path) -> None:
        graph_of().save(tmp_path)
        change_manifest(tmp_path, lambda manifest: manifest["files"].pop("edges.parquet"))
        with pytest.raises(MemoryFileError) as error:
            ExperienceGraph.load(tmp_path)
        assert "edges.parquet" in one_line(error)

    @any_folder
    @given(st.data())
    def test_any_changed_or_lost_byte_is_noticed(self, tmp_path: Path, data: st.DataObject) -> None:
        shutil.rmtree(tmp_path / "m", ignore_errors=True)
        graph_of().save(tmp_path / "m")
        name = data.draw(st.sampled_from(sorted(named_in(tmp_path / "m") - {MANIFEST})))
        file = tmp_path / "m" / name
        body = file.read_bytes()
        position = data.draw(st.integers(0, len(body) - 1))
        if data.draw(st.booleans()):
            file.write_bytes(body[:position])
        else:
            file.write_bytes(body[:position] + bytes([body[position] ^ 0x40]) + body[position + 1 :])
        with pytest.raises(MemoryFileError) as error:
            ExperienceGraph.load(tmp_path / "m")
        assert name in one_line(error) and "damaged" in str(error.value)

    def test_a_lost_file_is_named(self, tmp_path: Path) -> None:
        graph_of().save(tmp_path)
        (tmp_path / read_manifest(tmp_path)["files"]["nodes.parquet"]["path"]).unlink()
        with pytest.raises(MemoryFileError) as error:
            ExperienceGraph.load(tmp_path)
        assert "nodes.parquet is missing" in one_line(error)


def change_manifest(path: Path, change: Callable[[dict], object]) -> None:  # type: ignore[type-arg]
    manifest = json.loads((path / MANIFEST).read_text())
    change(manifest)
    (path / MANIFEST).write_text(json.dumps(manifest))


class TestRefusals:
    def test_the_path_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "m").write_text("letters")
        with pytest.raises(MemoryFileError) as error:
            graph_of().save(tmp_path / "m")
        assert "is a file" in one_line(error)
        assert (tmp_path / "m").read_text() == "letters"

    def test_the_folder_holds_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_text("years of work")
        with pytest.raises(MemoryFileError) as error:
            graph_of().save(tmp_path)
        assert "not a memory" in one_line(error)
        assert files_in(tmp_path) == {"thesis.tex"}

    def test_a_parent_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "m").write_text("letters")
        with pytest.raises(MemoryFileError) as error:
            graph_of().save(tmp_path / "m" / "deeper")
        assert "cannot write" in one_line(error)


def fail(path: Path) -> None:
    path.write_bytes(b"half of it")
    raise ValueError("the writer broke")


def disk_full(path: Path) -> None:
    path.write_bytes(b"half of it")
    raise OSError(errno.ENOSPC, "No space left on device")


class TestNothingIsLeftBehind:
    def test_by_a_writer_that_breaks_in_a_new_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="the writer broke"):
            write_folder(tmp_path / "m", {"a.bin": lambda p: None or (p.write_bytes(b"a") and None), "b.bin": fail}, {})
        assert not (tmp_path / "m").exists()

    def test_by_a_full_disk_in_a_memory(self, tmp_path: Path) -> None:
        graph_of().save(tmp_path)
        before = {name: (tmp_path / name).read_bytes() for name in files_in(tmp_path)}
        with pytest.raises(MemoryFileError) as error:
            write_folder(tmp_path, {"nodes.parquet": disk_full}, {})
        assert "No space left" in one_line(error)
        assert {name: (tmp_path / name).read_bytes() for name in files_in(tmp_path)} == before
        assert ExperienceGraph.load(tmp_path).node(0).key == "x"

    def test_by_a_writer_that_was_killed_once_another_has_written(self, tmp_path: Path) -> None:
        graph_of().save(tmp_path)
        code = (
            "import os, signal, sys, pathlib\n"
            "from graph_schema.storage import write_folder\n"
            "def die(path): path.write_bytes(b'half'); os.kill(os.getpid(), signal.SIGKILL)\n"
            "write_folder(pathlib.Path(sys.argv[1]), {'nodes.parquet': die}, {})\n"
        )
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=Path(__file__).parents[2], check=False)
        assert done.returncode < 0
        assert LOCK in files_in(tmp_path)  # the dead writer's lock
        assert ExperienceGraph.load(tmp_path).node(0).key == "x"
        graph_of("y").save(tmp_path)  # is taken over
        assert ExperienceGraph.load(tmp_path).node(0).key == "y"
        assert not [name for name in files_in(tmp_path) if name.startswith(".")]


def hold(path: Path, entered: object, leave: object) -> None:
    def slow(target: Path) -> None:
        target.write_bytes(b"slow")
        entered.set()  # type: ignore[attr-defined]
        leave.wait(20)  # type: ignore[attr-defined]

    write_folder(path, {"a.bin": slow}, {"who": "slow"})


def save_often(path: Path, name: str, times: int, saved: object) -> None:
    for _ in range(times):
        try:
            graph_of(name).save(path)
        except MemoryFileError:
            time.sleep(0.002)
        else:
            saved.value += 1  # type: ignore[attr-defined]


class TestTwoWriters:
    def test_the_second_is_told_who_writes(self, tmp_path: Path) -> None:
        context = multiprocessing.get_context("fork")
        entered, leave = context.Event(), context.Event()
        process = context.Process(target=hold, args=(tmp_path / "m", entered, leave))
        process.start()
        try:
            assert entered.wait(20)
            with pytest.raises(MemoryFileError) as error:
                graph_of().save(tmp_path / "m")
            assert f"process {process.pid} is writing" in one_line(error)
        finally:
            leave.set()
            process.join()
        assert read_manifest(tmp_path / "m")["who"] == "slow"
        assert LOCK not in files_in(tmp_path / "m")

    def test_a_reader_sees_one_memory_or_the_other_at_all_times(self, tmp_path: Path) -> None:
        path, names = tmp_path / "m", ("left", "right")
        graph_of("left").save(path)
        context = multiprocessing.get_context("fork")
        saved = [context.Value("i", 0) for _ in names]
        writers = [context.Process(target=save_often, args=(path, n, 40, s)) for n, s in zip(names, saved, strict=True)]
        for writer in writers:
            writer.start()
        seen = 0
        while any(writer.is_alive() for writer in writers):
            manifest = read_manifest(path)
            assert manifest["settings"]["of"] in names
            seen += 1
        for writer in writers:
            writer.join()
        assert all(writer.exitcode == 0 for writer in writers)
        assert seen and all(count.value for count in saved)
        assert ExperienceGraph.load(path).node(0).key in names
        assert not [name for name in files_in(path) if name.startswith(".")]


class TestFilesThatNobodyShouldHaveWritten:
    """Their hashes are right, so that only reading tells."""

    def _rewrite(self, path: Path, name: str, data: bytes) -> None:
        file = path / named_as(path, name)
        file.write_bytes(data)
        change_manifest(path, lambda m: m["files"][name].update(sha256=hashlib.sha256(data).hexdigest()))

    @pytest.mark.parametrize("name", ["nodes.parquet", "runs.parquet", "provenance.parquet"])
    def test_a_broken_table(self, tmp_path: Path, name: str) -> None:
        graph_of().save(tmp_path)
        whole = (tmp_path / named_as(tmp_path, name)).read_bytes()
        for position in range(0, len(whole), 97):
            self._rewrite(tmp_path, name, whole[:position] + bytes([whole[position] ^ 0x40]) + whole[position + 1 :])
            try:
                tables = ExperienceGraph.load(tmp_path).tables
                assert tables.runs.num_rows >= 0 and tables.provenance.num_rows >= 0
            except (MemoryFileError, SchemaError):
                continue

    def test_other_columns(self, tmp_path: Path) -> None:
        graph_of().save(tmp_path)
        file = tmp_path / named_as(tmp_path, "runs.parquet")
        table = pyarrow.parquet.read_table(file)
        pyarrow.parquet.write_table(table.drop_columns(["outcome"]), file)
        self._rewrite(tmp_path, "runs.parquet", file.read_bytes())
        with pytest.raises(MemoryFileError) as error:
            _ = ExperienceGraph.load(tmp_path).tables.runs
        assert "other columns" in one_line(error)

    @pytest.mark.parametrize("part", ["settings", "feature_names", "gate_settings"])
    @pytest.mark.parametrize("value", [7, "x", [1], None])
    def test_a_manifest_whose_parts_are_no_objects(self, tmp_path: Path, part: str, value: object) -> None:
        graph_of().save(tmp_path)
        change_manifest(tmp_path, lambda m: m.update({part: value}))
        with pytest.raises(MemoryFileError) as error:
            ExperienceGraph.load(tmp_path)
        assert f"{part} is no object" in one_line(error)

    def test_a_name_too_long_for_any_file(self, tmp_path: Path) -> None:
        graph_of().save(tmp_path)
        change_manifest(tmp_path, lambda m: m["files"]["nodes.parquet"].update(path="x" * 5000))
        with pytest.raises(MemoryFileError) as error:
            ExperienceGraph.load(tmp_path)
        assert "cannot read" in one_line(error)

    def test_a_file_that_may_not_be_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        graph_of().save(tmp_path)

        def refuse(path: Path) -> str:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))

        monkeypatch.setattr("graph_schema.storage.file_hash", refuse)
        with pytest.raises(MemoryFileError) as error:
            ExperienceGraph.load(tmp_path)
        assert "Permission denied" in one_line(error)


def named_as(path: Path, name: str) -> str:
    return str(read_manifest(path)["files"][name]["path"])
