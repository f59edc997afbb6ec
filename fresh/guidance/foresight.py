"""Which errors a run is likely to make yet: how often a tool's uses end in each, times the chance that it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fresh.knowledge import ToolIndex
from graph_schema.types import NodeType

_MOST = 64
"""Errors looked at; a block holds a few."""


@dataclass(frozen=True, slots=True)
class Risk:
    """An error that may come.

    Attributes:
        node: Its Error node.
        chance: Estimated chance that this run makes it yet.
    """

    tool: str
    node: int
    chance: float


class Foresight:
    """Estimates which errors are still to come.

    Args:
        index: Tools of the memory.
        min_runs: Runs that must have shown an error.
    """

    def __init__(self, index: ToolIndex, min_runs: int) -> None:
        self._index = index
        self._min_runs = min_runs

    def risks(self, calls: Mapping[str, float], least: float = 0.0) -> list[Risk]:
        """Errors that may come, likeliest first.

        Args:
            calls: For each tool that may be called, the chance that the run calls it yet.
            least: Chance below which an error is left out.
        """
        tools, tool, nodes, share = self._errors
        chance = share * np.array([calls.get(name, 0.0) for name in tools])[tool] if tools else share
        likely = np.flatnonzero((chance >= least) & (chance > 0))
        likely = likely[np.lexsort((nodes[likely], -chance[likely]))[:_MOST]]
        return [Risk(tools[tool[i]], int(nodes[i]), float(chance[i])) for i in likely]

    @cached_property
    def _errors(self) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """``(tools, tool of each error, its node, share of the runs with the tool that showed it)``; read once."""
        graph = self._index.graph
        runs = graph.column("runs")
        used = {graph.tools[node]: int(runs[node]) for node in graph.indices(NodeType.TOOL)}
        block = graph.indices(NodeType.ERROR)
        nodes = np.flatnonzero(runs[block.start : block.stop] >= self._min_runs) + block.start
        names = [graph.tools[node] for node in nodes]
        row = {name: i for i, name in enumerate(dict.fromkeys(names))}
        uses = np.array([used.get(name, 0) for name in names], dtype=np.int64)
        share = runs[nodes] / (np.maximum(uses, runs[nodes]) + 1.0)
        return list(row), np.array([row[name] for name in names], dtype=np.int64), nodes, share
