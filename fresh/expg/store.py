"""Experiences on disk and at hand: appended one by one, found again by tool and by likeness.

A store is a folder::

    store.json         format version
    tools.jsonl        tool descriptions, one a line, each written once
    experiences.jsonl  one experience a line, its tool by the hash of the description

Lines are only ever appended, each in one write, so a reader or a crash sees whole lines and at most one broken last
line, which loading reports and skips. Adding an experience that is there already changes nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import orjson
from pydantic import ValidationError

from fresh.expg.experience import ASPECTS, Experience, ScoreVector, canonical, digest
from fresh.expg.index import WordIndex
from fresh.expg.select import DEFAULT_BUDGET
from fresh.expg.stats import ClassStatistics, summarise_sizes
from fresh.traces.clean import loads
from graph_schema.errors import MemoryFileError
from graph_schema.trajectory import ToolSpec

FORMAT_VERSION = 1
_MANIFEST = "store.json"
_TOOLS = "tools.jsonl"
_EXPERIENCES = "experiences.jsonl"


class ToolShelf:
    """The experiences of one tool with everything that is kept up to date as they come in."""

    def __init__(self) -> None:
        self.experiences: list[Experience] = []
        self.sizes: Counter[ScoreVector] = Counter()
        self._index = WordIndex()
        self._sums = [0] * len(ASPECTS)
        self._successes = 0
        self._seconds: list[float] = []
        self._tokens: list[float] = []
        self._lengths: Counter[int] = Counter()

    def add(self, experience: Experience) -> None:
        """Takes one experience in."""
        m = experience.invocation
        self.experiences.append(experience)
        self.sizes[experience.scores] += 1
        self._sums = [total + score for total, score in zip(self._sums, experience.scores, strict=True)]
        self._successes += m.success
        if m.seconds is not None:
            self._seconds.append(m.seconds)
        if m.tokens is not None:
            self._tokens.append(float(m.tokens))
        self._lengths[experience.tokens] += 1

    def nearest(self, query: str, k: int) -> list[tuple[Experience, float]]:
        """The k experiences whose input and context share most with a query.

        What came in since the last question is indexed first, so that a store opened for its statistics alone does not
        pay for an index.
        """
        for experience in self.experiences[len(self._index) :]:
            m = experience.invocation
            self._index.add(f"{m.raw_input if m.input is None else canonical(m.input)} {m.context}")
        return [(self.experiences[position], score) for position, score in self._index.search(query, k)]

    def statistics(self, *, budget: int = DEFAULT_BUDGET, alpha: float | None = None) -> ClassStatistics:
        """Class statistics as they are now, equal to those of :func:`fresh.expg.stats.class_statistics`."""
        return summarise_sizes(
            Counter(self.sizes),
            aspect_sums=self._sums,
            successes=self._successes,
            seconds=self._seconds,
            tokens=self._tokens,
            q=_quota_of_counts(self._lengths, budget),
            alpha=alpha,
        )


def _quota_of_counts(lengths: Counter[int], budget: int) -> int:
    fitting = total = 0
    for length in sorted(lengths, reverse=True):
        room = (budget - total) // length if length else lengths[length]
        fitting += min(lengths[length], max(room, 0))
        if room < lengths[length]:
            break
        total += length * lengths[length]
    return fitting


class ExperienceStore:
    """Experiences by tool, in memory and, if a folder is given, on disk."""

    def __init__(self, path: Path | str | None = None) -> None:
        """Opens a store, making the folder if needed.

        Args:
            path: The folder; None keeps everything in memory.

        Raises:
            MemoryFileError: The folder holds something else, or a store of a newer format.
        """
        self.path = None if path is None else Path(path)
        self.shelves: dict[str, ToolShelf] = {}
        self.damaged: list[str] = []
        """``file:line`` of each line that could not be read."""
        self._keys: set[str] = set()
        self._specs: dict[str, ToolSpec] = {}
        self._spec_keys: dict[int, tuple[ToolSpec, str]] = {}
        self._file: IO[bytes] | None = None
        if self.path is not None:
            self._open(self.path)

    def __repr__(self) -> str:
        return f"ExperienceStore({len(self._keys)} experiences, {len(self.shelves)} tools, path={self.path})"

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Experience]:
        for tool in sorted(self.shelves):
            yield from self.shelves[tool].experiences

    def __enter__(self) -> ExperienceStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def add(self, experience: Experience) -> bool:
        """Adds one experience, on disk too; False if it is there already."""
        if experience.key in self._keys:
            return False
        if self._file is not None:
            self._file.write(self._line(experience))
            self._file.flush()
        self._keep(experience)
        return True

    def extend(self, experiences: Iterable[Experience]) -> int:
        """Adds many and returns how many were new."""
        return sum(self.add(experience) for experience in experiences)

    def retrieve(self, tool: str, query: str, k: int = 5) -> list[tuple[Experience, float]]:
        """The k experiences of a tool nearest to a query, with their scores; none for an unknown tool."""
        shelf = self.shelves.get(tool)
        return [] if shelf is None else shelf.nearest(query, k)

    def statistics(self, tool: str, *, budget: int = DEFAULT_BUDGET, alpha: float | None = None) -> ClassStatistics:
        """Class statistics of a tool as they are now."""
        return self.shelves.get(tool, ToolShelf()).statistics(budget=budget, alpha=alpha)

    def sync(self) -> None:
        """Waits until everything added is on the disk itself."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file; the store can still be read."""
        if self._file is not None:
            self.sync()
            self._file.close()
            self._file = None

    def bytes_on_disk(self) -> int:
        """Size of the store's files; 0 in memory."""
        if self.path is None:
            return 0
        if self._file is not None:
            self._file.flush()
        return sum(f.stat().st_size for name in (_MANIFEST, _TOOLS, _EXPERIENCES) if (f := self.path / name).exists())

    def _keep(self, experience: Experience) -> None:
        self._keys.add(experience.key)
        shelf = self.shelves.get(experience.tool)
        if shelf is None:
            shelf = self.shelves[experience.tool] = ToolShelf()
        shelf.add(experience)

    def _line(self, experience: Experience) -> bytes:
        record = experience.model_dump(mode="json", exclude_defaults=True, exclude={"invocation": {"tool"}})
        record["spec"] = self._spec_key(experience.invocation.tool)
        return _encode(record)

    def _spec_key(self, spec: ToolSpec) -> str:
        known = self._spec_keys.get(id(spec))
        if known is not None and known[0] is spec:
            return known[1]
        record = spec.model_dump(mode="json", exclude_defaults=True)
        key = digest(canonical(record))
        self._spec_keys[id(spec)] = (spec, key)
        if key not in self._specs:
            self._specs[key] = spec
            if self.path is not None:
                _append(self.path / _TOOLS, _encode({"key": key, "tool": record}))
        return key

    def _open(self, path: Path) -> None:
        manifest = path / _MANIFEST
        if path.exists() and not path.is_dir():
            raise MemoryFileError(f"{path} is a file: give the folder of an experience store")
        if manifest.exists():
            _check(manifest)
        elif path.exists() and any(path.iterdir()):
            raise MemoryFileError(f"{path} is not an experience store ({_MANIFEST} is missing): give another folder")
        else:
            path.mkdir(parents=True, exist_ok=True)
            temporary = path / f"{_MANIFEST}.{os.getpid()}.tmp"
            temporary.write_bytes(_encode({"format": "fresh-experiences", "version": FORMAT_VERSION}))
            temporary.replace(manifest)
        self._load(path)
        for name in (_TOOLS, _EXPERIENCES):
            _end_line(path / name)
        self._file = (path / _EXPERIENCES).open("ab")

    def _load(self, path: Path) -> None:
        for where, record in self._records(path / _TOOLS):
            try:
                self._specs[record["key"]] = ToolSpec.model_validate(record["tool"])
            except (KeyError, TypeError, ValidationError):
                self.damaged.append(where)
        for where, record in self._records(path / _EXPERIENCES):
            try:
                record["invocation"]["tool"] = self._specs[record.pop("spec")]
                experience = Experience.model_validate(record)
            except (KeyError, TypeError, AttributeError, ValidationError):
                self.damaged.append(where)
                continue
            if experience.key not in self._keys:
                self._keep(experience)

    def _records(self, path: Path) -> Iterator[tuple[str, Any]]:
        if not path.exists():
            return
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    yield f"{path.name}:{number}", loads(line)
                except ValueError:
                    self.damaged.append(f"{path.name}:{number}")


def write_store(path: Path | str, experiences: Sequence[Experience]) -> ExperienceStore:
    """Opens a store, adds experiences and makes sure that they are on the disk."""
    store = ExperienceStore(path)
    store.extend(experiences)
    store.sync()
    return store


def _check(manifest: Path) -> None:
    try:
        found = orjson.loads(manifest.read_bytes())
        version = int(found["version"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise MemoryFileError(f"{manifest} is damaged: restore it or acquire the store anew") from None
    if version > FORMAT_VERSION:
        raise MemoryFileError(
            f"{manifest.parent} has format {version}, this version reads up to {FORMAT_VERSION}: upgrade fresh-memory"
        )


def _encode(record: Any) -> bytes:
    try:
        return orjson.dumps(record) + b"\n"
    except TypeError:  # integers beyond 64 bits, lone surrogates
        import json

        return json.dumps(record, default=str).encode("ascii") + b"\n"


def _append(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        file.write(line)


def _end_line(path: Path) -> None:
    """Closes a line that a crash left open, so that the next one starts clean."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("rb+") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")
