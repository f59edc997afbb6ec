"""Files to JSON records, one at a time, whatever shape the file has.

A file is JSON Lines, one JSON array, or one JSON object; plain or gzipped. Which it is, is seen from its first bytes,
never from its name alone. Arrays and the inner array of a large object are streamed with ijson; where ijson gives up on
what other parsers accept (NaN, bytes that are not UTF-8, huge integers) the file is read whole instead.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import ijson
import orjson

from fresh.traces.clean import Note, ignore, loads
from graph_schema.errors import TraceError

SUFFIXES = (".json", ".jsonl", ".json.gz", ".jsonl.gz", ".ndjson", ".ndjson.gz")
_STEP = 4096
"""Bytes from one look at the number of open brackets to the next."""
_GZIP_MAGIC = b"\x1f\x8b"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_HEAD = 1 << 16
_MAX_KEYS = 64
_MAX_KEY_EVENTS = 2_000_000
_MAX_DEPTH = 5000
"""Open brackets from which on a file is not streamed: ijson holds the path to each, which grows with the square."""
_LONE_SURROGATE = re.compile(
    rb"(?<!\\)((?:\\\\)*)"
    rb"(?:(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_ESCAPE = re.compile(rb"\\u[0-9a-fA-F]{4}")
_TAIL = 64

BROKEN_STREAM = (EOFError, gzip.BadGzipFile, zlib.error)


class Shape(StrEnum):
    """How a file holds its records."""

    LINES = "lines"
    ARRAY = "array"
    OBJECT = "object"
    EMPTY = "empty"


class Record(NamedTuple):
    """One JSON value of a file.

    Attributes:
        position: Zero-based: of the line, or of the element in its array.
        value: The value; None where ``problem`` is set.
        problem: Why there is no value.
        kind: The problem as a repair kind, if it is one that the report counts.
        notes: Repairs that reading the value took.
    """

    position: int
    value: Any
    problem: str | None = None
    kind: str | None = None
    notes: tuple[str, ...] = ()


def open_bytes(path: Path) -> IO[bytes]:
    """Opens a file for reading, unpacking gzip by its magic bytes.

    Raises:
        TraceError: The file cannot be opened, or is UTF-16 text.
    """
    try:
        with path.open("rb") as probe:
            start = probe.read(2)
        if start in _UTF16_MARKS:
            raise TraceError(f"{path} is UTF-16 text: save it as UTF-8")
        return cast("IO[bytes]", gzip.open(path, "rb")) if start == _GZIP_MAGIC else path.open("rb")
    except OSError as error:
        raise TraceError(f"cannot open {path}: {error.strerror or error}") from error


def shape_of(path: Path) -> Shape:
    """How the file holds its records."""
    with open_bytes(path) as stream:
        head, broken = _read_head(stream)
        text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        if text[:1] == b"[" and b"\n" not in text and len(head) == _HEAD:
            # A long first line: whether another follows tells lines that are lists from one array.
            text += stream.readline() + stream.read(_TAIL)
    if not text:
        return Shape.LINES if broken else Shape.EMPTY  # reading the first line says what is broken
    first, _, rest = text.partition(b"\n")
    several = bool(rest.strip()) and _is_json(first)
    if text[:1] == b"[":
        return Shape.LINES if several else Shape.ARRAY
    if text[:1] != b"{":
        return Shape.LINES
    named_lines = path.name.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson"))
    return Shape.LINES if several or (named_lines and first.strip() != b"{") else Shape.OBJECT


def iter_lines(path: Path) -> Iterator[Record]:
    """Yields the values of a JSON Lines file; a line that is not JSON yields its problem instead.

    ``position`` counts lines from zero, blank ones included.
    """
    with open_bytes(path) as stream:
        index = -1
        try:
            for index, line in enumerate(stream):
                if line.strip():
                    yield _line_record(index, line)
        except BROKEN_STREAM as error:
            yield Record(index + 1, None, f"the compressed data break off here: {error}", "truncated_file")


def iter_array(path: Path, prefix: str = "item", note: Note = ignore) -> Iterator[Record]:
    """Yields the elements of an array, one in memory at a time.

    Args:
        path: The file.
        prefix: Where the array is, in ijson's notation: ``item`` for a file that is one array,
            ``simulations.item`` for an array inside an object.
        note: Told of repairs; which element each was in is not known.
    """
    count = 0
    try:
        with open_bytes(path) as stream:
            for value in ijson.items(SurrogateFilter(stream, note), prefix, use_float=True):
                yield Record(count, value)
                count += 1
    except ijson.JSONError as error:
        yield from _rest_of_array(path, prefix, count, str(error), note)
    except BROKEN_STREAM as error:
        yield Record(count, None, f"the compressed data break off here: {error}", "truncated_file")


def read_object(path: Path, note: Note = ignore) -> Any:
    """Reads a file that is one JSON value.

    Raises:
        ValueError: It is not JSON, or breaks off.
    """
    try:
        with open_bytes(path) as stream:
            return loads(stream.read(), note)
    except BROKEN_STREAM as error:
        raise ValueError(f"the compressed data break off: {error}") from error


def read_part(path: Path, prefix: str) -> Any:
    """Reads one value inside a large object, or None where it is absent.

    Raises:
        ValueError: The file is not JSON, even to a lenient parser.
    """
    try:
        with open_bytes(path) as stream:
            return next(ijson.items(SurrogateFilter(stream, ignore), prefix, use_float=True), None)
    except ijson.JSONError:
        value = read_object(path)
    except BROKEN_STREAM as error:
        raise ValueError(f"the compressed data break off: {error}") from error
    for key in prefix.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def top_level_keys(path: Path, wanted: frozenset[str]) -> list[str]:
    """The first keys of a file that is one JSON object, up to and including one that is wanted."""
    keys: list[str] = []
    depth = 0
    try:
        with open_bytes(path) as stream:
            for number, (event, value) in enumerate(ijson.basic_parse(stream, use_float=True)):
                if event in ("start_map", "start_array"):
                    depth += 1
                elif event in ("end_map", "end_array"):
                    depth -= 1
                elif event == "map_key" and depth == 1:
                    keys.append(str(value))
                    if value in wanted or len(keys) >= _MAX_KEYS:
                        break
                if number > _MAX_KEY_EVENTS:
                    break
    except (ijson.JSONError, *BROKEN_STREAM):
        return keys
    return keys


class SurrogateFilter:
    r"""A byte stream in which each escaped lone surrogate has become ``\ufffd``, and that stops at deep nesting.

    ijson's C parser would turn a lone surrogate into a question mark, silently, and would take all memory for
    thousands of open brackets. They are counted inside strings too; a file that stops is read whole instead, so
    nothing is lost by that.
    """

    def __init__(self, stream: IO[bytes], note: Note) -> None:
        self._stream = stream
        self._note = note
        self._pending = b""
        self._depth = 0

    def read(self, size: int = -1) -> bytes:
        """Returns about ``size`` bytes; an escape is never cut in two.

        Raises:
            ijson.JSONError: Too many brackets are open.
        """
        if size == 0:  # how ijson asks whether a stream gives bytes or text
            return b""
        while True:
            chunk = self._stream.read(max(size, _HEAD) if size >= 0 else -1)
            data = self._pending + chunk
            self._pending = b""
            if not data:
                return b""
            if chunk and size >= 0:
                cut = _safe_cut(data)
                data, self._pending = data[:cut], data[cut:]
            if data:
                self._count_brackets(data)
                return self._replace(data)

    def _count_brackets(self, data: bytes) -> None:
        for start in range(0, len(data), _STEP):
            part = data[start : start + _STEP]
            opened = part.count(b"{") + part.count(b"[") - part.count(b"}") - part.count(b"]")
            self._depth = max(0, self._depth + opened)
            if self._depth > _MAX_DEPTH:
                raise ijson.JSONError("nested too deeply")

    def _replace(self, data: bytes) -> bytes:
        if b"\\ud" not in data and b"\\uD" not in data:
            return data
        return _LONE_SURROGATE.sub(self._replacement, data)

    def _replacement(self, match: re.Match[bytes]) -> bytes:
        if match.group(2):
            return match.group(0)
        self._note("surrogates_replaced")
        return match.group(1) + b"\\ufffd"


def _safe_cut(data: bytes) -> int:
    """Where to cut so that no escape, nor a pair of them, is split: before a late run of escapes."""
    start = data.find(b"\\", max(0, len(data) - _TAIL))
    if start < 0:
        return len(data)
    while start > 0:
        if data[start - 1 : start] == b"\\":
            start -= 1
        elif _ESCAPE.fullmatch(data, max(0, start - 6), start):
            start -= 6
        else:
            break
    return start


def _read_head(stream: IO[bytes]) -> tuple[bytes, bool]:
    """The first bytes, and whether compressed data break off within them."""
    head = bytearray()
    buffered = cast("io.BufferedIOBase", stream)  # its read() would lose what came before the break
    try:
        while len(head) < _HEAD and (chunk := buffered.read1(_HEAD - len(head))):
            head += chunk
    except BROKEN_STREAM:
        return bytes(head), True
    return bytes(head), False


def _is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True


def _line_record(index: int, line: bytes) -> Record:
    notes: list[str] = []
    try:
        value = loads(line.removeprefix(b"\xef\xbb\xbf") if index == 0 else line, notes.append)
        return Record(index, value, notes=tuple(dict.fromkeys(notes)))
    except ValueError as error:
        if line.endswith(b"\n"):
            return Record(index, None, f"not JSON: {error}")
        return Record(index, None, f"the last line is only half written: {error}", "truncated_last_line")


def _rest_of_array(path: Path, prefix: str, count: int, problem: str, note: Note) -> Iterator[Record]:
    try:
        value = read_object(path, note)
    except ValueError:
        first_line = problem.strip().splitlines()[0] if problem.strip() else "not JSON"
        yield Record(count, None, f"the file is broken here: {first_line}", "truncated_file")
        return
    for key in prefix.split(".")[:-1]:
        value = value.get(key) if isinstance(value, dict) else None
    for index, item in enumerate(value if isinstance(value, list) else []):
        if index >= count:
            yield Record(index, item)
