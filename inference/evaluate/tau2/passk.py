"""pass^k over tasks, with bootstrap intervals.

pass^k (Yao et al., tau-bench, 2024, section 3): the chance that all of k runs of a task succeed, estimated from n runs
with c successes without bias as ``C(c, k) / C(n, k)`` and averaged over tasks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from graph_schema.errors import ConfigError

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over tasks with its bootstrap interval (percentile, resampling tasks)."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def pass_hat_k(runs: int, successes: int, k: int) -> float:
    """The unbiased estimate of pass^k for one task.

    Args:
        runs: Runs of the task, n.
        successes: Successful ones among them, c.
        k: How many runs must all succeed.

    Raises:
        ConfigError: k is not between 1 and n, or c is not between 0 and n.
    """
    if not 1 <= k <= runs:
        raise ConfigError(f"pass^{k} needs at least {k} runs of a task; there are {runs}")
    if not 0 <= successes <= runs:
        raise ConfigError(f"{successes} successes in {runs} runs")
    return math.comb(successes, k) / math.comb(runs, k)


def pass_table(outcomes: Mapping[str, Sequence[bool]], *, resamples: int, seed: int) -> dict[int, Estimate]:
    """pass^1 to pass^n, n the fewest runs of a task.

    Args:
        outcomes: Success of each run, by task.
        resamples: Bootstrap resamples.
        seed: Seed of the resampling.

    Raises:
        ConfigError: There are no tasks, or one has no runs.
    """
    deepest = min((len(runs) for runs in outcomes.values()), default=0)
    if deepest == 0:
        raise ConfigError("there are no runs to take pass^k of")
    return {
        k: interval([pass_hat_k(len(runs), sum(runs), k) for runs in outcomes.values()], resamples=resamples, seed=seed)
        for k in range(1, deepest + 1)
    }


def pass_gain(
    before: Mapping[str, Sequence[bool]],
    after: Mapping[str, Sequence[bool]],
    *,
    resamples: int,
    seed: int,
) -> dict[int, Estimate]:
    """The paired difference of pass^k, task by task.

    Args:
        before: Success of each run, by task.
        after: The same tasks again.
        resamples: Bootstrap resamples.
        seed: Seed of the resampling.

    Raises:
        ConfigError: The two do not hold the same tasks.
    """
    if before.keys() != after.keys():
        raise ConfigError("a paired difference needs the same tasks on both sides")
    deepest = min((len(runs) for side in (before, after) for runs in side.values()), default=0)
    gains = {}
    for k in range(1, deepest + 1):
        differences = [
            pass_hat_k(len(after[task]), sum(after[task]), k) - pass_hat_k(len(before[task]), sum(before[task]), k)
            for task in before
        ]
        gains[k] = interval(differences, resamples=resamples, seed=seed)
    return gains


def interval(values: Sequence[float], *, resamples: int, seed: int) -> Estimate:
    """The mean of per-task values with its bootstrap interval.

    Args:
        values: One value a task; at least one.
        resamples: Bootstrap resamples.
        seed: Seed of the resampling.
    """
    import numpy as np
    from scipy.stats import bootstrap

    sample = np.asarray(values, dtype=float)
    mean = float(sample.mean())
    if len(sample) < 2 or np.all(sample == sample[0]):  # every resample is the same
        return Estimate(mean, mean, mean)
    found = bootstrap(
        (sample,),
        np.mean,
        n_resamples=resamples,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Estimate(mean, float(found.low), float(found.high))


def feasible_counts(pass_hat: Sequence[float], tasks: int, *, digits: int = 3) -> list[tuple[int, ...]]:
    """From pass^1 to pass^n over tasks run n times each: how many tasks can have been won n, ..., 2, 1 times.

    pass^k times the number of tasks is the sum over c of the tasks won c times, each counted C(c, k) / C(n, k): pass^n
    fixes, up to rounding, the tasks won n times; with these, the next value fixes those won n - 1 times, and so on. The
    sums are exact, and a value that lies just between two printed ones may have been rounded either way.

    Args:
        pass_hat: pass^1 to pass^n, as printed.
        tasks: Number of tasks.
        digits: Decimal places they were rounded to.

    Returns:
        Every ``(won n times, ..., won once)`` that gives all the values; none where no counts do.

    Raises:
        ConfigError: There are no values, one is not a share, or there are no tasks.
    """
    if tasks < 1:
        raise ConfigError(f"{tasks} tasks: a share needs at least one")
    if not pass_hat or not all(0 <= value <= 1 for value in pass_hat):
        raise ConfigError(f"pass^1 to pass^n are shares between 0 and 1, not {list(pass_hat)}")
    half = Fraction(1, 2 * 10**digits)
    printed = [Fraction(f"{value:.{digits}f}") for value in pass_hat]
    return list(_counts([(value - half, value + half) for value in printed], tasks, ()))


def _counts(
    ranges: Sequence[tuple[Fraction, Fraction]], tasks: int, known: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """The counts that begin with those known, from the most wins down."""
    runs = len(ranges)
    wins = runs - len(known)
    if wins == 0:
        yield known
        return
    so_far = sum(count * Fraction(math.comb(runs - i, wins), math.comb(runs, wins)) for i, count in enumerate(known))
    low, high = ((end * tasks - so_far) * math.comb(runs, wins) for end in ranges[wins - 1])
    for count in range(max(0, math.ceil(low)), min(tasks - sum(known), math.floor(high)) + 1):
        yield from _counts(ranges, tasks, (*known, count))
