"""The whole road once, in the tau2 environments: record, mine, fit, freeze, measure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from inference.evaluate.tau2 import DOMAINS, Recording, Settings, compare, load_settings, record_runs

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

RECORDINGS = Path("runs/tau2/train")
"""Where the training config looks for recorded runs."""

NOTICE = (
    "The executor is simulated: no language model is called. It follows each task's gold actions and makes, at the "
    "rates of {config}, the structural errors of an agent: a skipped read, a premature write, a repeated failed call, "
    "an argument from the wrong object. The environments, the tasks and the evaluator are tau2-bench's own. What is "
    "measured is how much of these errors the memory mends, not how a language model would do."
)


def record(
    folder: Path, domains: Sequence[str] = DOMAINS, split: str = "train", settings: Settings | None = None
) -> list[Recording]:
    """Records runs of the simulated executor, one file a domain.

    Args:
        folder: Where the files go, named by domain.
        domains: Of ``airline``, ``retail`` and ``telecom``.
        split: An official split.
        settings: Rates and bounds; the shipped ones by default.
    """
    return [record_runs(domain, split, folder / f"{domain}.json.gz", settings or load_settings()) for domain in domains]


def recordings_table(recordings: Sequence[Recording]) -> Table:
    """What was recorded, as a table."""
    from rich.table import Table

    table = Table(title="Recorded runs of the simulated executor", title_justify="left")
    for name in ("domain", "split"):
        table.add_column(name)
    for name in ("tasks", "runs", "successes", "injected errors"):
        table.add_column(name, justify="right")
    for item in recordings:
        numbers = (item.tasks, item.runs, item.successes, sum(item.injected.values()))
        table.add_row(item.domain, item.split, *map(str, numbers))
    return table


def run_demo(
    output: Path,
    *,
    mine: Callable[[Path], None],
    fit: Callable[[Path, Path], None],
    console: Console,
    json_file: Path | None = None,
    settings: Settings | None = None,
    recordings: Path = RECORDINGS,
    domains: Sequence[str] = DOMAINS,
) -> None:
    """Records, mines, fits, freezes and measures, with what it does said at each step.

    Args:
        output: Folder of the frozen memory.
        mine: Mines a folder of recordings and prints its report.
        fit: Trains on a folder of recordings and freezes the memory into another. Handed in, since nothing here may
            import the trainer.
        console: Where tables go.
        json_file: Where the measurements go, if anywhere.
        settings: Rates and bounds of the executor; the shipped ones by default.
        recordings: Folder of the recorded runs; those of an earlier demo are replaced.
        domains: Of ``airline``, ``retail`` and ``telecom``.
    """
    from inference.evaluate.tau2.settings import DEFAULT_CONFIG
    from inference.memory import load

    settings = settings or load_settings()
    started = time.perf_counter()
    console.print(NOTICE.format(config=f"{DEFAULT_CONFIG.parent.name}/{DEFAULT_CONFIG.name}"), highlight=False)
    with _step(console, "1/4  record the official train tasks"):
        console.print(recordings_table(record(recordings, domains, settings=settings)))
    with _step(console, "2/4  mine the recordings"):
        mine(recordings)
    with _step(console, "3/4  fit the reranker and freeze the memory"):
        fit(recordings, output)
    with _step(console, "4/4  the official test tasks, with the gate and without it"):
        report = compare(domains, load(output), settings)
        for table in report.tables():
            console.print(table)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        report.write_json(json_file)
    minutes = (time.perf_counter() - started) / 60
    console.print(f"Frozen memory: {output} (simulated executor; {minutes:.1f} minutes in all)", highlight=False)


@contextmanager
def _step(console: Console, title: str) -> Iterator[None]:
    console.rule(title, align="left")
    started = time.perf_counter()
    yield
    console.print(f"done in {time.perf_counter() - started:.0f} s", style="dim", highlight=False)
