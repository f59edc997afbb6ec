"""H-EPM: a graph of which tool follows which, each edge with the episodes in which it was taken.

At every step the memory looks at the edges that leave the last tool. Where one of them is taken nearly always, the step
is routine: it is followed, and so on along the graph (procedural memory). Where several are open, the episodes decide:
the states in which each edge was taken are compared with the present one, and the nearest are told (episodic memory).
The original summarises states with a model; here a state is what retrieval sees of a moment (the request, the latest
words, the last call and error), and its summary the request with the steps that followed. Its guided reinforcement
learning has no place here, the executor being frozen.

Source: Li et al., "Experience-Evolving Multi-Turn Tool-Use Agent with Hybrid Episodic-Procedural Memory"
(arXiv 2512.07287).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from fresh.history import RunIndex
from fresh.retrieval.encoder import Encoder
from fresh.retrieval.features import encode_query
from fresh.retrieval.query import Query, make_query
from graph_schema.trajectory import Trajectory
from inference.baselines.base import Advice, Setting
from inference.baselines.recall import Moment, best_first, encoded, encoder_of
from inference.baselines.recorded import Recorded, Step, read
from inference.baselines.wording import Statement, Writer, chain, head, steps_after_each_other

_ROUTINE = 0.75
"""Share of what followed a tool from which on its follower is routine."""
_EPISODES = 2
_STEPS = 5
"""Longest piece of an episode, or of a routine, that is told."""
_START = ""


@dataclass(frozen=True, slots=True)
class Episode:
    """One taking of an edge.

    Attributes:
        run: The run, one that succeeded.
        position: Of the step taken, among its good steps.
    """

    run: Recorded
    position: int

    @property
    def steps(self) -> tuple[Step, ...]:
        """The step and those after it."""
        return self.run.good_steps[self.position :]


class HybridMemory:
    """Follows routines, and recalls episodes where there is none."""

    name: ClassVar[str] = "h-epm"

    def __init__(self, runs: Sequence[Recorded], writer: Writer, encoder: Encoder) -> None:
        self._writer = writer
        self._encoder = encoder
        self._runs = list(runs)
        self._episodes: list[Episode] = []
        self._leaving: dict[str, list[int]] = defaultdict(list)
        self._followers: dict[str, Counter[str]] = defaultdict(Counter)
        self._forms: dict[str, Counter[str]] = defaultdict(Counter)
        self._form: dict[str, Step] = {}
        states: list[Query] = []
        for run in runs:
            states += self._add(run)
        self._vectors: NDArray[np.float32] = encoded(states, encoder)

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """Builds the graph of the runs known to have succeeded."""
        runs = read(trajectories, setting.effects)
        return cls([run for run in runs if run.succeeded], Writer.of(runs), encoder_of(setting))

    def _add(self, run: Recorded) -> Iterator[Query]:
        index = RunIndex(run.run.turns)
        last = _START
        for position, step in enumerate(run.good_steps):
            self._leaving[last].append(len(self._episodes))
            self._followers[last][step.tool] += 1
            self._forms[step.tool][step.pattern] += 1
            self._form.setdefault(step.pattern, step)
            self._episodes.append(Episode(run, position))
            yield make_query(index.at(step.turn))
            last = step.tool

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        """The routine from here, or the episodes nearest to the present state."""
        moment = Moment.of(messages, tools)
        if moment.empty:
            return Advice()
        routine = self._routine(moment)
        statements = self._told(routine) if routine else self._recalled(moment)
        return self._writer.advice(statements, budget)

    def _routine(self, moment: Moment) -> list[str]:
        """Tools that follow each other nearly always, from the last one on; empty where the next step is open."""
        found: list[str] = []
        tool = moment.last
        while len(found) < _STEPS:
            open_ = self._open(tool, moment)
            best = min(open_, key=lambda name: (-open_[name], name), default=_START)
            if not best or open_[best] < _ROUTINE * open_.total() or best in found:
                break
            found.append(best)
            tool = best
        return found

    def _open(self, tool: str, moment: Moment) -> Counter[str]:
        """How often each tool that may be called followed this one."""
        return Counter({name: count for name, count in self._followers[tool].items() if moment.may_call(name)})

    def _told(self, routine: Sequence[str]) -> Iterator[Statement]:
        yield "What nearly always comes next:"
        usual = [min(self._forms[tool].items(), key=lambda item: (-item[1], item[0]))[0] for tool in routine]
        yield from steps_after_each_other([self._form[pattern] for pattern in usual])

    def _recalled(self, moment: Moment) -> Iterator[Statement]:
        """The nearest episode of each edge that leaves the last tool, the nearest first."""
        near = self._leaving.get(moment.last) or range(len(self._episodes))
        scores = self._vectors[list(near)] @ encode_query(moment.query, self._encoder).text
        edges: dict[str, Episode] = {}
        for place in best_first(scores):
            episode = self._episodes[near[place]]
            tool = episode.steps[0].tool
            if moment.may_call(tool):
                edges.setdefault(tool, episode)
            if len(edges) == _EPISODES:
                break
        for number, episode in enumerate(edges.values()):
            steps = episode.steps[:_STEPS]
            if number == 0:
                yield f'In a state like this, a run that succeeded ("{head(episode.run.request)}") went on:'
                yield from steps_after_each_other(steps)
            else:
                yield f"Another went on: {chain(steps)}"

    def size(self) -> int:
        """Bytes of the runs in words, the edges and the vectors of the states."""
        edges = {tool: dict(counts) for tool, counts in self._followers.items()}
        return len(orjson.dumps([run.plain() for run in self._runs])) + len(orjson.dumps(edges)) + self._vectors.nbytes
