"""Which runs leave a full pool. The paper caps the pool and does not say which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class Eviction(StrEnum):
    """Policies; each takes the oldest of equals.

    ``OLDEST`` drops what came first. ``LEAST_RECALLED`` drops what was recalled in the smallest share of the recalls
    since it came, smoothed as (recalled + 1) / (recalls + 2), so that a newcomer is not judged at once.
    ``LEAST_HELPFUL`` drops what helped in the smallest share of the recalls that feedback was given on, smoothed the
    same way. ``NEAREST_DUPLICATE`` drops the older of the two runs that are most alike by the pool's own three scores
    (tool sets by Jaccard). ``LARGEST_INTENT`` drops from the class of intents that has the most runs.
    """

    OLDEST = "oldest"
    LEAST_RECALLED = "least_recalled"
    LEAST_HELPFUL = "least_helpful"
    NEAREST_DUPLICATE = "nearest_duplicate"
    LARGEST_INTENT = "largest_intent"


@dataclass(frozen=True, slots=True)
class Stock:
    """What a pool says of its runs, oldest first, for the choice of those that leave.

    Attributes:
        recalled: How often each was recalled, ``[n]``.
        chances: How many recalls there were since it came, ``[n]``.
        helped: How often it helped, ``[n]``.
        judged: How often feedback was given on it, ``[n]``.
        intents: Code of its class of intents, ``[n]``.
        likeness: Makes the likeness of every two, ``[n, n]``.
    """

    recalled: NDArray[np.int64]
    chances: NDArray[np.int64]
    helped: NDArray[np.int64]
    judged: NDArray[np.int64]
    intents: NDArray[np.int64]
    likeness: Callable[[], NDArray[np.float32]]


def leaving(policy: Eviction, stock: Stock, surplus: int) -> NDArray[np.int64]:
    """Numbers of the runs that leave, ``[surplus]``.

    Args:
        policy: How to choose.
        stock: The runs.
        surplus: How many leave; at least one stays.
    """
    if policy is Eviction.NEAREST_DUPLICATE:
        return _duplicates(stock.likeness(), surplus)
    if policy is Eviction.LARGEST_INTENT:
        return _crowded(stock.intents, surplus)
    if policy is Eviction.LEAST_RECALLED:
        worth = (stock.recalled + 1) / (stock.chances + 2)
    elif policy is Eviction.LEAST_HELPFUL:
        worth = (stock.helped + 1) / (stock.judged + 2)
    else:
        worth = np.zeros(len(stock.recalled))
    return np.argsort(worth, kind="stable")[:surplus]


def _duplicates(likeness: NDArray[np.float32], surplus: int) -> NDArray[np.int64]:
    """The older of the closest pair, then of the closest pair that is left, and so on."""
    alike = likeness.copy()
    # Each pair once, in the row of the older run, so that the row is the one to leave.
    alike[np.tril_indices_from(alike)] = -np.inf
    best = alike.max(axis=1)
    out = np.empty(surplus, dtype=np.int64)
    for i in range(surplus):
        gone = out[i] = best.argmax()
        lost = np.flatnonzero(alike[:, gone] == best)
        alike[gone] = alike[:, gone] = -np.inf
        best[lost] = alike[lost].max(axis=1)
        best[gone] = -np.inf
    return out


def _crowded(intents: NDArray[np.int64], surplus: int) -> NDArray[np.int64]:
    """The oldest of the largest class, again and again; of equally large classes the one with the oldest run."""
    queues: dict[int, list[int]] = {}
    for number, intent in enumerate(intents.tolist()):
        queues.setdefault(intent, []).append(number)
    out = []
    for _ in range(surplus):
        largest = max(queues.values(), key=lambda queue: (len(queue), -queue[0] if queue else 0))
        out.append(largest.pop(0))
    return np.array(out, dtype=np.int64)
