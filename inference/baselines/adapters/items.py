"""What every package is given to remember, and how what it gives back is shown.

A package gets two kinds of items as text: runs that succeeded, as a request and the chain of its calls; and lessons,
which are calls that failed, with the message and what resolved it. It answers a query with the keys of items, and the
lines come from here, in the words of all other memories.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fresh.retrieval.encoder import Encoder
from graph_schema.trajectory import Outcome, Trajectory
from inference.baselines.base import Advice, Setting
from inference.baselines.recall import Moment, encoder_of
from inference.baselines.recorded import Recorded, Step, read
from inference.baselines.replay import replayed
from inference.baselines.wording import Statement, Writer, chain, failure_line, fix_words

RECALLED = 8
"""Items of each kind asked for; of runs that go on in the same way one is shown."""
_RUNS = 3
_LESSONS = 3


class Kind(StrEnum):
    """The kinds of items; packages keep them apart by user, scope, namespace or outcome."""

    RUN = "run"
    LESSON = "lesson"
    FAILED = "failed"
    """A run that failed: only for a package that keeps a track record; it is never shown."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to remember.

    Attributes:
        key: Names it; the same content has the same key.
        title: What it is about: a request, or a call.
        text: What is remembered and searched.
    """

    key: str
    kind: Kind
    title: str
    text: str


class Shelf:
    """The items of some runs, and the words for those that were found.

    Args:
        trajectories: The runs.
        setting: Effects of tools.
    """

    def __init__(self, trajectories: Sequence[Trajectory], setting: Setting) -> None:
        everything = read(trajectories, setting.effects)
        self._writer = Writer.of(everything)
        self._runs: dict[str, Recorded] = {}
        self._lessons: dict[str, tuple[Step, str]] = {}
        self.items: list[Item] = []
        for step, then in _lessons(everything):
            self._keep(Kind.LESSON, step.pattern, self._writer.clean(_lesson_text(step, then)), (step, then))
        for run in everything:
            if run.good_steps and run.outcome is not Outcome.UNKNOWN:
                kind = Kind.RUN if run.succeeded else Kind.FAILED
                self._keep(kind, run.request or run.run.task_key, _run_text(run), run)

    def _keep(self, kind: Kind, title: str, text: str, content: Any) -> None:
        """Keeps an item unless one of the same text is there: many trials of a task say the same."""
        key = hashlib.blake2b(f"{kind} {text}".encode(), digest_size=16).hexdigest()
        store: dict[str, Any] = self._lessons if kind is Kind.LESSON else self._runs
        if key not in store:
            store[key] = content
            self.items.append(Item(key, kind, title, text))

    def advice(self, moment: Moment, runs: Iterable[str], lessons: Iterable[str], budget: int) -> Advice:
        """Words for what was found.

        Args:
            moment: The moment that was asked about.
            runs: Keys of runs, the best first.
            lessons: Keys of lessons, the best first.
            budget: Most tokens of the text.
        """
        return self._writer.advice(self._statements(moment, list(runs), lessons), budget)

    def _statements(self, moment: Moment, runs: Sequence[str], lessons: Iterable[str]) -> Iterator[Statement]:
        """The best run, then what to avoid, then the other runs; what is said twice is shown once."""
        found = [run for key in runs if (run := self._runs[key]).succeeded]
        yield from replayed(found, moment, 1)
        known = [self._lessons[key] for key in lessons]
        offered = moment.query.offered
        allowed = [(step, then) for step, then in known if offered is None or step.tool in offered]
        yield from (_avoid(step, then) for step, then in allowed[:_LESSONS])
        yield from replayed(found, moment, _RUNS)


def _run_text(run: Recorded) -> str:
    return f"{run.request}\n{chain(run.good_steps)}"


def _lesson_text(step: Step, then: str) -> str:
    return f"{step.pattern} fails: {step.failed}" + (f"; {then}" if then else "")


def _lessons(runs: Iterable[Recorded]) -> Iterator[tuple[Step, str]]:
    """Each error of each tool once: the call that gave it most often, and what most often resolved it."""
    calls: dict[tuple[str, str], Counter[Step]] = {}
    fixed: dict[tuple[str, str], Counter[str]] = {}
    for run in runs:
        fixes = {position: fix for position, fix, _ in run.fixes}
        for position, step in enumerate(run.steps):
            if not step.failed:
                continue
            error = (step.tool, step.failed)
            calls.setdefault(error, Counter())[step] += 1
            if position in fixes:
                fixed.setdefault(error, Counter())[fix_words(step.tool, fixes[position])] += 1
    for error, given in calls.items():
        best = max(given, key=lambda step: (_times(given, step.pattern), step.pattern))
        words = fixed.get(error)
        yield best, max(words, key=lambda text: (words[text], text)) if words else ""


def _times(given: Counter[Step], pattern: str) -> int:
    return sum(times for step, times in given.items() if step.pattern == pattern)


def _avoid(step: Step, then: str) -> tuple[str, ...]:
    return tuple(f"Avoid: {failure_line(call, step.failed, then)}" for call in (step.pattern, step.tool))


class PackageMemory(ABC):
    """A memory whose items are kept and found by a package.

    Args:
        shelf: The items.
        encoder: Text encoder for the package's own vectors.
    """

    name: ClassVar[str]
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.RUN, Kind.LESSON})

    def __init__(self, shelf: Shelf, encoder: Encoder) -> None:
        self._shelf = shelf
        self._encoder = encoder
        self._folder = Path(tempfile.mkdtemp(prefix="fresh-memory-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        items = [item for item in shelf.items if item.kind in self.kinds]
        self._fill(items, encoder.encode([item.text for item in items]))

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """Gives the items of some runs to the package.

        Raises:
            MissingExtraError: The package is not installed.
        """
        return cls(Shelf(trajectories, setting), encoder_of(setting))

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        """What the package finds for the moment."""
        moment = Moment.of(messages, tools)
        if moment.empty or not moment.query.text:
            return Advice()
        return self._shelf.advice(moment, self._found_runs(moment), self._found(Kind.LESSON, moment), budget)

    def size(self) -> int:
        """Bytes of the files that the package keeps."""
        return sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())

    def _found_runs(self, moment: Moment) -> Sequence[str]:
        """Keys of runs for the moment, the best first."""
        return self._found(Kind.RUN, moment)

    @abstractmethod
    def _fill(self, items: Sequence[Item], vectors: NDArray[np.float32]) -> None:
        """Gives the items to the package.

        Args:
            items: The items.
            vectors: Their unit vectors, [n, d].
        """

    @abstractmethod
    def _found(self, kind: Kind, moment: Moment) -> Sequence[str]:
        """Keys of items of one kind, the best first."""
