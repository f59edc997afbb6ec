from __future__ import annotations

import pytest
from rich.console import Console

from inference.compare.published import (
    FOLDER,
    MARK,
    PASS_TABLE,
    PublishedTable,
    impossible_rows,
    published_tables,
    show,
)

TABLES = {table.name: table for table in published_tables()}


def test_every_file_is_a_table_with_a_title() -> None:
    assert {path.stem for path in FOLDER.glob("*.csv")} == set(TABLES)
    for table in TABLES.values():
        assert table.rows and all(len(row) == len(table.heads) for row in table.rows), table.name


def test_one_row_of_the_pass_table_is_impossible() -> None:
    (line,) = impossible_rows(TABLES[PASS_TABLE])
    assert line.startswith("Qwen3-8B, H-EPM, airline: no counts give these of 20 tasks") and "0.117" in line


def test_a_row_that_is_changed_becomes_impossible() -> None:
    table = TABLES[PASS_TABLE]
    row = list(table.rows[0])
    row[table.heads.index("retail_pass3")] = "0.489"
    changed = PublishedTable(table.name, table.title, table.heads, (tuple(row),))
    assert [line.split(":")[0] for line in impossible_rows(changed)] == ["Gemma4-26B-A4B, Base, retail"]


@pytest.mark.parametrize("column", ["airline_pass1", "retail_pass4"])
def test_figures_are_what_the_file_says(column: str) -> None:
    table = TABLES[PASS_TABLE]
    own = dict(zip(table.heads, next(r for r in table.rows if r[:2] == ("Qwen3-8B", "FRESH (Ours)")), strict=True))
    assert own[column] == {"airline_pass1": "0.400", "retail_pass4": "0.250"}[column]


def test_every_table_shown_is_marked() -> None:
    console = Console(width=250, record=True)
    show(console)
    shown = console.export_text()
    assert shown.count(MARK) == len(TABLES) + 1
    assert all(table.title in shown for table in TABLES.values())
