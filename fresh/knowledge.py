"""What a memory knows of one tool, read once and kept: conditions, errors, repairs, where values come from.

The gate and the guidance ask for the same few tools at every step. Reading them out of the graph's columns costs
milliseconds, so each tool is read on first use and then held as plain Python values.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import ValidationError

from fresh.conditions import Condition, Grounded, parse_condition
from fresh.mining.patterns import in_words
from graph_schema.graph import ExperienceGraph, Node
from graph_schema.trajectory import Effect
from graph_schema.types import NodeType, Relation

MAX_RULES = 200
"""Most conditions read for one tool; more would be a fault of the miner, and each costs time at every write."""
MAX_ERRORS = 100


@dataclass(frozen=True, slots=True)
class Rule:
    """A mined condition on a tool.

    Attributes:
        node: Its Precondition node.
        support: Verified uses in which it held.
        exceptions: Verified uses in which it did not hold.
        held_failed: Failed uses in which it held.
        caught: Failed uses in which it did not hold.
        tasks: Different tasks among the verified uses in which it held: uses of one task say the same thing twice.
        score: Chance that a use which breaks it is wrong, at even odds, on tasks it was not mined from.
        false_block: Share of right uses held back when it and all rules of higher score are enforced, on such tasks.
    """

    node: int
    condition: Condition
    support: int
    exceptions: int = 0
    held_failed: int = 0
    caught: int = 0
    tasks: int = 0
    score: float = 0.5
    false_block: float = 0.0

    @property
    def necessity(self) -> float:
        """Share of verified uses in which it held."""
        return self.support / max(1, self.support + self.exceptions)

    @property
    def contrast(self) -> float:
        """How much more often it did not hold in failed uses than in verified ones; 0 where no use failed."""
        failed = self.held_failed + self.caught
        return self.caught / failed - (1 - self.necessity) if failed else 0.0

    @property
    def confidence(self) -> float:
        """Smoothed `necessity`: few uses make nothing certain."""
        return (self.support + 1) / (self.support + self.exceptions + 2)


_ID_NAME = re.compile(r"(?:^|_|\.)ids?\W*$|[a-z]Ids?\W*$")
_IN_TEXT = ":text"
"""How an origin in the running text of a result is written (`fresh.history.Origin`)."""
_NO_RULE = Rule(-1, Grounded(argument=""), 0)


@dataclass(frozen=True, slots=True)
class KnownRepair:
    """What has resolved an error.

    Attributes:
        kind: ``change_arguments``, ``add_read``, ``fallback_tool`` or ``handover``.
        arguments: Names of the arguments that changed.
        tool: The other tool, if any.
        times: How often it resolved the error.
    """

    node: int
    kind: str
    arguments: tuple[str, ...]
    tool: str
    times: int


@dataclass(frozen=True, slots=True)
class KnownError:
    """An error that a tool has been seen to give, its particulars replaced by placeholders."""

    node: int
    message: str
    times: int
    runs: int
    repairs: tuple[KnownRepair, ...]


@dataclass(frozen=True)
class ToolMemory:
    """Everything the gate and the guidance use of one tool.

    Attributes:
        sources: For each argument, where its values came from in verified uses, most frequent first: ``request`` or
            ``tool:path``.
        given: For each argument, the share of verified uses that gave it.
        actions: Its Action nodes, the most often verified first.
        tasks: Different tasks with verified uses; of the pattern that has the most.
        success: Verified uses.
        failure: Failed uses.
    """

    name: str
    node: int | None
    effect: Effect
    parameters: tuple[str, ...]
    rules: tuple[Rule, ...] = ()
    errors: tuple[KnownError, ...] = ()
    sources: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    given: dict[str, float] = field(default_factory=dict)
    actions: tuple[int, ...] = ()
    tasks: int = 0
    success: int = 0
    failure: int = 0

    @cached_property
    def success_rate(self) -> float:
        """Smoothed share of verified uses."""
        return (self.success + 1) / (self.success + self.failure + 2)

    def error(self, message: str) -> KnownError | None:
        """The known error with this normalised message."""
        return next((error for error in self.errors if error.message == message), None)


class ToolIndex:
    """Tools of a memory by name.

    Args:
        graph: The memory's graph; it is only read.
    """

    def __init__(self, graph: ExperienceGraph) -> None:
        self.graph = graph
        self._known: dict[str, ToolMemory | None] = {}

    @cached_property
    def _rows(self) -> dict[str, tuple[int, int]]:
        """Slice of `_order` that holds each tool's nodes."""
        names, codes, _ = self._by_tool
        starts = np.searchsorted(codes, np.arange(len(names) + 1))
        return {name: (int(starts[i]), int(starts[i + 1])) for i, name in enumerate(names) if name}

    @cached_property
    def _by_tool(self) -> tuple[list[str], np.ndarray, np.ndarray]:
        """``(names, code of each node in order, order)``: nodes grouped by tool without a loop in Python."""
        encoded = self.graph.tables.nodes["tool"].combine_chunks().dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        order = np.argsort(codes, kind="stable")
        return encoded.dictionary.to_pylist(), codes[order], order

    @property
    def names(self) -> list[str]:
        """Tools that the memory knows."""
        return list(self._rows)

    @cached_property
    def names_in_words(self) -> frozenset[str]:
        """Their names as a text would speak of them."""
        return frozenset(map(in_words, self._rows))

    def __contains__(self, tool: object) -> bool:
        return tool in self._rows

    def nodes(self, tool: str, node_type: NodeType) -> list[int]:
        """Positions of a tool's nodes of one type, in node order."""
        low, high = self._rows.get(tool, (0, 0))
        found = self._by_tool[2][low:high]
        block = self.graph.indices(node_type)
        return [int(i) for i in found[(found >= block.start) & (found < block.stop)]]

    def get(self, tool: str) -> ToolMemory | None:
        """What is known of a tool; None if the memory has never seen it."""
        if tool not in self._known:
            self._known[tool] = self._read(tool) if tool in self else None
        return self._known[tool]

    def effect(self, tool: str) -> Effect | None:
        """What the tool does to the world; None if the memory has never seen it."""
        known = self.get(tool)
        return known.effect if known else None

    @cached_property
    def lookups(self) -> dict[str, tuple[str, int]]:
        """For each parameter, the read that takes it alone, with its node; the most used where there are several."""
        found: dict[str, tuple[int, str, int]] = {}
        for index in self.graph.indices(NodeType.TOOL):
            node = self.graph.node(index)
            parameters = list(node.data.get("parameters") or [])
            if node.data.get("effect") != Effect.READ or len(parameters) != 1:
                continue
            best = found.get(str(parameters[0]))
            if best is None or node.success > best[0]:
                found[str(parameters[0])] = (node.success, node.tool, index)
        return {name: (tool, index) for name, (_, tool, index) in found.items()}

    def _read(self, tool: str) -> ToolMemory:
        graph = self.graph
        tool_nodes = [graph.node(i) for i in self.nodes(tool, NodeType.TOOL)]
        data = tool_nodes[0].data if tool_nodes else {}
        actions = [graph.node(i) for i in self.nodes(tool, NodeType.ACTION)[:MAX_RULES]]
        sources, given = _argument_sources(actions)
        rules = [_rule(graph.node(i), self._tasks(i)) for i in self.nodes(tool, NodeType.PRECONDITION)[:MAX_RULES]]
        found = [rule for rule in rules if rule is not None]
        found += self._from_sources(found, actions)
        errors = [self._error(graph.node(i)) for i in self.nodes(tool, NodeType.ERROR)[:MAX_ERRORS]]
        return ToolMemory(
            name=tool,
            node=tool_nodes[0].index if tool_nodes else None,
            effect=_effect(data.get("effect") or (actions[0].data.get("effect") if actions else None)),
            parameters=tuple(str(name) for name in data.get("parameters", ())),
            rules=tuple(found),
            errors=tuple(sorted(errors, key=lambda error: (-error.times, error.message))),
            sources=sources,
            given=given,
            actions=tuple(a.index for a in sorted(actions, key=lambda a: (-a.success, a.index))),
            tasks=max((self._tasks(a.index) for a in actions), default=0),
            success=sum(a.success for a in actions),
            failure=sum(a.failure for a in actions),
        )

    def _from_sources(self, rules: list[Rule], actions: list[Node]) -> list[Rule]:
        """That a value must come from somewhere, for arguments whose verified values all did.

        The miner writes this down as a condition only where failed and verified uses suffice to compare; where each
        value came from is known from the first verified use on.
        """
        known = {rule.condition.argument for rule in rules if isinstance(rule.condition, Grounded)}
        best: dict[str, Rule] = {}
        for action in actions:
            for argument, entry in (action.data.get("arguments") or {}).items():
                counts = {str(source): int(count) for source, count in entry.get("sources") or ()}
                nowhere = counts.pop("nowhere", 0)
                support = sum(counts.values())
                if argument in known or support <= best.get(argument, _NO_RULE).support:
                    continue
                plain = not entry.get("choices") and not _ID_NAME.search(argument)
                firm = not any(source.endswith(_IN_TEXT) for source in counts)
                best[argument] = Rule(
                    action.index,
                    Grounded(argument=argument, plain=plain, firm=firm),
                    support,
                    nowhere,
                    tasks=self._tasks(action.index),
                    score=(support + 1) / (support + nowhere + 2),
                    false_block=nowhere / (support + nowhere),
                )
        return list(best.values())

    def _error(self, node: Node) -> KnownError:
        repairs = [
            _repair(self.graph.node(target), count)
            for target, count in self.graph.successors(node.index, Relation.FIXED_BY)
        ]
        repairs.sort(key=lambda repair: (-repair.times, repair.node))
        message = str(node.data.get("message", ""))
        return KnownError(node.index, message, node.failure or node.runs, node.runs, tuple(repairs))

    def _tasks(self, node: int) -> int:
        """Different tasks among the runs that have verified uses of a node."""
        shown, run, success = self._provenance
        low, high = np.searchsorted(shown, [node, node + 1])
        return len(np.unique(self._task_of_run[run[low:high][success[low:high] > 0]]))

    @cached_property
    def _provenance(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        table = self.graph.tables.provenance
        return table["node"].to_numpy(), table["run"].to_numpy(), table["success"].to_numpy()

    @cached_property
    def _task_of_run(self) -> np.ndarray:
        keys = self.graph.tables.runs["task_key"].combine_chunks().dictionary_encode()
        return keys.indices.to_numpy(zero_copy_only=False)

    def runs(self, node: int, limit: int = 5) -> tuple[str, ...]:
        """Ids of runs that showed a node, the first few."""
        return tuple(run.id for run in self.graph.runs_of(node)[:limit])


def _effect(name: Any) -> Effect:
    return Effect(name) if name in set(Effect) else Effect.OTHER


def _rule(node: Node, tasks: int) -> Rule | None:
    """A rule from its node; None where the condition is of a kind that this version does not know."""
    try:
        condition = parse_condition(node.data["condition"])
    except (KeyError, ValidationError):
        return None
    total = node.success + node.violated_success
    return Rule(
        node=node.index,
        condition=condition,
        support=node.success,
        exceptions=node.violated_success,
        held_failed=node.failure,
        caught=node.violated_failure,
        tasks=tasks,
        score=float(node.data.get("score", (node.success + 1) / (node.success + node.violated_success + 2))),
        false_block=float(node.data.get("false_block", node.violated_success / max(1, total))),
    )


def _repair(node: Node, count: int) -> KnownRepair:
    data = node.data
    return KnownRepair(
        node=node.index,
        kind=str(data.get("kind", "")),
        arguments=tuple(str(name) for name in data.get("arguments") or ()),
        tool=str(data.get("tool") or ""),
        times=node.success or count,
    )


def _argument_sources(actions: list[Node]) -> tuple[dict[str, tuple[tuple[str, int], ...]], dict[str, float]]:
    """Sources of each argument over all patterns of a tool, and how often it is given."""
    counts: dict[str, Counter[str]] = {}
    given: Counter[str] = Counter()
    total = 0
    for action in actions:
        total += action.success
        for name, entry in (action.data.get("arguments") or {}).items():
            given[name] += action.success
            for source, count in entry.get("sources") or ():
                counts.setdefault(name, Counter())[str(source)] += int(count)
            counts.setdefault(name, Counter())
    sources = {
        name: tuple(sorted(counter.items(), key=lambda item: (-item[1], item[0]))) for name, counter in counts.items()
    }
    return sources, {name: given[name] / total if total else 0.0 for name in counts}
