"""How far a mined condition can be trusted: what conditions like it did on tasks that they were not mined from.

Conditions are mined anew from all but one part of the tasks and held against the part left out. Conditions of one kind
and one strength share their record, each adds its own counts to it, and so every condition gets a score (the chance
that a use which breaks it is wrong) and a false-block rate (the share of right uses that would be held back if it and
all conditions with a higher score were enforced). A gate is then told a false-block rate, not a threshold.
"""

from __future__ import annotations

import bisect
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fresh.mining.preconditions import MinedCondition, Thresholds, enforceable, mine_preconditions
from fresh.mining.use import Use, held_in

FOLDS = 5
_BASE_FALSE, _BASE_CAUGHT = 0.05, 0.1
"""What a kind without any record is given: one right use in twenty broken, one wrong use in ten caught."""
_WEIGHT = 10.0
"""How many tasks the wider record counts for beside the narrower one."""
_TIERS = (3, 5, 10, 20)


@dataclass(frozen=True)
class Trust:
    """How far a condition can be trusted.

    Attributes:
        score: Chance that a use which breaks it is wrong, at even odds, 0 to 1: how much likelier wrong uses break it
            than right ones. How many writes will be wrong is for the agent to show, not for the memory.
        false_block: Share of right uses held back if it and all conditions with a higher score are enforced; 1 where
            too few tasks stand behind it for that.
    """

    score: float
    false_block: float


@dataclass
class _Record:
    """Right and wrong uses on which conditions were decided, and those of them that broke one; a task counts once."""

    right: float = 0.0
    right_broken: float = 0.0
    wrong: float = 0.0
    wrong_broken: float = 0.0

    def add(self, counts: Sequence[int]) -> None:
        """Adds one task's counts, as `MinedCondition` has them: held and broken, each by right and wrong uses."""
        held_right, held_wrong, broken_right, broken_wrong = counts
        if held_right + broken_right:
            self.right += 1
            self.right_broken += broken_right / (held_right + broken_right)
        if held_wrong + broken_wrong:
            self.wrong += 1
            self.wrong_broken += broken_wrong / (held_wrong + broken_wrong)

    def rates(self, false: float, caught: float, weight: float) -> tuple[float, float]:
        """Share of right and of wrong uses that broke it, drawn towards what is expected."""
        return (
            (self.right_broken + weight * false) / (self.right + weight),
            (self.wrong_broken + weight * caught) / (self.wrong + weight),
        )


def calibrate(
    uses: Sequence[Use], mined: Sequence[MinedCondition], thresholds: Thresholds, reads: frozenset[str]
) -> list[Trust]:
    """Trust in each mined condition, in their order.

    Args:
        uses: The uses that the conditions were mined from.
        mined: The conditions.
        thresholds: With which they were mined.
        reads: Tools that only read.
    """
    known = [use for use in uses if use.sign]
    tried = _held_out(known, thresholds, reads)
    kinds: dict[str, _Record] = defaultdict(_Record)
    strengths: dict[_Strength, _Record] = defaultdict(_Record)
    for condition, counts in _by_task(tried):
        kinds[condition.condition.kind].add(counts)
        strengths[_strength(condition)].add(counts)

    def score(condition: MinedCondition) -> float:
        rates = kinds[condition.condition.kind].rates(_BASE_FALSE, _BASE_CAUGHT, _WEIGHT)
        rates = strengths[_strength(condition)].rates(*rates, _WEIGHT)
        own = _Record()
        for counts in condition.by_task.values():
            own.add(counts)
        false, caught = own.rates(*rates, _WEIGHT)
        return round(caught / (caught + false), 4)

    cost = _false_blocks(known, tried, score)
    return [
        Trust(value, cost(value) if enough else 1.0)
        for value, enough in zip(map(score, mined), enforceable(mined, thresholds), strict=True)
    ]


_Tried = tuple[MinedCondition, Use, bool]
_Strength = tuple[str, int, bool]


def _by_task(tried: Sequence[_Tried]) -> Iterator[tuple[MinedCondition, list[int]]]:
    """Held and broken uses, as `MinedCondition` counts them, of each condition and task."""
    found: dict[tuple[int, str], tuple[MinedCondition, list[int]]] = {}
    for condition, use, broken in tried:
        counts = found.setdefault((id(condition), use.task), (condition, [0, 0, 0, 0]))[1]
        counts[2 * broken + (use.sign < 0)] += 1
    yield from found.values()


def _held_out(uses: Sequence[Use], thresholds: Thresholds, reads: frozenset[str]) -> list[_Tried]:
    """``(condition, use, broken)`` for conditions mined without the use's task, where they could be decided."""
    parts: dict[int, list[Use]] = defaultdict(list)
    for use in uses:
        parts[_part(use.task)].append(use)
    found: list[_Tried] = []
    for part, held_out in sorted(parts.items()):
        by_tool: dict[str, list[MinedCondition]] = defaultdict(list)
        inside = [use for other, others in parts.items() if other != part for use in others]
        found_inside = mine_preconditions(inside, thresholds, reads)
        for condition, enough in zip(found_inside, enforceable(found_inside, thresholds), strict=True):
            if enough:
                by_tool[condition.tool].append(condition)
        for use in held_out:
            for condition in by_tool[use.tool]:
                held = held_in(condition.condition, use)
                if held is not None:
                    found.append((condition, use, not held))
    return found


def _part(task: str) -> int:
    return hashlib.blake2b(task.encode(), digest_size=4).digest()[0] % FOLDS


def _strength(condition: MinedCondition) -> _Strength:
    """Kind, how many tasks stand behind it, and whether any failed use broke it."""
    tier = sum(condition.tasks >= bound for bound in _TIERS)
    return condition.condition.kind, tier, condition.violated[1] > 0


def _false_blocks(
    uses: Sequence[Use], tried: Sequence[_Tried], score: Callable[[MinedCondition], float]
) -> Callable[[float], float]:
    """Share of right uses that conditions with at least a score broke, on tasks they were not mined from."""
    worst = {id(use): 0.0 for use in uses if use.sign > 0}
    for condition, use, broken in tried:
        if broken and use.sign > 0:
            worst[id(use)] = max(worst[id(use)], score(condition))
    scores = sorted(value for value in worst.values() if value)

    def share(value: float) -> float:
        count = len(scores) - bisect.bisect_left(scores, value)
        return round(count / max(1, len(worst)), 5)

    return share
