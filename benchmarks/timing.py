"""Timings that stay fair on a busy machine: variants take turns, and each is summed up by its median."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version

from rich.console import Console
from rich.table import Table


def interleaved(variants: Mapping[str, Callable[[], object]], rounds: int, warmup: int = 1) -> dict[str, list[float]]:
    """Runs every variant once a round, in turns, so that a busy spell slows all of them.

    Args:
        variants: What to time, by name.
        rounds: How often.
        warmup: Rounds before these whose times are not kept.

    Returns:
        Wall seconds of each round, by name.
    """
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(warmup + rounds):
        for name, run in variants.items():
            start = time.perf_counter()
            run()
            elapsed = time.perf_counter() - start
            if turn >= warmup:
                seconds[name].append(elapsed)
    return seconds


def ratio(slow: list[float], fast: list[float]) -> float:
    """Median of the round-by-round ratios: how many times faster the second is."""
    return statistics.median(s / f for s, f in zip(slow, fast, strict=True))


def milliseconds(seconds: list[float]) -> str:
    """Median, for a table."""
    return f"{statistics.median(seconds) * 1e3:.3g} ms"


def print_table(title: str, columns: list[str], rows: list[list[str]], packages: list[str]) -> None:
    """Prints one table with the machine and the versions below it."""
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    table = Table()
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console = Console(width=110)
    console.print(title, highlight=False)
    console.print(table)
    console.print(f"Python {platform.python_version()}, {versions}; medians of interleaved runs", highlight=False)
