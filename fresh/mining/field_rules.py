"""Field predicates by contrast: states of the objects in which a write has failed and never been right.

A shallow decision tree (scikit-learn) parts failed from verified uses by the fields of the objects that the call names
and by the call's own choices. Each leaf without verified uses, if enough tasks stand behind it, is read off as a
conjunction of at most three predicates and pruned to what a person can read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from fresh.conditions import FieldTest, Never
from fresh.conditions.fields import unless_all
from fresh.conditions.parts import as_number
from fresh.mining.use import PARTICULAR, Use, observed

_MAX_TESTS = 3
_MIN_TASKS = 3
_MIN_VERIFIED = 5
"""Tasks with verified uses that must be decided and clear of a rule: what has hardly been done right proves nothing."""
_CHANCE = 0.05
_MAX_FEATURES = 120


def field_rules(uses: Sequence[Use]) -> list[Never]:
    """Conjunctions under which a tool has failed and never been right, one set for each way it fails.

    Args:
        uses: Verified and failed uses of one tool.
    """
    verified = [use for use in uses if use.sign > 0]
    if len({use.task for use in verified}) < _MIN_VERIFIED:
        return []
    ways: dict[str, list[Use]] = defaultdict(list)
    for use in uses:
        if use.sign < 0:
            ways[use.error].append(use)
    found: dict[tuple[FieldTest, ...], Never] = {}
    for error, failed in sorted(ways.items()):
        if len({use.task for use in failed}) >= _MIN_TASKS:
            for tests in _leaves(verified, failed):
                found.setdefault(tests, Never(tests=tests, error=error))
    return list(found.values())


def _leaves(verified: Sequence[Use], failed: Sequence[Use]) -> Iterator[tuple[FieldTest, ...]]:
    """The tree's leaves that hold failed uses only, as pruned conjunctions."""
    import numpy as np
    from sklearn.tree import DecisionTreeClassifier

    tests = _tests([*verified, *failed])
    if not tests:
        return
    rows = np.array([[_fits(test, use) is True for test in tests] for use in (*verified, *failed)], dtype=np.float32)
    labels = np.array([0] * len(verified) + [1] * len(failed))
    tree = DecisionTreeClassifier(max_depth=_MAX_TESTS, min_samples_leaf=_MIN_TASKS, random_state=0)
    tree.fit(rows, labels)
    for path in _paths(tree.tree_, tests):
        pruned = _pruned(path, verified, failed)
        if pruned and _proven(pruned, verified, failed):
            yield pruned


def _tests(uses: Sequence[Use]) -> list[FieldTest]:
    """Predicates to choose from: each common value of each field, the middle between numbers, presence."""
    seen: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for use in uses:
        for where, values in use.fields.items():
            seen[where].update(set(values) - {"", PARTICULAR})
    found: list[FieldTest] = []
    for (argument, path), counts in sorted(seen.items()):
        numbers = sorted({number for value in counts if (number := as_number(value)) is not None})
        if len(numbers) > 1 and len(numbers) == len(counts):
            for cut in _cuts(numbers):
                found.append(FieldTest(argument=argument, path=path, op="at_least", number=cut))
            continue
        for value, count in sorted(counts.items()):
            if count >= _MIN_TASKS:
                found.append(FieldTest(argument=argument, path=path, op="is", values=(value,)))
    for argument, path in sorted({(a, p) for use in uses for a, paths in use.shown.items() for p in paths}):
        having = [path in use.shown[argument] for use in uses if argument in use.shown]
        if _MIN_TASKS <= sum(having) <= len(having) - _MIN_TASKS:
            found.append(FieldTest(argument=argument, path=path, op="missing"))
    return found[:_MAX_FEATURES]


def _cuts(numbers: Sequence[float]) -> list[float]:
    """Up to three cuts between observed numbers, rounded so that none is anybody's own figure."""
    places = {len(numbers) // 4, len(numbers) // 2, 3 * len(numbers) // 4} - {0}
    return sorted({float(f"{(numbers[i - 1] + numbers[i]) / 2:.2g}") for i in places})


def _fits(test: FieldTest, use: Use) -> bool | None:
    return test.fits(observed(use, test.argument, test.path))


_OPPOSITE = {"is": "is_not", "at_least": "at_most", "missing": "present"}


def _paths(tree: object, tests: Sequence[FieldTest]) -> Iterator[tuple[FieldTest, ...]]:
    """Conjunctions on the way to each leaf in which failures prevail."""
    left, right = tree.children_left, tree.children_right  # type: ignore[attr-defined]
    stack: list[tuple[int, tuple[FieldTest, ...]]] = [(0, ())]
    while stack:
        node, path = stack.pop()
        if left[node] < 0:
            share = tree.value[node][0]  # type: ignore[attr-defined]
            if path and share[1] > share[0]:
                yield path
            continue
        test = tests[tree.feature[node]]  # type: ignore[attr-defined]
        stack.append((right[node], (*path, test)))
        stack.append((left[node], (*path, test.model_copy(update={"op": _OPPOSITE[test.op]}))))


def _pruned(path: tuple[FieldTest, ...], verified: Sequence[Use], failed: Sequence[Use]) -> tuple[FieldTest, ...]:
    """The conjunction without predicates that part nothing."""
    for test in path:
        shorter = tuple(other for other in path if other is not test)
        if shorter and _hits(shorter, verified) <= _hits(path, verified):
            path = shorter
    return path


def _hits(tests: tuple[FieldTest, ...], uses: Sequence[Use]) -> int:
    return sum(_violated(tests, use) for use in uses)


def _violated(tests: tuple[FieldTest, ...], use: Use) -> bool:
    return unless_all(_fits(test, use) for test in tests) is False


def _proven(tests: tuple[FieldTest, ...], verified: Sequence[Use], failed: Sequence[Use]) -> bool:
    """Whether failures of several tasks fall under it, no verified use does, and chance would not do that."""
    if _hits(tests, verified):
        return False
    decided = {use.task for use in verified if all(_fits(test, use) is not None for test in tests)}
    caught = {use.task for use in failed if _violated(tests, use)}
    if len(caught) < _MIN_TASKS or len(decided) < _MIN_VERIFIED:
        return False
    tasks = len(decided) + len({use.task for use in failed})
    share = len(caught) / tasks
    return (1 - share) ** len(decided) < _CHANCE
