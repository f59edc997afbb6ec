"""What is still to come: each tool's chance of being needed, from what tasks like this one needed after the same calls.

A vote of the nearest recorded tasks, weighed by likeness of the request and by agreement with what is done here, and
drawn towards how often the tool is needed at all (nearest neighbours with a Beta prior). The ranker and the words of
the request, above all a verb that names what a tool does, then shift the odds of each tool. What is named is the set
with the highest expected F1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fresh.guidance.settings import GuidanceSettings
from fresh.guidance.spoken import ToolNames
from fresh.knowledge import ToolIndex
from fresh.retrieval.query import Query
from graph_schema.trajectory import CallStatus, Effect
from graph_schema.types import NodeType

_SAMPLED_TASKS = 500
"""Tasks, evenly spaced, that say how often a tool is needed, and whether any solution has it."""
_LEAST_WEIGHT = 1e-3
_BOUND = 0.005
"""Chances are kept this far from 0 and 1 before they become odds."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of a recorded task.

    Attributes:
        runs: Tools of its shortest good runs, in order.
        solution: Tools of its own solution, in order; None where nobody has told.
    """

    runs: tuple[tuple[str, ...], ...] = ()
    solution: tuple[str, ...] | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Record:
        """Reads what the miner keeps of a task."""
        runs = [run for run in _lists(data.get("tools")) if all(isinstance(tool, str) for tool in run)]
        solution = data.get("solution")
        if not isinstance(solution, list) or not all(isinstance(tool, str) for tool in solution):
            solution = None
        return cls(tuple(map(tuple, runs)), None if solution is None else tuple(solution))

    def __bool__(self) -> bool:
        return bool(self.runs) or self.solution is not None

    def votes(self, done: Counter[str]) -> Vote:
        """What it says of a run that has done so much."""
        rests = [rest(run, done) for run in self.runs]
        called: Counter[str] = Counter()
        for left in rests:
            called.update(set(left))
        ways = [_agreement(run, len(run) - len(left), done) for run, left in zip(self.runs, rests, strict=True)]
        share = {tool: count / len(rests) for tool, count in called.items()}
        if self.solution is not None:
            places = _places(rest(self.solution, done))
            needed = dict.fromkeys(places, 1.0)
        else:
            places = _mean_places(rests)
            needed = share
        return Vote(sum(ways) / len(ways) if ways else 0.5, needed, places, share if rests else None)


@dataclass(frozen=True, slots=True)
class Vote:
    """What one recorded task says of a run at some point.

    Attributes:
        agreement: How far its good runs went the way taken here: shared calls over the longer of both ways, smoothed.
        needed: Share with which it needed each tool besides what is done.
        places: Where each of them came among what was left, 0 for the first.
        called: Share of its good runs that called each tool yet, needed or not; None where it has none.
    """

    agreement: float
    needed: dict[str, float]
    places: dict[str, float]
    called: dict[str, float] | None


@dataclass(frozen=True, slots=True)
class Expected:
    """A tool that is still to come.

    Attributes:
        chance: Estimated chance that it is needed yet.
        place: Where it came among what was left in the tasks that needed it, 0 for the first; the order it is told in.
    """

    tool: str
    chance: float
    place: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is still to come.

    Attributes:
        expected: Tools worth advising with their chance of being needed, likeliest first.
        calls: For each tool that may be called, the chance that a run calls it yet, needed or not.
    """

    expected: tuple[Expected, ...] = ()
    calls: Mapping[str, float] = field(default_factory=dict)

    def habits(self, share: float) -> dict[str, float]:
        """Tools that nearly every good run still calls, with the share of runs that do.

        A solution may not list them, and runs go wrong without.
        """
        return {tool: chance for tool, chance in self.calls.items() if chance >= share}


@dataclass(frozen=True, slots=True)
class _Tally:
    """What the nearest tasks say of each tool, [K] each: needed yet, place among what is left, called yet."""

    needed: NDArray[np.float64]
    place: NDArray[np.float64]
    called: NDArray[np.float64]


class Outlook:
    """Estimates what a good run has still to do.

    Args:
        index: Tools of the memory.
        settings: Weights.
    """

    def __init__(self, index: ToolIndex, settings: GuidanceSettings) -> None:
        self._index = index
        self._settings = settings
        self._records: dict[int, Record] = {}

    def forecast(self, query: Query, relevance: NDArray[np.float64], similar: NDArray[np.float64]) -> Forecast:
        """What is still to come, of the tools that may be called.

        Args:
            query: The moment.
            relevance: The ranker's score of every node, [N].
            similar: Likeness of every node to the request, [N].
        """
        if not self._names:
            return Forecast()
        tally = self._tally([tool for tool, status in query.used if status is CallStatus.OK], similar)
        odds = _log_odds(tally.needed) + self._settings.outlook_bias
        odds += self._settings.request_weight * _relative(self._best_action(similar))
        odds += self._settings.rank_weight * _relative(self._best_action(relevance))
        odds += self._spoken(query.request)
        chance = 1 / (1 + np.exp(-odds))
        allowed = [query.offered is None or name in query.offered for name in self._names]
        expected = [
            Expected(self._names[row], float(chance[row]), float(tally.place[row]))
            for row in np.flatnonzero(self._advisable & allowed)
        ]
        calls = {self._names[row]: float(tally.called[row]) for row in np.flatnonzero(allowed)}
        return Forecast(tuple(sorted(expected, key=lambda item: (-item.chance, item.tool))), calls)

    def _spoken(self, request: str) -> NDArray[np.float64]:
        """What the request's own words add to the log odds of each tool that they name, [K]."""
        share = self._tool_names.share(request)
        named = self._settings.name_weight * (share - share.mean())
        return named + self._settings.verb_weight * self._tool_names.asked(request)

    def _tally(self, done: list[str], similar: NDArray[np.float64]) -> _Tally:
        """The votes of the nearest tasks, each tool's drawn towards its overall share."""
        needed, place, called = np.zeros((3, len(self._names)))
        counts, total, ran = Counter(done), 0.0, 0.0
        for position, weight in self.nearest(similar):
            record = self.record(position)
            if not record:
                continue
            vote = record.votes(counts)
            weight *= vote.agreement
            total += weight
            for tool, share in vote.needed.items():
                if tool in self._row:
                    needed[self._row[tool]] += weight * share
                    place[self._row[tool]] += weight * share * vote.places[tool]
            if vote.called is not None:
                ran += weight
                for tool, share in vote.called.items():
                    if tool in self._row:
                        called[self._row[tool]] += weight * share
        strength = self._settings.prior_strength
        return _Tally(
            (needed + strength * self._prior) / max(total + strength, _LEAST_WEIGHT),
            np.where(needed > 0, place / np.maximum(needed, 1e-12), np.inf),
            (called + strength * self._use) / max(ran + strength, _LEAST_WEIGHT),
        )

    def nearest(self, similar: NDArray[np.float64]) -> Iterable[tuple[int, float]]:
        """Positions of the tasks whose requests are most alike, with the weight of their votes; in order of position.

        Args:
            similar: Likeness of every node to the request, [N].
        """
        likeness = similar[self._tasks.start : self._tasks.stop]
        count = min(self._settings.similar_tasks, len(likeness))
        if not count:
            return
        best = np.argpartition(-likeness, count - 1)[:count]
        top = float(likeness[best].max())
        for position in sorted(map(int, best)):
            weight = (float(likeness[position]) / top) ** self._settings.likeness_power if top > 0 else 0.0
            if weight >= _LEAST_WEIGHT:
                yield position, weight

    def advises(self, tool: str) -> bool:
        """Whether a tool may be advised at all."""
        row = self._row.get(tool)
        return row is not None and bool(self._advisable[row])

    def record(self, position: int) -> Record:
        """What is known of a task, by its position among the tasks; kept once read."""
        if position not in self._records:
            self._records[position] = Record.of(self._index.graph.data(self._tasks.start + position))
        return self._records[position]

    def _best_action(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The best score among each tool's actions, [K]."""
        _, nodes, start = self._tools
        return np.maximum.reduceat(scores[nodes], start)

    # -- read once ------------------------------------------------------------------------------------------------

    @cached_property
    def _tasks(self) -> range:
        return self._index.graph.indices(NodeType.TASK)

    @cached_property
    def _names(self) -> list[str]:
        """Tools that have been called, in order."""
        return self._tools[0]

    @cached_property
    def _row(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self._names)}

    @cached_property
    def _tools(self) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
        """``(tools, their Action nodes grouped by tool, where each tool's begin)``, without reading node by node."""
        block = self._index.graph.indices(NodeType.ACTION)
        names = np.array(self._index.graph.tools[block.start : block.stop], dtype=object)
        order = np.argsort(names, kind="stable")
        order = order[names[order] != ""]
        grouped = names[order]
        first = np.ones(len(grouped), dtype=bool)
        first[1:] = grouped[1:] != grouped[:-1]
        start = np.flatnonzero(first)
        return list(grouped[start]), order + block.start, start

    @cached_property
    def _tool_names(self) -> ToolNames:
        writes = [self._index.effect(name) is Effect.WRITE for name in self._names]
        return ToolNames(self._names, writes)

    @cached_property
    def _advisable(self) -> NDArray[np.bool_]:
        """Whether each tool may be advised, [K]: it has succeeded, and mostly, or is part of a solution.

        What a solution asks for is right to do, however often the recorded agents failed at it.
        """
        _, nodes, start = self._tools
        good, bad = (np.add.reduceat(self._index.graph.column(name)[nodes], start) for name in ("success", "failure"))
        solves = {tool for record in self._sample for tool in record.solution or ()}
        solving = np.array([name in solves for name in self._names], dtype=bool)
        return (good > 0) & (((good + 1) / (good + bad + 2) >= self._settings.min_success_rate) | solving)

    @cached_property
    def _use(self) -> NDArray[np.float64]:
        """Share of the recorded runs that call each tool, [K]."""
        graph = self._index.graph
        runs = {graph.tools[node]: int(graph.column("runs")[node]) for node in graph.indices(NodeType.TOOL)}
        return np.array([runs.get(name, 0) for name in self._names]) / max(1, graph.tables.runs.num_rows)

    @cached_property
    def _sample(self) -> list[Record]:
        """Records of tasks spread evenly over the memory."""
        count = min(len(self._tasks), _SAMPLED_TASKS)
        return [self.record(i * len(self._tasks) // count) for i in range(count)]

    @cached_property
    def _prior(self) -> NDArray[np.float64]:
        """How often each tool is needed by a task, whatever it asks, [K]."""
        known = [record for record in self._sample if record]
        needed = np.full(len(self._names), 0.5)
        for record in known:
            for tool, share in record.votes(Counter()).needed.items():
                if tool in self._row:
                    needed[self._row[tool]] += share
        return needed / (len(known) + 1)


def likeliest_set(expected: Sequence[Expected]) -> list[Expected]:
    """The tools whose naming has the highest expected F1, likeliest first.

    With chances p sorted downwards, naming the first k has about ``2 sum(p[:k]) / (k + sum(p))``: the best k is where
    the next chance falls below half of the value reached (Lipton, Elkan and Naryanaswamy, 2014).
    """
    total = sum(item.chance for item in expected)
    hits, best, count = 0.0, 0.0, 0
    for k, item in enumerate(expected, 1):
        hits += item.chance
        value = 2 * hits / (k + total)
        if value <= best:
            break
        best, count = value, k
    return list(expected[:count])


def rest(sequence: Sequence[str], done: Mapping[str, int]) -> list[str]:
    """What comes in a sequence after the last of its calls that are done here.

    Calls before it that were left out here were not needed: often they are another way to the same knowledge.
    """
    left = dict(done)
    reached = 0
    for position, tool in enumerate(sequence):
        if left.get(tool):
            left[tool] -= 1
            reached = position + 1
    return list(sequence[reached:])


def _agreement(run: Sequence[str], reached: int, done: Counter[str]) -> float:
    count = done.total()
    if not count:
        return 1.0
    left, shared = Counter(done), 0
    for tool in run[:reached]:
        if left[tool] > 0:
            left[tool] -= 1
            shared += 1
    return (shared + 1) / (max(count, reached) + 1)


def _places(sequence: Sequence[str]) -> dict[str, float]:
    places: dict[str, float] = {}
    for place, tool in enumerate(sequence):
        places.setdefault(tool, float(place))
    return places


def _mean_places(sequences: Sequence[Sequence[str]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for sequence in sequences:
        for tool, place in _places(sequence).items():
            found.setdefault(tool, []).append(place)
    return {tool: sum(places) / len(places) for tool, places in found.items()}


def _lists(data: Any) -> list[list[str]]:
    """Tool sequences as the miner stores them: one, or several."""
    if not isinstance(data, list) or not data:
        return []
    return [data] if isinstance(data[0], str) else [sequence for sequence in data if isinstance(sequence, list)]


def _log_odds(chance: NDArray[np.float64]) -> NDArray[np.float64]:
    bounded = np.clip(chance, _BOUND, 1 - _BOUND)
    return np.log(bounded / (1 - bounded))


def _relative(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    best = scores.max(initial=0.0)
    return scores / best if best > 0 else np.zeros_like(scores)
