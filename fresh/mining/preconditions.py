"""Preconditions: what separates verified from failed uses of the same write.

Each use of a write leaves its evidence (`fresh.mining.use`). What held in nearly every verified use, and less often in
failed ones, is a precondition of the write.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fresh.conditions import Asked, AtMost, CalledBefore, Condition, FieldIs, Grounded, Never, ReadBefore, SameCount
from fresh.mining.candidates import FieldTasks, candidates
from fresh.mining.field_rules import field_rules
from fresh.mining.use import Use, held_in


@dataclass(frozen=True)
class Thresholds:
    """When a condition is kept, and when it is enforced.

    Attributes:
        support: Verified uses in which it held, at least.
        tasks: Different tasks among those uses, at least.
        natural_tasks: As ``tasks``, for requirements by their nature: a look at the very object, a value that was said
            or seen.
        picked_tasks: Tasks from which on a gate enforces a condition that was picked out of many possible ones because
            it fitted: some fit by chance.
        uncontested_tasks: As ``picked_tasks``, where failed uses break it no more often than verified ones, so that
            agreement is all there is.
        necessity: Share of verified uses in which it held (of those where it can be decided), at least.
        contrast: How much more often it failed to hold in failed uses than in verified ones, at least, for conditions
            that are not requirements by their nature.
    """

    support: int = 3
    tasks: int = 3
    natural_tasks: int = 2
    picked_tasks: int = 8
    uncontested_tasks: int = 14
    necessity: float = 0.9
    contrast: float = 0.1


@dataclass(frozen=True)
class MinedCondition:
    """A condition with its four counts over decided uses: by run for provenance, by task for what is independent."""

    tool: str
    condition: Condition
    held: tuple[int, int]
    violated: tuple[int, int]
    by_run: dict[str, tuple[int, int, int, int]]
    patterns: frozenset[str]
    tasks: int
    by_task: dict[str, tuple[int, int, int, int]]

    @property
    def necessity(self) -> float:
        """Share of verified uses in which it held."""
        return _share(self.held[0], self.violated[0])

    @property
    def caught(self) -> float:
        """Share of failed uses in which it did not hold."""
        return _share(self.violated[1], self.held[1])

    @property
    def confidence(self) -> float:
        """Share of verified uses among those in which it held."""
        return _share(*self.held)

    @property
    def lift(self) -> float:
        """Confidence over the tool's own share of verified uses; 1 means it tells nothing."""
        base = _share(self.held[0] + self.violated[0], self.held[1] + self.violated[1])
        return self.confidence / base if base else 0.0

    @property
    def contrast(self) -> float:
        """How much more often it did not hold in failed uses than in verified ones."""
        return self.caught - (1 - self.necessity)


def _share(part: int, rest: int) -> float:
    return part / (part + rest) if part + rest else 0.0


def mine_preconditions(uses: Iterable[Use], thresholds: Thresholds, reads: frozenset[str]) -> list[MinedCondition]:
    """Conditions worth keeping, by tool.

    Args:
        uses: Every use of every write.
        thresholds: When a condition is kept.
        reads: Tools that only read: a condition asks for nothing but a read first.
    """
    by_tool: dict[str, list[Use]] = defaultdict(list)
    for use in uses:
        if use.sign:
            by_tool[use.tool].append(use)
    anywhere: FieldTasks = defaultdict(lambda: defaultdict(set))
    for use in itertools.chain.from_iterable(by_tool.values()):
        for (_, path), values in use.fields.items():
            for value in set(values) if path else ():
                anywhere[path][value].add(use.task)
    mined: list[MinedCondition] = []
    for tool in sorted(by_tool):
        others = [use for name, found in by_tool.items() if name != tool for use in found]
        mined += _mine_tool(tool, by_tool[tool], others, thresholds, reads, anywhere)
    return mined


def _mine_tool(
    tool: str,
    uses: list[Use],
    others: Sequence[Use],
    thresholds: Thresholds,
    reads: frozenset[str],
    anywhere: FieldTasks,
) -> list[MinedCondition]:
    verified = [use for use in uses if use.sign > 0]
    if len(verified) < thresholds.support:
        return []
    kept: list[MinedCondition] = []
    errors = frozenset(use.error for use in uses if use.error)
    found = candidates(verified, others, reads, errors, anywhere, thresholds.support)
    for condition in [*found, *field_rules(uses)]:
        mined = _count(tool, condition, uses)
        if _worth_keeping(mined, thresholds) and not _follows_from(condition, kept):
            kept.append(mined)
    return kept


def _worth_keeping(mined: MinedCondition, thresholds: Thresholds) -> bool:
    if mined.held[0] < thresholds.support or mined.necessity < thresholds.necessity:
        return False
    if mined.tasks < (thresholds.natural_tasks if _is_natural(mined.condition) else thresholds.tasks):
        return False
    return not isinstance(mined.condition, CalledBefore) or mined.contrast >= thresholds.contrast


def _is_natural(condition: Condition) -> bool:
    """Whether a condition is a requirement by its nature, whatever the tool."""
    match condition:
        case ReadBefore() | Grounded() | Asked(by_name=True):
            return True
    return False


def enforceable(mined: Sequence[MinedCondition], thresholds: Thresholds) -> list[bool]:
    """Whether enough tasks stand behind each condition for a gate to enforce it.

    The same condition on several tools (an argument and its anchor have the same names everywhere) is one custom of the
    place: where a tool's own uses never broke it, the tasks of the others count with its own.
    """
    tasks: dict[Condition, set[str]] = defaultdict(set)
    contrast: dict[Condition, float] = defaultdict(float)
    for item in mined:
        tasks[item.condition] |= {task for task, counts in item.by_task.items() if counts[0]}
        contrast[item.condition] = max(contrast[item.condition], item.contrast)

    def enough(item: MinedCondition) -> bool:
        if _is_natural(item.condition) or isinstance(item.condition, Never):
            return True
        if isinstance(item.condition, FieldIs) and item.condition.error:
            return True
        shared = not item.violated[0]
        known = len(tasks[item.condition]) if shared else item.tasks
        contested = (contrast[item.condition] if shared else item.contrast) >= thresholds.contrast
        if not contested:
            return known >= thresholds.uncontested_tasks
        return isinstance(item.condition, SameCount | AtMost) or known >= thresholds.picked_tasks

    return [enough(item) for item in mined]


def _follows_from(condition: Condition, kept: list[MinedCondition]) -> bool:
    """Having called a tool at all follows from having called it with the same value."""
    if not isinstance(condition, CalledBefore):
        return False
    return any(isinstance(k.condition, ReadBefore) and k.condition.tool == condition.tool for k in kept)


def _count(tool: str, condition: Condition, uses: list[Use]) -> MinedCondition:
    totals = [0, 0, 0, 0]
    by_run: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    by_task: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    patterns = set()
    for use in uses:
        held = held_in(condition, use)
        if held is None:
            continue
        cell = (0 if held else 2) + (0 if use.sign > 0 else 1)
        totals[cell] += 1
        by_run[use.run][cell] += 1
        by_task[use.task][cell] += 1
        patterns.add(use.pattern)
    return MinedCondition(
        tool=tool,
        condition=condition,
        held=(totals[0], totals[1]),
        violated=(totals[2], totals[3]),
        by_run={run: (c[0], c[1], c[2], c[3]) for run, c in by_run.items()},
        patterns=frozenset(patterns),
        tasks=sum(counts[0] > 0 for counts in by_task.values()),
        by_task={task: (c[0], c[1], c[2], c[3]) for task, c in by_task.items()},
    )
