"""ReasoningBank-style items: what successes and failures teach, distilled and recalled by the likeness of their tasks.

ReasoningBank lets a model judge each run and write up to three items of it, each with a title, a description and a
content: strategies from successes, lessons from failures. Recall is by the likeness of the new task with those the
items came from, and one recalled task is best. Here rules write the items: of a success, the way it took; of any run,
the errors it met with what resolved them, and calls repeated unchanged; of a failed run, writes with values that nobody
had said or shown, and writes without the user's yes, unless successful runs do without it as often. Items that say the
same are merged, with all the runs they came from; the part of a way that is done already is left out.

Source: Ouyang et al., "ReasoningBank: Scaling Agent Self-Evolving with Reasoning Memory" (arXiv 2509.25140).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from fresh.history import RunIndex
from fresh.mining.credit import Credit
from fresh.mining.patterns import in_words
from graph_schema.trajectory import Effect, Outcome, Trajectory
from inference.baselines.base import Advice, Setting
from inference.baselines.recall import Moment, RunStore
from inference.baselines.recorded import Recorded, Step
from inference.baselines.wording import Statement, failure_line, fix_words, head, steps_after_each_other

_STRATEGIES = 1
_LESSONS = 3
_UNASKED = "unasked"
_SUPPORT = 0.05
"""How much twice as many runs behind a lesson count, beside its likeness."""


@dataclass
class Item:
    """One item of the memory.

    Attributes:
        title: What it is about.
        description: The request it was first met with, for a strategy.
        steps: The way, for a strategy.
        content: What to heed, for a lesson.
        tool: The tool that a lesson is about; empty for a strategy.
        sources: Positions of the runs it came from.
    """

    title: str
    description: str = ""
    steps: tuple[Step, ...] = ()
    content: Statement = ""
    tool: str = ""
    sources: set[int] = field(default_factory=set)


class Distilled:
    """Recalls strategies and lessons."""

    name: ClassVar[str] = "distilled"

    def __init__(self, store: RunStore, items: Sequence[Item]) -> None:
        self._store = store
        self._strategies = [item for item in items if item.steps]
        self._lessons = [item for item in items if not item.steps]

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """Distils all runs."""
        store = RunStore(trajectories, setting)
        items: dict[tuple[str, ...], Item] = {}
        for position, run in enumerate(store.runs):
            for key, item in _items(run):
                items.setdefault(key, item).sources.add(position)
        harmless = Counter(tool for run in store.runs if run.succeeded for tool in _unasked(run))
        kept = [item for key, item in items.items() if key[0] != _UNASKED or len(item.sources) > harmless[item.tool]]
        return cls(store, kept)

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        """The strategy of the nearest task, then lessons, those on tools it still needs first."""
        moment = Moment.of(messages, tools)
        if moment.empty:
            return Advice()
        likeness = self._store.likeness(moment)
        ranked = sorted(self._strategies, key=lambda item: -_best(likeness, item))
        statements: list[Statement] = []
        ahead: set[str] = set()
        for item in ranked[:_STRATEGIES]:
            left = moment.left(item.steps)
            ahead.update(step.tool for step in left)
            if left:
                statements.append(f'{item.title} (as for "{head(item.description)}"):')
                statements += steps_after_each_other(left)
        statements += [item.content for item in self._taught(moment, likeness, ahead)]
        return self._store.writer.advice(statements, budget)

    def _taught(self, moment: Moment, likeness: NDArray[np.float32], ahead: set[str]) -> list[Item]:
        """Lessons on tools that can be called; those on tools ahead first, then by likeness and by how many runs."""
        usable = [item for item in self._lessons if moment.may_call(item.tool)]
        weight = {
            id(item): _best(likeness, item) + _SUPPORT * np.log2(len(item.sources)) + (item.tool in ahead)
            for item in usable
        }
        return sorted(usable, key=lambda item: -weight[id(item)])[:_LESSONS]

    def size(self) -> int:
        """Bytes of the items and of the vectors of their tasks."""
        plain = [
            [item.title, item.description, [s.pattern for s in item.steps], item.content, sorted(item.sources)]
            for item in (*self._strategies, *self._lessons)
        ]
        return len(orjson.dumps(plain)) + self._store.vectors.nbytes


def _best(likeness: NDArray[np.float32], item: Item) -> float:
    return float(likeness[list(item.sources)].max())


def _items(run: Recorded) -> Iterator[tuple[tuple[str, ...], Item]]:
    """Items of one run, each with what tells it apart."""
    if run.succeeded and run.good_steps:
        yield _strategy(run)
    fixes = {position: fix for position, fix, _ in run.fixes}
    for position, step in enumerate(run.steps):
        if step.failed:
            fix = fixes.get(position)
            content = failure_line(step.tool, step.failed, fix_words(step.tool, fix) if fix else "")
            item = Item(f"When {in_words(step.tool)} fails", content=content, tool=step.tool)
            yield ("fails", step.tool, step.failed), item
        if step.credit is Credit.REPEATED and step.failed:
            content = f"Avoid: calling {step.tool} again unchanged after it failed"
            yield ("again", step.tool), Item("Change something first", content=content, tool=step.tool)
        if step.credit is Credit.PREMATURE and run.outcome is Outcome.FAILURE:
            content = f"Avoid: {step.pattern} with a value that nobody has said or shown"
            yield ("premature", step.pattern), Item("Look before you write", content=content, tool=step.tool)
    if run.outcome is Outcome.FAILURE:
        for tool in _unasked(run):
            content = f"Avoid: calling {tool} before the user has agreed to it"
            yield (_UNASKED, tool), Item("Ask first", content=content, tool=tool)


def _unasked(run: Recorded) -> set[str]:
    """Tools of the writes that went through without the user's yes."""
    index = RunIndex(run.run.turns)
    writes = [step for step in run.steps if step.effect is Effect.WRITE and not step.failed]
    return {step.tool for step in writes if not index.at(step.turn).confirmed()}


def _strategy(run: Recorded) -> tuple[tuple[str, ...], Item]:
    writes = [step for step in run.good_steps if step.effect is Effect.WRITE]
    about = dict.fromkeys(in_words(step.tool) for step in writes or run.good_steps[-1:])
    item = Item(f"How to {' and '.join(about)}", run.request, run.good_steps)
    return ("way", *(step.pattern for step in run.good_steps)), item
