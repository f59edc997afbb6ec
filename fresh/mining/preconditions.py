"""Preconditions: what separates verified from failed uses of the same write.

Each use of a write leaves its evidence: which conditions held on the history before it. What held in nearly every
verified use, and less often in failed ones, is a precondition of the write.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from fresh.conditions import CalledBefore, Condition, Confirmed, FieldIs, Grounded, ReadBefore, Within
from fresh.history import History
from fresh.mining.patterns import choice_at
from fresh.values import argument_leaves, is_data_key, is_reference, normalise
from graph_schema.trajectory import CallStatus, ToolCall

_MAX_FIELDS = 40
_MAX_USUAL = 2
_CHANCE = 0.05
"""A state is required only if so much agreement by chance, over all fields and values tried, is less likely: the usual
level, Bonferroni-corrected. The gate asks for contrast with failed uses on top."""


FieldTasks = dict[str, dict[str, set[str]]]
"""For a field's path and value, the tasks in which a write's object had it."""


@dataclass(frozen=True)
class Use:
    """Evidence from one use of a write.

    Attributes:
        run: Run id.
        task: Whose request it was, else the task; what is seen with one customer only says nothing of the tool.
        tool: The write.
        pattern: Its action pattern.
        sign: +1 verified, -1 failed, 0 unknown.
        arguments: Paths of the arguments given, each with whether it holds identifiers.
        reads: ``(tool, parameter, argument)`` of earlier successful calls that took an argument's value.
        called: Tools with an earlier successful call.
        confirmed: The user's latest words agree.
        grounded: For each identifier argument, whether all its values were said or seen.
        within: For ``(argument, anchor, via)`` whose object was seen, whether the values stand inside it.
        fields: For ``(argument, path)``, the choice-like value in the object the argument names.
    """

    run: str
    task: str
    tool: str
    pattern: str
    sign: int
    arguments: dict[str, bool]
    reads: frozenset[tuple[str, str, str]]
    called: frozenset[str]
    confirmed: bool
    grounded: dict[str, bool] = field(default_factory=dict)
    within: dict[tuple[str, str, str], bool] = field(default_factory=dict)
    fields: dict[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True)
class Thresholds:
    """When a condition is kept.

    Attributes:
        support: Verified uses in which it held, at least.
        tasks: Different tasks among those uses, at least.
        necessity: Share of verified uses in which it held (of those where it can be decided), at least.
        contrast: How much more often it failed to hold in failed uses than in verified ones, at least, for conditions
            that are not requirements by their nature.
    """

    support: int = 3
    tasks: int = 3
    necessity: float = 0.9
    contrast: float = 0.1


@dataclass(frozen=True)
class MinedCondition:
    """A condition with its four counts over decided uses, by run for provenance."""

    tool: str
    condition: Condition
    held: tuple[int, int]
    violated: tuple[int, int]
    by_run: dict[str, tuple[int, int, int, int]]
    patterns: frozenset[str]
    tasks: int

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


def _share(part: int, rest: int) -> float:
    return part / (part + rest) if part + rest else 0.0


def use_evidence(run: str, task: str, call: ToolCall, pattern: str, sign: int, history: History) -> Use:
    """What the history before a write says of it."""
    arguments = call.arguments or {}
    values: dict[str, list[Any]] = defaultdict(list)
    for path, value in argument_leaves(arguments):
        if value not in (None, ""):
            values[path].append(value)
    answered = [c for _, c in history.calls if c.status is CallStatus.OK]
    named = {path: [v for v in found if is_reference(path, v)] for path, found in values.items()}
    return Use(
        run=run,
        task=task,
        tool=call.tool,
        pattern=pattern,
        sign=sign,
        arguments={path: bool(named[path]) for path in values},
        reads=frozenset(_reads(values, answered)),
        called=frozenset(c.tool for c in answered if c.tool != call.tool),
        confirmed=history.confirmed(),
        grounded={p: all(history.origin(v).kind != "nowhere" for v in ids) for p, ids in named.items() if ids},
        within=_within(named, history),
        fields=_fields(named, history),
    )


def _reads(values: dict[str, list[Any]], answered: list[ToolCall]) -> Iterable[tuple[str, str, str]]:
    taken: dict[tuple[str, str], set[str]] = defaultdict(set)
    for call in answered:
        for parameter, value in (call.arguments or {}).items():
            key = normalise(value)
            if key is not None and len(key) > 1:
                taken[call.tool, parameter].add(key)
    for path, wanted in values.items():
        keys = {normalise(value) for value in wanted if is_reference(path, value)}
        if not keys:
            continue
        for (tool, parameter), known in taken.items():
            if keys <= known:
                yield tool, parameter, path


def _within(named: dict[str, list[Any]], history: History) -> dict[tuple[str, str, str], bool]:
    result = {}
    for anchor, anchors in named.items():
        if len(anchors) != 1 or "[]" in anchor:
            continue
        for via, found in _owners(anchors[0], history):
            inside = history.index.references_in(found)
            if len(inside) < 2:
                continue  # only the name itself
            for argument, values in named.items():
                if argument != anchor and values:
                    result[argument, anchor, via] = all(normalise(value) in inside for value in values)
    return result


def _owners(name: Any, history: History) -> Iterable[tuple[str, dict[str, Any]]]:
    """The object an identifier names, and the objects that its own fields name."""
    found = history.object_of(name)
    if found is None:
        return
    yield "", found[1]
    for path, value in found[1].items():
        if is_reference(str(path), value) and normalise(value) != normalise(name):
            other = history.object_of(value)
            if other is not None and other[1] is not found[1]:
                yield path, other[1]


def _fields(named: dict[str, list[Any]], history: History) -> dict[tuple[str, str], str]:
    result: dict[tuple[str, str], str] = {}
    for argument, values in named.items():
        found = history.object_of(values[0]) if len(values) == 1 else None
        if found is None:
            continue
        for path, value in list(_plain_fields(found[1]))[:_MAX_FIELDS]:
            text = choice_at(path, value)
            if text is not None:
                result[argument, path] = text
    return result


def _plain_fields(data: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    for key, value in data.items():
        if is_data_key(str(key)):
            continue
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", v) for inner, v in value.items() if not isinstance(v, (dict, list)))
        elif not isinstance(value, list):
            yield key, value


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
        for (_, path), value in use.fields.items():
            anywhere[path][value].add(use.task)
    mined: list[MinedCondition] = []
    for tool in sorted(by_tool):
        mined += _mine_tool(tool, by_tool[tool], thresholds, reads, anywhere)
    return mined


def _mine_tool(
    tool: str,
    uses: list[Use],
    thresholds: Thresholds,
    reads: frozenset[str],
    anywhere: FieldTasks,
) -> list[MinedCondition]:
    verified = [use for use in uses if use.sign > 0]
    if len(verified) < thresholds.support:
        return []
    kept: list[MinedCondition] = []
    for condition in _candidates(verified, reads, thresholds, anywhere):
        mined = _count(tool, condition, uses)
        if mined.held[0] < thresholds.support or mined.necessity < thresholds.necessity:
            continue
        if mined.tasks < thresholds.tasks or _follows_from(condition, kept):
            continue
        contrast = mined.caught - (1 - mined.necessity)
        if _needs_contrast(condition) and contrast < thresholds.contrast:
            continue
        kept.append(mined)
    return kept


def _candidates(
    verified: list[Use], reads: frozenset[str], thresholds: Thresholds, anywhere: FieldTasks
) -> list[Condition]:
    """Conditions that held in enough verified uses, requirements by nature first."""
    seen_reads = Counter(item for use in verified for item in use.reads if item[0] in reads)
    arguments = Counter(path for use in verified for path, named in use.arguments.items() if named)
    within = Counter(pair for use in verified for pair, inside in use.within.items() if inside)
    called = Counter(name for use in verified for name in use.called if name in reads)
    found: list[Condition] = [Confirmed()]
    found += [ReadBefore(tool=t, parameter=p, argument=a) for t, p, a in _frequent(seen_reads, thresholds)]
    found += [Grounded(argument=path) for path in _frequent(arguments, thresholds)]
    found += [Within(argument=a, anchor=b, via=v) for a, b, v in _frequent(within, thresholds)]
    found += _field_conditions(verified, anywhere)
    found += [CalledBefore(tool=name) for name in _frequent(called, thresholds)]
    return found


def _frequent(counter: Counter[Any], thresholds: Thresholds) -> list[Any]:
    return sorted(item for item, count in counter.items() if count >= thresholds.support)


def _field_conditions(verified: list[Use], anywhere: FieldTasks) -> list[Condition]:
    """Fields on which the verified uses of many tasks agree, more than the same field's spread elsewhere explains."""
    by_field: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for use in verified:
        for where, value in use.fields.items():
            by_field[where][value].add(use.task)
    found: list[Condition] = []
    for (argument, path), by_value in sorted(by_field.items()):
        usual = sorted(value for value, seen in by_value.items() if len(seen) >= 2)
        if not 1 <= len(usual) <= _MAX_USUAL:
            continue
        known = anywhere[path]
        share = sum(len(known[value]) for value in usual) / sum(len(seen) for seen in known.values())
        tries = len(by_field) * math.comb(len(known), len(usual))
        if tries * share ** len(set().union(*by_value.values())) < _CHANCE:
            found.append(FieldIs(argument=argument, path=path, values=tuple(usual)))
    return found


def _follows_from(condition: Condition, kept: list[MinedCondition]) -> bool:
    """Having called a tool at all follows from having called it with the same value."""
    if not isinstance(condition, CalledBefore):
        return False
    return any(isinstance(k.condition, ReadBefore) and k.condition.tool == condition.tool for k in kept)


def _needs_contrast(condition: Condition) -> bool:
    """A read of the very object, its grounding and the user's yes are requirements even where no failure shows it."""
    return isinstance(condition, CalledBefore | FieldIs)


def _count(tool: str, condition: Condition, uses: list[Use]) -> MinedCondition:
    totals = [0, 0, 0, 0]
    by_run: dict[str, list[int]] = {}
    patterns, tasks = set(), set()
    for use in uses:
        held = held_in(condition, use)
        if held is None:
            continue
        cell = (0 if held else 2) + (0 if use.sign > 0 else 1)
        totals[cell] += 1
        by_run.setdefault(use.run, [0, 0, 0, 0])[cell] += 1
        patterns.add(use.pattern)
        if held and use.sign > 0:
            tasks.add(use.task)
    return MinedCondition(
        tool=tool,
        condition=condition,
        held=(totals[0], totals[1]),
        violated=(totals[2], totals[3]),
        by_run={run: (c[0], c[1], c[2], c[3]) for run, c in by_run.items()},
        patterns=frozenset(patterns),
        tasks=len(tasks),
    )


def held_in(condition: Condition, use: Use) -> bool | None:
    """Whether a condition held in a use, from its evidence; agrees with `Condition.holds` on the history itself."""
    match condition:
        case Confirmed():
            return use.confirmed
        case ReadBefore():
            if not use.arguments.get(condition.argument):
                return None
            return (condition.tool, condition.parameter, condition.argument) in use.reads
        case CalledBefore():
            return condition.tool in use.called
        case Grounded():
            return use.grounded.get(condition.argument)
        case Within():
            return use.within.get((condition.argument, condition.anchor, condition.via))
        case FieldIs():
            value = use.fields.get((condition.argument, condition.path))
            return None if value is None else value in condition.values
