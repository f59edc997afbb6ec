"""``fresh compare``: its arguments. The trainer is handed in by the caller, as the context's object."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_FILE_WIDTH = 200
"""Columns of a table that goes to a file or a pipe: seven measures with their intervals side by side."""


@app.command(no_args_is_help=True)
def compare(
    context: typer.Context,
    configs: Annotated[
        list[str] | None,
        typer.Argument(help="airline, retail, telecom, agentdojo, or YAML files.", show_default=False),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder that the configs' paths are relative to.", show_default=False)
    ] = None,
    memories: Annotated[
        list[str] | None,
        typer.Option("--memories", "-m", help="Memories or groups of them, separated by commas; all by default."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the memories and groups there are.")] = False,
    work: Annotated[
        Path, typer.Option("--work", help="Folder for results; an interrupted comparison goes on from there.")
    ] = Path("runs/compare"),
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write Markdown, CSV, JSON and a picture into this folder."),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the results to this file.")] = None,
    reference: Annotated[
        str, typer.Option("--reference", help="The memory that the others are compared with; FRESH by default.")
    ] = "",
    again: Annotated[
        list[str] | None, typer.Option("--again", help="Make the kept results of these memories anew.")
    ] = None,
    mine_agent: Annotated[
        list[str] | None,
        typer.Option("--mine-agent", help="Mine the runs of these agents alone; * and ? match. Tasks stay held out."),
    ] = None,
    measure_agent: Annotated[
        list[str] | None,
        typer.Option("--measure-agent", help="Measure on the runs of these agents alone; by default all not mined."),
    ] = None,
    budget: Annotated[int | None, typer.Option("--budget", min=1, help="Most tokens of a piece of advice.")] = None,
    folds: Annotated[int | None, typer.Option("--folds", min=2, help="Parts of the cross-validation.")] = None,
    points: Annotated[int | None, typer.Option("--points", min=1, help="Decision points of a run at most.")] = None,
    runs_per_task: Annotated[
        int | None, typer.Option("--runs-per-task", min=1, help="Runs of a task at most, for a quick look.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Of folds, drawing, training, resampling.")] = None,
    with_published: Annotated[
        bool, typer.Option("--with-published", help="Print the published figures too, marked as not measured.")
    ] = False,
) -> None:
    """Compare memories of every kind on the same recorded runs, tasks held out."""
    from inference.baselines.registry import GROUPS, MEMORIES
    from inference.compare.command import Options, print_memories, run_command

    console = _console()
    if listed:
        print_memories(MEMORIES, GROUPS, console)
        return
    changes = {
        "mine_agents": tuple(mine_agent or ()),
        "measure_agents": tuple(measure_agent or ()),
        "budget": budget,
        "folds": folds,
        "points_per_run": points,
        "runs_per_task": runs_per_task,
        "seed": seed,
    }
    options = Options(
        memories=_split(memories),
        work=work,
        output=output,
        json_file=json_file,
        reference=reference,
        again=_split(again),
        with_published=with_published,
        changes=changes,
    )
    run_command(
        configs or (),
        data,
        options,
        builders=MEMORIES,
        groups=GROUPS,
        fitter=context.obj,
        console=console,
        log=_console(stderr=True),
    )


def _split(values: list[str] | None) -> tuple[str, ...]:
    return tuple(name.strip() for value in values or () for name in value.split(",") if name.strip())


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=_FILE_WIDTH)
