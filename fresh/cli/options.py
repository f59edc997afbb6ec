"""Options that several commands share, and the console they print on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

_FILE_WIDTH = 120
"""Columns of a table that goes to a file or a pipe."""

Memory = Annotated[Path, typer.Argument(help="Folder of a memory.", show_default=False)]
Messages = Annotated[
    Path, typer.Argument(help="OpenAI-style messages so far: a JSON file, or - for standard input.", show_default=False)
]
Tools = Annotated[
    Path | None, typer.Option("--tools", help="JSON file of OpenAI function schemas or MCP tools.", show_default=False)
]
Policy = Annotated[
    Path | None, typer.Option("--policy", help="Rules written by hand: a YAML file.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the results to this file.", show_default=False)]


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or of a fixed width where there is none."""
    from rich.console import Console

    made = Console(stderr=stderr)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _FILE_WIDTH
    return made
