"""Which runs belong together, and folds that never cut such a group.

Runs of the same task share their words and identifiers, and so do tasks of the same customer. A split between them
would measure memory of names, not of experience.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Sequence

from fresh.values import leaves, normalise
from graph_schema.errors import ConfigError
from graph_schema.trajectory import Trajectory


def task_groups(trajectories: Sequence[Trajectory], subject_arguments: Iterable[str] = ()) -> list[int]:
    """Numbers the groups of runs that share a task or a subject.

    Two runs are in one group if they have the same task, if the record names the same subject, or if calls or gold
    actions of both pass the same value for an argument that names the subject; and so on along such links.

    Args:
        trajectories: The runs.
        subject_arguments: Names of arguments that say whose request it is, such as ``customer_id``.

    Returns:
        A group number for each run, in order of first appearance.
    """
    wanted = frozenset(subject_arguments)
    parent: dict[Hashable, Hashable] = {}

    def root(item: Hashable) -> Hashable:
        parent.setdefault(item, item)
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    for trajectory in trajectories:
        task = root(("task", trajectory.task_key))
        for subject in _subjects(trajectory, wanted):
            other = root(("subject", trajectory.domain, subject))
            parent[other] = task
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(root(("task", t.task_key)), len(numbers)) for t in trajectories]


def _subjects(trajectory: Trajectory, wanted: frozenset[str]) -> set[str]:
    found = {trajectory.subject.strip().lower()} if trajectory.subject else set()
    if not wanted:
        return found
    used = [call.arguments for _, call in trajectory.calls(by_user=None)]
    # The task's own solution is the surer word: a run may look up a stranger by mistake.
    gold = [action.arguments for action in trajectory.gold or ()]
    sources = gold if any(wanted & set(arguments) for arguments in gold) else used
    for arguments in sources:
        for path, value in leaves(arguments or {}):
            text = normalise(value)
            if path in wanted and text:
                found.add(text)
    return found


def folds(groups: Sequence[int], count: int, seed: int = 0) -> list[int]:
    """Deals groups into folds of about equal numbers of runs.

    Args:
        groups: Group of each run.
        count: Number of folds, at least 2.
        seed: Changes which groups go together.

    Returns:
        Fold of each run, 0 to ``count - 1``.

    Raises:
        ConfigError: Fewer groups than folds.
    """
    distinct = sorted(set(groups))
    if count < 2 or len(distinct) < count:
        raise ConfigError(
            f"{count} folds need at least 2 and no more than the {len(distinct)} groups of tasks there are: "
            "give more runs or fewer folds"
        )
    sizes = dict.fromkeys(distinct, 0)
    for group in groups:
        sizes[group] += 1
    order = sorted(distinct, key=lambda group: hashlib.sha256(f"{seed}/{group}".encode()).digest())
    order.sort(key=lambda group: -sizes[group])
    load = [0] * count
    placed: dict[int, int] = {}
    for group in order:
        fold = min(range(count), key=lambda i: (load[i], i))
        placed[group] = fold
        load[fold] += sizes[group]
    return [placed[group] for group in groups]
