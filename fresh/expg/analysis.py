"""How true to the population and how diverse a selection is (arXiv 2608.03403, appendix).

A selection draws classes with frequencies q from a population with frequencies p. ``Align(q, p) = -KL(q || p)`` is
at most 0, and 0 when the selection mirrors the population; ``Div(q) = H(q)`` is at most log K. Drawing instances
aligns and neglects rare classes; drawing classes evenly covers them and misrepresents the population; Algorithm 1 lies
between: ideally it draws ``q = alpha u + (1 - alpha) p`` with ``alpha = K / Q`` and u uniform over the K classes.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fresh.expg.select import allocate
from graph_schema.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from rich.table import Table

DIMENSIONS = (4, 10, 16)
RATIOS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
METHODS = ("instance", "class", "algorithm1")
_TITLES = {"instance": "instance-balanced", "class": "class-balanced", "algorithm1": "Algorithm 1"}
_TOLERANCE = 1e-9
Frequencies = NDArray[np.float64]


class Bounds(NamedTuple):
    """The ideal mixture against its two lower bounds.

    Attributes:
        alpha: K/Q.
        align: Align of the mixture.
        align_bound: ``-alpha KL(u || p)``.
        div: Div of the mixture, in nats.
        div_bound: ``alpha log K + (1 - alpha) H(p)``.
    """

    alpha: float
    align: float
    align_bound: float
    div: float
    div_bound: float

    @property
    def hold(self) -> bool:
        """Both bounds hold, up to rounding."""
        return self.align >= self.align_bound - _TOLERANCE and self.div >= self.div_bound - _TOLERANCE


class Row(NamedTuple):
    """Results for one dimension and one selection ratio, means over the seeds.

    Attributes:
        d: Number of binary aspects, so that there are up to 2^d classes.
        ratio: Q/N.
        classes: Mean K.
        quota: Q.
        align: Align of each method.
        div: Div of each method.
        bounds: Bounds of the ideal mixture for each seed with K <= Q.
    """

    d: int
    ratio: float
    classes: float
    quota: int
    align: dict[str, float]
    div: dict[str, float]
    bounds: tuple[Bounds, ...]


def align(q: Sequence[float] | Frequencies, p: Sequence[float] | Frequencies) -> float:
    """``-KL(q || p)`` in nats; minus infinity where q has a class that p lacks."""
    a, b = np.asarray(q, dtype=float), np.asarray(p, dtype=float)
    held = a > 0
    if np.any(b[held] <= 0):
        return -math.inf
    return min(0.0, -float(np.sum(a[held] * np.log(a[held] / b[held]))))


def div(q: Sequence[float] | Frequencies) -> float:
    """``H(q)`` in nats."""
    a = np.asarray(q, dtype=float)
    held = a[a > 0]
    return max(0.0, -float(np.sum(held * np.log(held))))


def mixture_bounds(p: Sequence[float] | Frequencies, alpha: float) -> Bounds:
    """The ideal mixture ``alpha u + (1 - alpha) p`` and its bounds.

    Both follow from convexity: KL(. || p) is convex and 0 at p, H is concave.

    Args:
        p: Class frequencies, all positive.
        alpha: Between 0 and 1.
    """
    b = np.asarray(p, dtype=float)
    if not 0 <= alpha <= 1 or np.any(b <= 0):
        raise ConfigError(f"alpha must lie in [0, 1] and every class must be populated, got alpha={alpha}")
    uniform = np.full(len(b), 1 / len(b))
    mixed = alpha * uniform + (1 - alpha) * b
    return Bounds(
        alpha, align(mixed, b), alpha * align(uniform, b), div(mixed), alpha * math.log(len(b)) + (1 - alpha) * div(b)
    )


def population(d: int, n: int, generator: np.random.Generator) -> list[int]:
    """Class sizes of n experiences with d binary aspects, largest first.

    A call is sound with probability 0.6 and then passes each aspect with 0.97; else it passes each with a rate of that
    aspect's own, between 0.3 and 0.9. That gives what traces give: one big perfect class and a long tail.
    """
    sound = generator.random(n) < 0.6
    rates = generator.uniform(0.3, 0.9, size=d)
    passed = generator.random((n, d)) < np.where(sound[:, None], 0.97, rates[None, :])
    sizes = Counter(map(bytes, passed.astype(np.uint8)))
    return sorted(sizes.values(), reverse=True)


def instance_balanced(sizes: Sequence[int], quota: int, seed: int) -> list[int]:
    """How many a uniform draw of Q experiences takes from each class."""
    owners = [k for k, size in enumerate(sizes) for _ in range(size)]
    drawn = Counter(random.Random(seed).sample(owners, min(quota, len(owners))))
    return [drawn[k] for k in range(len(sizes))]


def class_balanced(sizes: Sequence[int], quota: int, seed: int) -> list[int]:
    """One from each class with members left, round after round, in an order drawn once, until Q are taken."""
    order = list(range(len(sizes)))
    random.Random(seed).shuffle(order)
    taken = [0] * len(sizes)
    left = min(quota, sum(sizes))
    while left:
        for k in order:
            if left and taken[k] < sizes[k]:
                taken[k] += 1
                left -= 1
    return taken


def analyse(
    dimensions: Sequence[int] = DIMENSIONS,
    ratios: Sequence[float] = RATIOS,
    *,
    n: int = 2000,
    seeds: int = 10,
) -> list[Row]:
    """Align and Div of the three selections.

    Args:
        dimensions: Numbers of binary aspects.
        ratios: Q/N.
        n: N, experiences in a population.
        seeds: Populations, and draws, that results are means over.
    """
    rows: list[Row] = []
    for d in dimensions:
        populations = [population(d, n, np.random.default_rng([d, seed])) for seed in range(seeds)]
        rows.extend(_row(d, ratio, max(1, round(ratio * n)), populations) for ratio in ratios)
    return rows


def _row(d: int, ratio: float, quota: int, populations: Sequence[Sequence[int]]) -> Row:
    aligned: dict[str, list[float]] = {method: [] for method in METHODS}
    diverse: dict[str, list[float]] = {method: [] for method in METHODS}
    bounds: list[Bounds] = []
    for seed, sizes in enumerate(populations):
        p = np.asarray(sizes) / sum(sizes)
        taken = {
            "instance": instance_balanced(sizes, quota, seed),
            "class": class_balanced(sizes, quota, seed),
            "algorithm1": allocate(sizes, quota),
        }
        for method, amounts in taken.items():
            q = np.asarray(amounts) / sum(amounts)
            aligned[method].append(align(q, p))
            diverse[method].append(div(q))
        if len(sizes) <= quota:
            bounds.append(mixture_bounds(p, len(sizes) / quota))
    return Row(
        d,
        ratio,
        sum(map(len, populations)) / len(populations),
        quota,
        {method: math.fsum(found) / len(found) for method, found in aligned.items()},
        {method: math.fsum(found) / len(found) for method, found in diverse.items()},
        tuple(bounds),
    )


def table(rows: Sequence[Row]) -> Table:
    """The rows as a table for the terminal."""
    from rich.table import Table

    found = Table(title="Align(q, p) = -KL(q || p) and Div(q) = H(q), nats")
    for name in ("d", "Q/N", "K", "Q"):
        found.add_column(name, justify="right")
    for measure in ("Align", "Div"):
        for method in METHODS:
            found.add_column(f"{measure}\n{_TITLES[method]}", justify="right")
    found.add_column("bounds hold", justify="right")
    for row in rows:
        held = sum(b.hold for b in row.bounds)
        found.add_row(
            str(row.d),
            f"{row.ratio:.0%}",
            f"{row.classes:.0f}",
            str(row.quota),
            *(f"{row.align[method]:.3f}" for method in METHODS),
            *(f"{row.div[method]:.3f}" for method in METHODS),
            f"{held} of {len(row.bounds)}" if row.bounds else "K > Q",
        )
    return found


def picture(rows: Sequence[Row], path: Path | str) -> None:
    """Draws Align and Div against the selection ratio, one column for each dimension.

    Args:
        rows: From :func:`analyse`.
        path: Image file; its ending chooses the format (``.png``, ``.svg``, ``.pdf``).

    Raises:
        MissingExtraError: matplotlib is not installed.
        ConfigError: The ending names no image format.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "viz") from None
    dimensions = sorted({row.d for row in rows})
    figure = Figure(figsize=(4 * len(dimensions), 6), layout="constrained")
    grid = figure.subplots(2, len(dimensions), squeeze=False, sharex=True)
    for column, d in enumerate(dimensions):
        mine = [row for row in rows if row.d == d]
        ratios = [100 * row.ratio for row in mine]
        for method in METHODS:
            grid[0][column].plot(ratios, [row.align[method] for row in mine], marker="o", label=_TITLES[method])
            grid[1][column].plot(ratios, [row.div[method] for row in mine], marker="o", label=_TITLES[method])
        grid[0][column].set_title(f"d = {d}")
        grid[1][column].set_xlabel("selected, % of the population")
    grid[0][0].set_ylabel("Align = -KL(q || p), nats")
    grid[1][0].set_ylabel("Div = H(q), nats")
    grid[0][0].legend()
    target = Path(path)
    temporary = target.with_name(f".{target.stem}.tmp{target.suffix}")
    try:
        figure.savefig(temporary)
        temporary.replace(target)
    except ValueError as error:
        raise ConfigError(f"cannot draw {target}: {error}") from None
    finally:
        temporary.unlink(missing_ok=True)
