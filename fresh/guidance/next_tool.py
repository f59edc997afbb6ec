"""Which tools a good run would call next: similar tasks, the order of actions, and the ranker, weighed together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from fresh.gate.gate import Gate
from fresh.guidance.outlook import Outlook, rest
from fresh.guidance.settings import GuidanceSettings
from fresh.knowledge import ToolMemory
from fresh.retrieval.query import Query
from graph_schema.trajectory import CallStatus, Effect
from graph_schema.types import NodeType, Relation

_RECENT = 3
"""Last actions whose usual followers are looked at; each counts half of the one after it."""


class NextTool:
    """Scores tools for the next step.

    Args:
        gate: The gate of the memory: it knows which tools wait for a yes of the user.
        settings: Weights.
        outlook: Knows what the recorded tasks did.
    """

    def __init__(self, gate: Gate, settings: GuidanceSettings, outlook: Outlook) -> None:
        self._gate = gate
        self._index = gate.index
        self._settings = settings
        self._outlook = outlook
        self._followers: dict[str, dict[str, float]] = {}

    def scores(
        self,
        query: Query,
        relevance: NDArray[np.float64],
        similar: NDArray[np.float64],
        among: Mapping[str, float],
    ) -> list[tuple[ToolMemory, float]]:
        """Tools that memory has seen succeed and the agent may call, best first.

        Args:
            query: The moment.
            relevance: The ranker's score of every node, [N].
            similar: Likeness of every node to the request, [N].
            among: Tools that are still needed, with their chance of that; only they are proposed, each after the
                look-ups that it needs.
        """
        done = [tool for tool, status in query.used if status is CallStatus.OK]
        votes: dict[str, float] = defaultdict(float)
        for weight, part in (
            (self._settings.task_weight, self._of_similar_tasks(done, similar)),
            (self._settings.order_weight, self._of_order(done)),
            (self._settings.ranker_weight, self._of_ranker(relevance, query.offered)),
        ):
            best = max(part.values(), default=0.0)
            for tool, score in part.items():
                votes[tool] += weight * score / best if best > 0 else 0.0
        due = {tool: known for tool in among if (known := self._index.get(tool)) and self._outlook.advises(tool)}
        # The votes say whether it is time for a write; which one, the request says.
        write = max((votes[tool] for tool, known in due.items() if known.effect is Effect.WRITE), default=0.0)
        found = []
        for tool, known in due.items():
            vote = write if known.effect is Effect.WRITE else votes[tool]
            if vote > 0:
                found.append((known, vote * among[tool] * known.success_rate * self._fits(known, query)))
        return sorted(found, key=lambda item: (-item[1], item[0].name))

    def _fits(self, tool: ToolMemory, query: Query) -> float:
        """A yes of the user asks for a write; what neither reads nor writes is seldom what matters."""
        if tool.effect is Effect.OTHER:
            return 0.3
        if tool.effect is Effect.READ:
            return 1.0
        if query.confirmed and query.spoken and query.used:
            return self._settings.confirmed_boost
        waits = any(rule.condition.kind == "confirmed" for rule in self._gate.rules(tool.name))
        return 0.5 if waits else 1.0

    def _of_similar_tasks(self, done: Collection[str], similar: NDArray[np.float64]) -> dict[str, float]:
        """What good runs of the nearest tasks did after what is done here."""
        votes: dict[str, float] = defaultdict(float)
        counts = Counter(done)
        for position, weight in self._outlook.nearest(similar):
            for run in self._outlook.record(position).runs:
                for distance, tool in enumerate(rest(run, counts)[:_RECENT]):
                    votes[tool] += weight / 2**distance
        return dict(votes)

    def _of_order(self, done: list[str]) -> dict[str, float]:
        """What followed the last actions in good runs."""
        votes: dict[str, float] = defaultdict(float)
        for distance, tool in enumerate(reversed(done[-_RECENT:])):
            for follower, share in self._after(tool).items():
                votes[follower] += share / 2**distance
        return dict(votes)

    def _after(self, tool: str) -> dict[str, float]:
        """Share of each tool among what followed this one's actions; read from the graph once."""
        if tool not in self._followers:
            graph, known = self._index.graph, self._index.get(tool)
            counts: Counter[str] = Counter()
            for action in known.actions if known else ():
                for target, count in graph.successors(action, Relation.PRECEDES):
                    counts[graph.tools[target]] += count
            total = counts.total() + 1  # a transition seen once must not weigh as much as one seen always
            self._followers[tool] = {name: count / total for name, count in counts.items()}
        return self._followers[tool]

    def _of_ranker(self, relevance: NDArray[np.float64], offered: frozenset[str] | None) -> dict[str, float]:
        """The best score among each tool's actions."""
        graph = self._index.graph
        block = graph.indices(NodeType.ACTION)
        scores = relevance[block.start : block.stop]
        if offered is not None and len(offered) <= 200:
            nodes = {tool: (known.actions if (known := self._index.get(tool)) else ()) for tool in offered}
            return {tool: max((float(relevance[n]) for n in found), default=0.0) for tool, found in nodes.items()}
        count = min(50, len(scores))
        if not count:
            return {}
        found: dict[str, float] = {}
        for position in np.argpartition(-scores, count - 1)[:count]:
            if scores[position] > 0:
                tool = graph.tools[block.start + int(position)]
                found[tool] = max(found.get(tool, 0.0), float(scores[position]))
        return found
