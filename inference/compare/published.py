"""Published figures of FRESH, SEER and ExpG, to stand beside what was measured; none of them was measured here."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from inference.evaluate.tau2.passk import feasible_counts

if TYPE_CHECKING:
    from rich.console import Console

FOLDER = Path(__file__).parent / "printed"
MARK = "published, not measured"

_TITLES = {
    "fresh_table1_taubench_passk": "FRESH (arXiv 2609.28003), table 1: tau-bench, pass^1 to pass^4",
    "fresh_table2_appworld": "FRESH (arXiv 2609.28003), table 2: AppWorld",
    "fresh_table4_airline": "FRESH (arXiv 2609.28003), table 4: airline in detail",
    "fresh_table5_retail": "FRESH (arXiv 2609.28003), table 5: retail in detail",
    "fresh_table6_appworld_test_n": "FRESH (arXiv 2609.28003), table 6: AppWorld, test normal",
    "fresh_table7_appworld_test_c": "FRESH (arXiv 2609.28003), table 7: AppWorld, test challenge",
    "seer_table3_toolqa": "SEER (arXiv 2508.15214), table 3: ToolQA",
    "seer_table4_taubench": "SEER (arXiv 2508.15214), table 4: tau-bench",
    "seer_table5_topk": "SEER (arXiv 2508.15214), table 5: size of the top k",
    "seer_table6_ablation": "SEER (arXiv 2508.15214), table 6: ablation",
    "expg_table6_bfcl_v3_qwen3_8b": "ExpG (arXiv 2608.03403), table 6: BFCL v3 multi-turn, Qwen3-8B",
}
PASS_TABLE = "fresh_table1_taubench_passk"
TASKS = {"airline": 20, "retail": 40}
"""Test tasks of tau2-bench's two domains, each run four times."""


@dataclass(frozen=True)
class PublishedTable:
    """A table as it was printed.

    Attributes:
        name: Of its file.
        title: Paper, number and subject.
        heads: Column headings.
        rows: Cells as printed.
    """

    name: str
    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def published_tables() -> list[PublishedTable]:
    """All published tables that come with the package."""
    found = []
    for name, title in _TITLES.items():
        with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            heads, *rows = csv.reader(file)
        found.append(PublishedTable(name, title, tuple(heads), tuple(map(tuple, rows))))
    return found


def impossible_rows(table: PublishedTable) -> list[str]:
    """Rows of the pass^k table that no counts of won tasks give, each as a sentence."""
    found = []
    for row in table.rows:
        cells = dict(zip(table.heads, row, strict=True))
        for domain, tasks in TASKS.items():
            printed = [cells[f"{domain}_pass{k}"] for k in range(1, 5)]
            values = _shares(printed)
            if values and not feasible_counts(values, tasks):
                who = f"{cells['model']}, {cells['method']}, {domain}"
                found.append(f"{who}: no counts give these of {tasks} tasks run 4 times ({', '.join(printed)})")
    return found


def _shares(printed: Iterable[str]) -> list[float]:
    try:
        return [float(text) for text in printed]
    except ValueError:  # a row of improvements in per cent
        return []


def show(console: Console) -> None:
    """Prints every published table, marked as such, and what is wrong with one."""
    from rich.table import Table

    for published in published_tables():
        console.print(f"\n{published.title} ({MARK})", markup=False, highlight=False, soft_wrap=True)
        table = Table()
        for i, head in enumerate(published.heads):
            table.add_column(head, justify="right" if i and not _is_text(published.rows, i) else "left")
        for row in published.rows:
            table.add_row(*row)
        console.print(table)
        if published.name == PASS_TABLE:
            for line in impossible_rows(published):
                console.print(f"{MARK}: {line}", markup=False, highlight=False, soft_wrap=True)


def _is_text(rows: Sequence[Sequence[str]], column: int) -> bool:
    return all(not any(letter.isdigit() for letter in row[column]) for row in rows)
