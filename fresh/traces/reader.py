"""Reads paths of any known trace format into trajectories, one at a time, with a report of what was met."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from fresh.traces import files, tau2, tau_bench
from fresh.traces.chat import is_message
from fresh.traces.files import Record, Shape
from fresh.traces.formats import get_format, recognise
from fresh.traces.record import Format, Place
from fresh.traces.report import ReadReport, Skipped
from fresh.traces.walk import Found, find_files
from graph_schema.errors import TraceError
from graph_schema.trajectory import Trajectory

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

_OBJECT_KEYS = frozenset({"simulations", "messages", "conversations", "traj", "history", "simulation"})
WORKER_DIED = (
    "a process that reads was killed, as happens where memory runs out: read with fewer workers, or fewer files at once"
)
_PEEK = 50
"""Records of a file looked at for one of a known format before the file is taken to hold no runs."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to read; see :class:`TraceReader`."""

    format: str | None = None
    domain: str | None = None
    include_attacks: bool = False
    labels: bool = True
    strict: bool = False


class ReadOptions(TypedDict, total=False):
    """Options of :class:`TraceReader` by name."""

    format: str | None
    domain: str | None
    include_attacks: bool
    labels: bool
    strict: bool
    workers: int


class TraceReader:
    """Iterates over the runs in files and folders.

    Formats are recognised by content. Files are read in the order given, folders in sorted order, one record in memory
    at a time. A record that cannot be read is reported and the rest goes on.

    Args:
        paths: Files or folders.
        format: Name of the format, where the content should not decide.
        domain: Name of the domain, in place of what the records say.
        include_attacks: Read runs under an injection attack too; they are marked in ``feedback.attack``.
        labels: Use the outcomes of a labels file that lies beside a results file.
        strict: Raise at the first record that cannot be read.
        workers: Processes; the result is the same for any number.

    Attributes:
        report: What was met so far; complete after the last run.

    Raises:
        TraceError: On iteration, when a path is missing, when no run could be read, or, with ``strict``, at the first
            record that cannot be read.
        ConfigError: The format is unknown.
    """

    def __init__(
        self,
        paths: Sequence[Path | str] | Path | str,
        *,
        format: str | None = None,
        domain: str | None = None,
        include_attacks: bool = False,
        labels: bool = True,
        strict: bool = False,
        workers: int = 1,
    ) -> None:
        if format is not None:
            get_format(format)
        self._paths = [paths] if isinstance(paths, str | Path) else list(paths)
        self._options = Options(format, domain, include_attacks, labels, strict)
        self._workers = max(1, workers)
        self.report = ReadReport()

    def __iter__(self) -> Iterator[Trajectory]:
        """Reads from the start, with a fresh report."""
        self.report = ReadReport()
        found = find_files(self._paths)
        if self._workers > 1 and len(found) > 1:
            yield from self._read_in_parallel(found)
        else:
            for file in found:
                yield from FileReader(file, self._options, self.report)
        self._check_anything_read(len(found))

    def _read_in_parallel(self, found: Sequence[Found]) -> Iterator[Trajectory]:
        from concurrent.futures.process import BrokenProcessPool  # brings multiprocessing: only where it is used

        with reading_pool(min(self._workers, len(found))) as pool:
            waiting: deque[Future[tuple[list[Trajectory], ReadReport]]] = deque()
            rest = iter(found)
            try:
                for file in rest:
                    waiting.append(pool.submit(_read_whole_file, file, self._options))
                    if len(waiting) >= 2 * self._workers:  # no more than this is held in memory
                        yield from self._take(waiting.popleft())
                while waiting:
                    yield from self._take(waiting.popleft())
            except BrokenProcessPool:
                raise TraceError(WORKER_DIED) from None
            finally:
                for future in waiting:
                    future.cancel()

    def _take(self, future: Future[tuple[list[Trajectory], ReadReport]]) -> list[Trajectory]:
        runs, report = future.result()
        self.report.add(report)
        return runs

    def _check_anything_read(self, file_count: int) -> None:
        report = self.report
        if report.records:
            return
        if report.attacked:
            raise TraceError(
                f"all {report.attacked} runs are under an injection attack and were left out; "
                "--include-attacks reads them"
            )
        where = self._paths[0] if len(self._paths) == 1 else f"the {file_count} files given"
        if report.skipped:
            more = f" (and {len(report.skipped) - 1} more)" if len(report.skipped) > 1 else ""
            raise TraceError(f"nothing could be read from {where}: {report.skipped[0]}{more}")
        raise TraceError(f"no runs of a known format in {where}; --format names one where the content does not show it")


def load(
    paths: Sequence[Path | str] | Path | str, **options: Unpack[ReadOptions]
) -> tuple[list[Trajectory], ReadReport]:
    """Reads everything into a list; options are those of :class:`TraceReader`."""
    reader = TraceReader(paths, **options)
    return list(reader), reader.report


def reading_pool(workers: int) -> ProcessPoolExecutor:
    """Processes that read files, and that Ctrl-C ends at once instead of after the files they have in hand."""
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(workers, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_DFL))


class FileReader:
    """Iterates over the runs of one file, adding to a report."""

    def __init__(self, found: Found, options: Options, report: ReadReport) -> None:
        self._path = found.path
        self._named = found.named
        self._options = options
        self._report = report
        self._file_notes: set[str] = set()
        self._unit = "record"

    def __iter__(self) -> Iterator[Trajectory]:
        """Reads the file; whatever is wrong with it ends in the report."""
        try:
            source = self._open()
            if source is None:
                return
            labels = self._labels() if self._options.labels else []
            yield from self._read(source, labels)
            self._report.repairs.update(sorted(self._file_notes))
        except _Unreadable as problem:
            self._skip("", str(problem))
        except TraceError as problem:
            if self._options.strict:
                raise
            self._skip("", str(problem))

    def _open(self) -> _Source | None:
        """Finds the file's shape and format; None when it holds no runs."""
        shape = files.shape_of(self._path)
        if shape is Shape.EMPTY:
            raise _Unreadable("the file is empty")
        if shape is Shape.OBJECT:
            return self._open_object()
        self._unit = "line" if shape is Shape.LINES else "record"
        if shape is Shape.LINES:
            return self._peek(files.iter_lines(self._path))
        return self._peek(files.iter_array(self._path, note=self._file_notes.add))

    def _open_object(self) -> _Source | None:
        keys = files.top_level_keys(self._path, _OBJECT_KEYS)
        if tau2.recognises_keys(keys) and self._options.format in (None, tau2.NAME):
            try:
                header = tau2.read_header(self._path)
            except ValueError as error:
                raise _Unreadable(f"not JSON: {error}") from None
            records = files.iter_array(self._path, tau2.RUNS, self._file_notes.add)
            return _Source(records, get_format(tau2.NAME), {tau2.NAME: header})
        if not _OBJECT_KEYS & set(keys) and not self._named:
            self._pass_over()
            return None
        try:
            value = files.read_object(self._path, self._file_notes.add)
        except ValueError as error:
            lines = files.iter_lines(self._path)  # a long first line hides that others follow it
            first = next(lines, None)
            if first is None or first.problem:
                raise _Unreadable(f"not JSON: {error}") from None
            self._unit = "line"
            return self._peek(chain([first], lines))
        return self._peek(iter([Record(0, value)]))

    def _peek(self, records: Iterator[Record]) -> _Source | None:
        """Looks at the first records for one of a known format; puts them back."""
        seen: list[Record] = []
        for record in records:
            seen.append(record)
            if record.problem is None:
                if is_message(record.value):
                    return self._one_conversation(chain(seen, records))
                if (reader := self._format_of(record.value)) is not None:
                    header = _common_domain(seen, records) if reader.NAME == tau_bench.NAME else {}
                    return _Source(chain(seen, records), None, header)
            if len(seen) >= _PEEK:
                break
        if seen and all(record.problem for record in seen):
            return _Source(chain(seen, records), None, {})
        if self._named and self._options.format is not None:
            return _Source(chain(seen, records), get_format(self._options.format), {})
        self._pass_over()
        return None

    def _one_conversation(self, records: Iterator[Record]) -> _Source:
        """A file that is one list of messages, or one message a line, is one run."""
        messages: list[Any] = []
        for record in records:
            if record.problem:
                self._skip_record(record)
            else:
                messages.append(record.value)
        return _Source(iter([Record(0, messages)]), None, {})

    def _pass_over(self) -> None:
        if self._named:
            raise _Unreadable("no runs of a known format in it; --format names one")
        self._report.not_traces.append(str(self._path))

    def _format_of(self, value: Any) -> Format | None:
        name = self._options.format
        if name is None:
            return recognise(value)
        reader = get_format(name)
        return reader if reader.recognises(value) else None

    def _read(self, source: _Source, labels: Sequence[Any]) -> Iterator[Trajectory]:
        count = 0
        self._report.files.setdefault(str(self._path), 0)
        for ordinal, record in enumerate(source.records):
            if record.problem:
                self._skip_record(record)
                continue
            label = labels[ordinal] if ordinal < len(labels) else None
            place = Place(
                file=str(self._path),
                index=record.position,
                domain=self._options.domain,
                label=label if _label_fits(label, record.value) else None,
                header=source.header,
                notes=record.notes,
            )
            run = self._read_record(record, source.format, place)
            if run is None:
                continue
            count += 1
            self._report.files[str(self._path)] = count
            self._report.records += 1
            self._report.formats[run.format] += 1
            self._report.repairs.update(run.notes)
            yield run

    def _read_record(self, record: Record, reader: Format | None, place: Place) -> Trajectory | None:
        reader = (
            reader
            or self._format_of(record.value)
            or (get_format(self._options.format) if self._options.format else None)
        )
        if reader is None:
            self._skip_record(record, "not a run of a known format")
            return None
        if not isinstance(record.value, dict | list):
            self._skip_record(record, "not an object")
            return None
        try:
            if not self._options.include_attacks and reader.under_attack(record.value):
                self._report.attacked += 1
                return None
            return reader.read(record.value, place)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            self._skip_record(record, f"not a {reader.NAME} run: {reason}")
            return None

    def _skip_record(self, record: Record, reason: str | None = None) -> None:
        if record.kind:
            self._report.repairs[record.kind] += 1
        number = record.position + 1 if self._unit == "line" else record.position
        self._skip(f"{self._unit} {number}", reason or record.problem or "")

    def _skip(self, position: str, reason: str) -> None:
        skipped = Skipped(str(self._path), position, reason)
        if self._options.strict:
            raise TraceError(str(skipped))
        self._report.skipped.append(skipped)

    def _labels(self) -> list[Any]:
        """The rows of ``X.labels.jsonl`` beside the file, in order."""
        stem = self._path.name
        for suffix in sorted(files.SUFFIXES, key=len, reverse=True):
            stem = stem.removesuffix(suffix)
        for suffix in (".labels.jsonl.gz", ".labels.jsonl"):
            path = self._path.with_name(stem + suffix)
            if path != self._path and path.is_file():
                return [record.value for record in files.iter_lines(path)]
        return []


class _Source(NamedTuple):
    """An opened file: its records, the format if it is one for the whole file, and its header."""

    records: Iterator[Record]
    format: Format | None
    header: Mapping[str, Any]


class _Unreadable(Exception):
    """The whole file cannot be read; the message says why."""


def _common_domain(seen: list[Record], records: Iterator[Record]) -> dict[str, Any]:
    """Looks on, adding to ``seen``, until a tau-bench result names the domain: one file holds one domain."""
    domain = next((name for record in seen if (name := tau_bench.domain_of(record.value))), "")
    while not domain and len(seen) < _PEEK and (record := next(records, None)) is not None:
        seen.append(record)
        domain = tau_bench.domain_of(record.value)
    return {tau_bench.DOMAIN: domain}


def _label_fits(label: Any, record: Any) -> bool:
    """A label counts only for the very run it was made for."""
    if not isinstance(label, dict) or not isinstance(record, dict):
        return False
    return all(label.get(key) == record.get(key) for key in ("task_id", "trial"))


def _read_whole_file(found: Found, options: Options) -> tuple[list[Trajectory], ReadReport]:
    report = ReadReport()
    return list(FileReader(found, options, report)), report
