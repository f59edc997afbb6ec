"""From paths to what the miner reduces: files are read in turn or by several processes, with the same result."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fresh.mining import EffectResolver
from fresh.mining.evidence import RunEvidence
from fresh.traces.reader import WORKER_DIED, FileReader, Options, reading_pool
from fresh.traces.report import ReadReport
from fresh.traces.walk import Found, find_files
from graph_schema.errors import TraceError

if TYPE_CHECKING:
    from rich.console import Console


@dataclass
class Collected:
    """What was read.

    Attributes:
        evidence: One entry a run, sorted by run and then by where it was read, so that the order of files and the
            number of processes leave no trace. Of a run met twice the copy that counts is the one that sorts first.
        report: What was met while reading.
    """

    evidence: list[RunEvidence] = field(default_factory=list)
    report: ReadReport = field(default_factory=ReadReport)


def collect(
    paths: Sequence[Path],
    options: Options,
    resolver: EffectResolver,
    *,
    workers: int = 1,
    console: Console | None = None,
) -> Collected:
    """Reads every run in files and folders and takes out its evidence.

    Args:
        paths: Files or folders.
        options: How to read.
        resolver: Which tools write.
        workers: Processes; files are handed out whole.
        console: Where the progress bar goes; none if left out.

    Raises:
        TraceError: A path is missing, nothing could be read, with ``options.strict`` something was skipped, or a
            process that reads was killed.
        ConfigError: The format is unknown.
    """
    found = find_files(paths)
    result = Collected()
    with _Progress(found, console) as progress:
        for file, (evidence, report) in zip(found, _read_all(found, options, resolver, workers), strict=True):
            result.evidence.extend(evidence)
            result.report.add(report)
            progress.advance(file, report.records)
    _check_anything_read(paths, len(found), result.report)
    ordered: dict[str, RunEvidence] = {}
    for item in sorted(result.evidence, key=lambda e: (e.run.id, e.run.file, e.run.record)):
        ordered.setdefault(item.run.id, item)
    result.evidence = list(ordered.values())
    return result


def default_workers() -> int:
    """Processes to read with: as many as this process may use of the processors."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _read_all(
    found: Sequence[Found], options: Options, resolver: EffectResolver, workers: int
) -> Iterator[tuple[list[RunEvidence], ReadReport]]:
    workers = min(workers, len(found))
    if workers <= 1:
        yield from (_read_file(file, options, resolver) for file in found)
        return
    with reading_pool(workers) as pool:
        waiting: deque[Future[tuple[list[RunEvidence], ReadReport]]] = deque()
        try:
            for file in found:
                waiting.append(pool.submit(_read_file, file, options, resolver))
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise TraceError(WORKER_DIED) from None
        finally:
            for future in waiting:
                future.cancel()


def _read_file(found: Found, options: Options, resolver: EffectResolver) -> tuple[list[RunEvidence], ReadReport]:
    report = ReadReport()
    return [resolver.evidence(run) for run in FileReader(found, options, report)], report


def _check_anything_read(paths: Sequence[Path], files: int, report: ReadReport) -> None:
    if report.records:
        return
    if report.attacked:
        raise TraceError(
            f"all {report.attacked} runs are under an injection attack and were left out; --include-attacks reads them"
        )
    where = str(paths[0]) if len(paths) == 1 else f"the {files} files given"
    if report.skipped:
        more = f" (and {len(report.skipped) - 1} more)" if len(report.skipped) > 1 else ""
        raise TraceError(f"nothing could be read from {where}: {report.skipped[0]}{more}")
    raise TraceError(f"no runs of a known format in {where}; --format names one where the content does not show it")


class _Progress:
    """A bar over the bytes of the files, with the number of runs so far."""

    def __init__(self, found: Sequence[Found], console: Console | None) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[runs]} runs"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=console is None,
        )
        self._sizes = {file: file.path.stat().st_size for file in found}
        self._task = self._bar.add_task("reading", total=sum(self._sizes.values()) or 1, runs=0)
        self._runs = 0

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, file: Found, runs: int) -> None:
        self._runs += runs
        self._bar.update(self._task, advance=self._sizes[file], runs=self._runs)
