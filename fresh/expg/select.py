"""Algorithm 1 of ExpG: which experiences a summariser reads, under a token budget (arXiv 2608.03403)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from enum import StrEnum

from pydantic import BaseModel

from fresh.expg.classes import EquivalenceClass, partition
from fresh.expg.experience import Experience
from graph_schema.errors import ConfigError

DEFAULT_BUDGET = 8_000
"""Tokens of experience that one tool's summary may read."""


class Amount(StrEnum):
    """How much is known of a tool."""

    ONE = "one-shot"  # a single experience: skipped
    FEW = "few-shot"  # no more than the quota: all are kept
    MANY = "many-shot"  # more than the quota: Algorithm 1


class Selection(BaseModel):
    """What was selected for one tool, and from what."""

    experiences: list[Experience]
    amount: Amount
    quota: int
    classes: int
    given: int


def quota(lengths: Iterable[int], budget: int) -> int:
    """Q: the largest q such that the q longest experiences fit the budget together.

    Args:
        lengths: Serialised length of each experience, in tokens.
        budget: B, in tokens.
    """
    total = 0
    fitting = 0
    for length in sorted(lengths, reverse=True):
        total += length
        if total > budget:
            break
        fitting += 1
    return fitting


def allocate(sizes: Sequence[int], quota: int) -> list[int]:
    """How many to take from each class: a_1 to a_K of Algorithm 1.

    With more classes than quota, one from each of the Q largest. Else ``a_k = 1 + floor((Q - K) p_k)``, capped at
    n_k, and what is left goes one at a time in descending p_k, round after round, to classes with members left.

    Args:
        sizes: n_k, all positive; among equal sizes the earlier class goes first.
        quota: Q.

    Returns:
        a_k in the order of ``sizes``; they sum to min(Q, N).
    """
    if any(size <= 0 for size in sizes):
        raise ConfigError(f"class sizes must be positive, got {list(sizes)}")
    order = sorted(range(len(sizes)), key=lambda k: -sizes[k])
    taken = [0] * len(sizes)
    if len(sizes) > quota:
        for k in order[: max(quota, 0)]:
            taken[k] = 1
        return taken
    total = sum(sizes)
    spare = quota - len(sizes)
    for k, size in enumerate(sizes):
        taken[k] = min(size, 1 + spare * size // total)
    left = min(quota, total) - sum(taken)
    while left > 0:
        for k in order:
            if left > 0 and taken[k] < sizes[k]:
                taken[k] += 1
                left -= 1
    return taken


def sample(classes: Sequence[EquivalenceClass], amounts: Sequence[int], seed: int = 0) -> list[Experience]:
    """Draws a_k members of each class without replacement.

    Each class has its own generator, seeded by ``seed`` and its score vector, so that one class growing does not
    change what is drawn from another.
    """
    drawn: list[Experience] = []
    for group, amount in zip(classes, amounts, strict=True):
        generator = random.Random(f"{seed}:{''.join(map(str, group.scores))}")
        chosen = generator.sample(range(len(group.members)), amount)
        drawn.extend(group.members[index] for index in sorted(chosen))
    return drawn


def select_experiences(experiences: Sequence[Experience], *, budget: int = DEFAULT_BUDGET, seed: int = 0) -> Selection:
    """Selects the experiences of one tool that stand for all of them.

    One-shot tools give nothing, few-shot tools give all, many-shot tools go through :func:`allocate`.

    Args:
        experiences: Experiences of one tool, repeats already removed; their order does not matter.
        budget: B in tokens.
        seed: Of the drawing within classes.

    Raises:
        ConfigError: The budget is not positive.
    """
    if budget <= 0:
        raise ConfigError(f"the token budget must be positive, got {budget}")
    classes = partition(experiences)
    q = quota((e.tokens for e in experiences), budget)
    given = len(experiences)
    if given <= 1:
        return Selection(experiences=[], amount=Amount.ONE, quota=q, classes=len(classes), given=given)
    amount = Amount.FEW if given <= q else Amount.MANY
    sizes = [len(c.members) for c in classes]
    chosen = sample(classes, sizes if amount is Amount.FEW else allocate(sizes, q), seed)
    return Selection(experiences=chosen, amount=amount, quota=q, classes=len(classes), given=given)
