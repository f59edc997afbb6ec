"""Files of every shape, whole and broken, read one record at a time."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.collect import collect
from fresh.mining import EffectResolver
from fresh.traces import TraceReader, files, load
from fresh.traces.files import Shape, SurrogateFilter, iter_array, iter_lines, shape_of
from fresh.traces.reader import FileReader, Options
from graph_schema.errors import TraceError

RUN: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "success": True}


def _run(number: int) -> dict[str, Any]:
    return {**RUN, "task_id": f"t{number}"}


def _lines(*values: Any) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


@pytest.mark.parametrize(
    ("name", "text", "shape"),
    [
        ("a.jsonl", _lines(RUN, RUN), Shape.LINES),
        ("a.json", _lines(RUN, RUN), Shape.LINES),
        ("a.jsonl", _lines(RUN), Shape.LINES),
        ("a.json", _lines(RUN), Shape.OBJECT),
        ("a.json", json.dumps(RUN, indent=1), Shape.OBJECT),
        ("a.jsonl", json.dumps(RUN, indent=1), Shape.OBJECT),
        ("a.json", json.dumps([RUN, RUN]), Shape.ARRAY),
        ("a.jsonl", json.dumps([RUN, RUN]), Shape.ARRAY),
        ("a.json", json.dumps([RUN], indent=1), Shape.ARRAY),
        ("a.jsonl", _lines([RUN["messages"][0]], [RUN["messages"][0]]), Shape.LINES),
        ("a.jsonl", _lines(["x" * 100_000], ["y"]), Shape.LINES),
        ("a.json", "", Shape.EMPTY),
        ("a.json", " \n\n", Shape.EMPTY),
        ("a.json", "\ufeff" + json.dumps([RUN]), Shape.ARRAY),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_shape_comes_from_the_content_not_the_name(
    tmp_path: Path, name: str, text: str, shape: Shape, packed: bool
) -> None:
    path = tmp_path / name  # gzip is told by its magic bytes: the name does not change
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert shape_of(path) is shape


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.json.gz", "a.jsonl.gz"])
@pytest.mark.parametrize("shape", ["lines", "array", "indented array"])
def test_the_same_runs_in_any_shape_have_the_same_ids(tmp_path: Path, name: str, shape: str) -> None:
    runs = [_run(number) for number in range(3)]
    text = _lines(*runs) if shape == "lines" else json.dumps(runs, indent=2 if shape == "indented array" else None)
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    read, report = load(path)
    assert [run.task_id for run in read] == ["t0", "t1", "t2"]
    reference = tmp_path / "reference.jsonl"
    reference.write_text(_lines(*runs))
    assert [run.id for run in read] == [run.id for run in load(reference)[0]]
    assert report.records == 3 and not report.skipped


def test_a_half_written_last_line_is_named_and_the_rest_kept(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(_lines(_run(0), _run(1)) + json.dumps(_run(2))[:25])
    runs, report = load(path)
    assert [run.task_id for run in runs] == ["t0", "t1"]
    (skipped,) = report.skipped
    assert str(skipped).startswith(f"{path}, line 3: the last line is only half written")
    assert report.repairs["truncated_last_line"] == 1


def test_a_broken_line_in_the_middle_is_named_and_the_rest_kept(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(_lines(_run(0)) + "\n{oops\n" + _lines(_run(2)))
    runs, report = load(path)
    assert [(run.task_id, run.source.record) for run in runs] == [("t0", 0), ("t2", 3)]
    assert [(item.position, item.reason.split(":")[0]) for item in report.skipped] == [("line 3", "not JSON")]


def test_strict_stops_at_the_first_record_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(_lines(_run(0)) + "{oops\n" + _lines(_run(2)))
    with pytest.raises(TraceError, match="line 2: not JSON"):
        load(path, strict=True)


def test_an_array_that_breaks_off_keeps_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([_run(0), _run(1), _run(2)])[:-20])
    runs, report = load(path)
    assert [run.task_id for run in runs] == ["t0", "t1"]
    assert report.skipped[0].position == "record 2" and "broken here" in report.skipped[0].reason


def test_compressed_data_that_break_off_keep_what_came_before(tmp_path: Path) -> None:
    text = "".join(
        _lines({**_run(number), "id": hashlib.sha256(bytes([number % 256])).hexdigest()}) for number in range(4000)
    )
    packed = gzip.compress(text.encode())
    path = tmp_path / "runs.jsonl.gz"
    path.write_bytes(packed[: len(packed) // 2])
    runs, report = load(path)
    assert 100 < len(runs) < 4000
    assert "break off" in report.skipped[-1].reason


@pytest.mark.parametrize("shape", ["lines", "array", "object"])
def test_numbers_and_characters_json_forbids_are_read(tmp_path: Path, shape: str) -> None:
    record = '{"messages": [{"role": "user", "content": "a\\ud800b"}], "metadata": {"x": NaN, "y": -Infinity}}'
    path = tmp_path / "runs.json"
    path.write_text({"lines": f"{record}\n{record}\n", "array": f"[{record}, {record}]", "object": record}[shape])
    runs, report = load(path)
    assert len(runs) == (1 if shape == "object" else 2)
    assert all(run.request == "a\ufffdb" for run in runs)
    assert report.repairs["surrogates_replaced"] and report.repairs["non_finite_number"]


def test_bytes_that_are_not_utf8_cost_one_character(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b'{"messages": [{"role": "user", "content": "caf\xe9"}]}\n')
    (run,), report = load(path)
    assert run.request == "caf\ufffd"
    assert report.repairs["invalid_utf8_replaced"] == 1


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + _lines(_run(0), _run(1)).encode())
    assert load(path)[1].records == 2


ESCAPES = st.lists(
    st.sampled_from(["\\ud83d", "\\ude00", "\\\\", "\\n", "\\u00e9", "ud800", "x" * 50, "\\\\ud83d", '\\"', "\\uDBFF"]),
    max_size=40,
).map("".join)


@given(ESCAPES, st.integers(1, 200))
def test_the_surrogate_filter_agrees_with_a_parser_that_sees_the_whole_text(body: str, size: int) -> None:
    source = f'["{body}"]'.encode()
    saved, files._HEAD = files._HEAD, size  # small chunks: every escape is cut somewhere
    try:
        stream = SurrogateFilter(io.BytesIO(source), lambda kind: None)
        filtered = b"".join(iter(lambda: stream.read(size), b""))
    finally:
        files._HEAD = saved
    whole = json.loads(source)[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert json.loads(filtered)[0] == whole


def test_iterators_hold_one_record_at_a_time(tmp_path: Path) -> None:
    array, lines = tmp_path / "a.json", tmp_path / "a.jsonl"
    array.write_text(json.dumps([_run(0), _run(1)]) + "garbage")
    lines.write_text(_lines(_run(0)) + "garbage")
    assert next(iter_array(array)).value == _run(0)
    assert next(iter_lines(lines)).value == _run(0)


_MEASURE = """
import resource, sys
from fresh.traces import TraceReader
count = sum(1 for _ in TraceReader(sys.argv[1]))
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.parametrize("kind", ["array", "lines", "results"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, kind: str) -> None:
    message = {"role": "user", "content": "word " * 2000}
    peaks = []
    for count in (10, 5000):  # 10 kB a run: 50 MB
        path = tmp_path / f"{kind}{count}.json"
        with path.open("w") as stream:
            if kind == "results":
                stream.write('{"info": {}, "tasks": [{"id": "0"}], "simulations": [')
            elif kind == "array":
                stream.write("[")
            for number in range(count):
                run = {
                    "task_id": "0",
                    "messages": [message],
                    "id": str(number),
                    "reward_info": {"reward": 1.0},
                }
                stream.write((",\n" if kind != "lines" and number else "") + json.dumps(run))
                stream.write("\n" if kind == "lines" else "")
            stream.write({"results": "]}", "array": "]", "lines": ""}[kind])
        out = subprocess.run([sys.executable, "-c", _MEASURE, str(path)], capture_output=True, text=True, check=True)
        read, peak = map(int, out.stdout.split())
        assert read == count
        peaks.append(peak / 1024)
    assert path.stat().st_size > 50_000_000
    assert peaks[1] - peaks[0] < 25, f"{peaks} MB for 0.1 and 50 MB"


def test_a_missing_path_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"^no such file or folder: .*nowhere$"):
        list(TraceReader(tmp_path / "nowhere"))


def test_an_empty_folder_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"^no \.json or \.jsonl .* file in the folder "):
        list(TraceReader(tmp_path))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the file is empty"),
        ("{oops", "not JSON"),
        ('{"orders": {}}', "no runs of a known format"),
        ('[{"name": "get_hire"}]', "no runs of a known format"),
        ("12\n13\n", "no runs of a known format"),
    ],
)
def test_a_named_file_without_runs_is_one_clear_line(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(TraceError, match=reason) as caught:
        load(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_files_without_runs_in_a_folder_are_passed_over_and_counted(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text('[{"name": "get_hire"}]')
    (tmp_path / "db.json").write_text('{"hires": {"H-1": {}}}')
    (tmp_path / "notes.txt").write_text("not looked at")
    (tmp_path / ".hidden.jsonl").write_text(_lines(RUN))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "runs.jsonl").write_text(_lines(_run(0)))
    runs, report = load(tmp_path)
    assert len(runs) == 1 and not report.skipped
    assert sorted(Path(name).name for name in report.not_traces) == ["db.json", "tools.json"]
    assert list(report.files) == [str(tmp_path / "deep" / "runs.jsonl")]


def test_a_broken_file_in_a_folder_is_named_and_the_others_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{half")
    (tmp_path / "b.jsonl").write_text(_lines(_run(0)))
    (tmp_path / "c.json.gz").write_bytes(b"\x1f\x8bnot gzip")
    (tmp_path / "d.json").write_text("")
    runs, report = load(tmp_path)
    assert len(runs) == 1
    assert {Path(item.file).name for item in report.skipped} == {"a.jsonl", "c.json.gz", "d.json"}


def test_a_file_given_twice_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(_lines(_run(0)))
    assert load([path, tmp_path, str(path)])[1].records == 1


def test_workers_change_neither_the_runs_nor_the_report(tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"f{number}.jsonl").write_text(_lines(*(_run(10 * number + i) for i in range(number + 1))))
    (tmp_path / "broken.jsonl").write_text("{half")
    alone, together = load(tmp_path), load(tmp_path, workers=3)
    assert alone[0] == together[0]
    assert alone[1] == together[1]


def test_iterating_again_starts_afresh(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(_lines(_run(0)))
    reader = TraceReader(path)
    assert list(reader) == list(reader)
    assert reader.report.records == 1


def test_deep_nesting_costs_its_record_and_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 20_000)  # a path of 20,000 names to each bracket would take a gigabyte
    with pytest.raises(TraceError, match=r"record 0: .*nested too deeply"):
        load(path)
    path.write_text("[" * 20_000 + "]" * 20_000)
    tracemalloc.start()
    with pytest.raises(TraceError, match="nested too deeply"):
        load(path)
    assert tracemalloc.get_traced_memory()[1] < 150 << 20
    tracemalloc.stop()


def test_brackets_in_a_text_lose_no_run(tmp_path: Path) -> None:
    path = tmp_path / "brackets.json"
    odd = {**_run(0), "messages": [{"role": "user", "content": "[" * 20_000}]}
    path.write_text(json.dumps([odd, *map(_run, range(1, 4))], indent=1))
    assert [run.task_id for run in load(path)[0]] == ["t0", "t1", "t2", "t3"]


@pytest.mark.parametrize("name", ["cut.jsonl.gz", "cut.json.gz"])
def test_a_short_file_whose_compressed_data_break_off_is_not_called_empty(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(json.dumps(RUN).encode())[:-20])
    with pytest.raises(TraceError, match="the compressed data break off"):
        load(path)


def test_utf16_text_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    path.write_bytes(_lines(RUN).encode("utf-16"))
    with pytest.raises(TraceError, match="UTF-16 text: save it as UTF-8"):
        load(path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(TraceError, match="a pipe or a device"):
        load(tmp_path / "pipe.jsonl")


def test_a_killed_worker_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2):
        (tmp_path / f"{number}.jsonl").write_text(_lines(_run(number)))
    monkeypatch.setattr(FileReader, "__iter__", lambda self: os._exit(9))
    with pytest.raises(TraceError, match="fewer workers"):
        load(tmp_path, workers=2)
    with pytest.raises(TraceError, match="fewer workers"):
        collect([tmp_path], Options(), EffectResolver(), workers=2)
