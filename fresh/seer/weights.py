"""The weights of SEER's three scores: the paper's, those of its ablations, and weights learnt from feedback."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graph_schema.errors import ConfigError
from graph_schema.trajectory import Trajectory

if TYPE_CHECKING:
    from fresh.seer.experience import Experience

_MAX_PAIRS = 2_000
"""Pairs of one query that are learnt from; more are drawn at random."""


class Score(StrEnum):
    """The three scores, as the paper numbers them."""

    TRAJECTORY = "s1"
    TOOLS = "s2"
    INTENT = "s3"


@dataclass(frozen=True, slots=True)
class Weights:
    """The lambdas of ``s = lambda_1 s1 + lambda_2 s2 + lambda_3 s3``: not negative, and 1 together.

    Raises:
        ConfigError: They are not such weights; `of` scales others.
    """

    s1: float = 1 / 3
    s2: float = 1 / 3
    s3: float = 1 / 3

    def __post_init__(self) -> None:
        values = astuple(self)
        if not all(isinstance(value, int | float) and math.isfinite(value) and value >= 0 for value in values):
            raise ConfigError(f"SEER's weights must be numbers from 0 up, got {values}")
        if not math.isclose(sum(values), 1, abs_tol=1e-6):
            raise ConfigError(f"SEER's weights must be 1 together, got {values}: Weights.of(...) scales them")

    @classmethod
    def of(cls, s1: float, s2: float, s3: float) -> Weights:
        """Scales weights so that they are 1 together.

        Raises:
            ConfigError: One is negative or no number, or all are 0.
        """
        total = s1 + s2 + s3
        if not math.isfinite(total) or total <= 0:
            raise ConfigError(f"SEER's weights must be numbers from 0 up, one of them above 0, got {(s1, s2, s3)}")
        return cls(s1 / total, s2 / total, s3 / total)

    def without(self, score: Score | str) -> Weights:
        """The ablation that drops one score; the other two keep their ratio and are 1 together.

        Raises:
            ConfigError: There is no such score, or the other two weigh nothing.
        """
        names = [field.name for field in fields(self)]
        if score not in names:
            raise ConfigError(f"SEER has no score {str(score)!r}: name one of {', '.join(names)}")
        return Weights.of(*(0.0 if name == score else float(getattr(self, name)) for name in names))

    def total(self, scores: NDArray[np.floating]) -> NDArray[np.float64]:
        """The weighted sum of scores ``[n, 3]``, ``[n]``."""
        return np.asarray(scores, dtype=np.float64) @ np.array(astuple(self))


def learn_weights(
    queries: Iterable[tuple[ArrayLike, Sequence[bool]]], *, ridge: float = 0.01, seed: int = 0
) -> Weights:
    """Learns weights from which recalled runs turned out to be of use.

    Pairwise logistic regression: of each query, every useful run should score above every other one. The loss is the
    mean over queries of ``log(1 + exp(-lambda . (useful - other)))``, with lambda from 0 up, and a ridge keeps it
    finite where the scores separate perfectly. Only the ratio of the weights is kept.

    Args:
        queries: For each query the scores of the runs, ``[n, 3]``, and which of them were of use, ``[n]``. Queries
            whose runs were all of use, or none, teach nothing.
        ridge: Weight of the squared length of lambda.
        seed: Of the pairs that are drawn where a query has more than 2000.

    Returns:
        The weights; the default ones where no score tells useful runs from others.

    Raises:
        ConfigError: The shapes do not fit, or no query has both kinds of runs.

    Source: Joachims, "Optimizing Search Engines using Clickthrough Data" (2002), with logistic loss.
    """
    rng = np.random.default_rng(seed)
    differences = [pairs for scores, useful in queries if len(pairs := _pairs(scores, useful, rng))]
    if not differences:
        raise ConfigError(
            "nothing to learn SEER's weights from: no query has runs that were of use and runs that were not"
        )
    share = np.concatenate([np.full(len(pairs), 1 / len(pairs) / len(differences)) for pairs in differences])
    found = _fit(np.concatenate(differences), share, ridge)
    return Weights.of(*found.tolist()) if found.sum() > 1e-9 else Weights()


def same_writes(run: Trajectory, writes: Container[str]) -> Callable[[Experience], bool | None]:
    """For `ExperiencePool.learn`: a stored run is of use to a run if it called the same writes.

    Args:
        run: The run, known to be good to its end.
        writes: Names of the tools that write.

    Returns:
        What says so of a stored run; None for runs of the same task, which would teach to recognise it.
    """
    own = {call.tool for _, call in run.calls() if call.tool in writes}

    def useful(experience: Experience) -> bool | None:
        if experience.task_key == run.task_key:
            return None
        return {tool for tool in experience.tools if tool in writes} == own

    return useful


def _pairs(scores: ArrayLike, useful: Sequence[bool], rng: np.random.Generator) -> NDArray[np.float64]:
    """Scores of useful runs less those of others, ``[pairs, 3]``."""
    values = np.asarray(scores, dtype=np.float64)
    marked = np.asarray(useful, dtype=np.bool_)
    if values.ndim != 2 or values.shape[1] != 3 or marked.shape != values.shape[:1]:
        raise ConfigError(
            f"SEER's weights are learnt from scores [n, 3] and a flag a run [n], got {values.shape} and {marked.shape}"
        )
    good, other = values[marked], values[~marked]
    pairs = np.arange(len(good) * len(other))
    if len(pairs) > _MAX_PAIRS:
        pairs = rng.choice(len(pairs), _MAX_PAIRS, replace=False)
    return good[pairs // max(len(other), 1)] - other[pairs % max(len(other), 1)]


def _fit(differences: NDArray[np.float64], share: NDArray[np.float64], ridge: float) -> NDArray[np.float64]:
    from scipy.optimize import minimize
    from scipy.special import expit

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margin = differences @ weights
        slope = -share * expit(-margin)
        value = share @ np.logaddexp(0, -margin) + ridge * weights @ weights
        return float(value), differences.T @ slope + 2 * ridge * weights

    result = minimize(loss, np.ones(3), jac=True, method="L-BFGS-B", bounds=[(0, None)] * 3)
    return np.maximum(result.x, 0)
