"""What ``fresh compare`` does: configs and options to plans, memories by name, results to tables and files."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graph_schema.errors import ConfigError
from inference.baselines.base import Fitter
from inference.compare.config import CompareConfig
from inference.compare.report import CompareReport, make_report, tables, write
from inference.compare.run import Builder, Plan, compare

if TYPE_CHECKING:
    from rich.console import Console

REFERENCE = "fresh"
"""The memory that the others are compared with, unless another one is named."""


@dataclass(frozen=True)
class Options:
    """What the command line says beyond the configs; None or empty leaves what the config says.

    Attributes:
        memories: Names of memories and groups of them.
        work: Folder for results.
        output: Folder for tables and pictures.
        json_file: File for all reports together.
        reference: The memory that the others are compared with; `REFERENCE`, else its nearest kin, when empty.
        again: Memories whose kept results are not used.
        with_published: Print the published figures beside those measured.
        changes: Fields of `CompareConfig` to change.
    """

    memories: tuple[str, ...] = ()
    work: Path = Path("runs/compare")
    output: Path | None = None
    json_file: Path | None = None
    reference: str = ""
    again: tuple[str, ...] = ()
    with_published: bool = False
    changes: Mapping[str, Any] | None = None


def run_command(
    configs: Sequence[str],
    data_folder: Path | None,
    options: Options,
    *,
    builders: Mapping[str, Builder],
    groups: Mapping[str, Sequence[str]],
    fitter: Fitter | None,
    console: Console,
    log: Console,
) -> list[CompareReport]:
    """Compares on each config's runs, prints the tables and writes the files.

    Args:
        configs: Names of configs or YAML files.
        data_folder: What their paths are relative to.
        options: Everything else.
        builders: The memories there are, by name.
        groups: Names for several of them.
        fitter: Trains a reranker, for the memories that need one.
        console: Where tables go.
        log: Where progress goes.

    Raises:
        ConfigError: A name or an option is wrong; nothing has been built then.
    """
    if not configs and not options.with_published:
        raise ConfigError("name what to compare on: airline, retail, telecom, agentdojo, or a YAML file")
    if configs and data_folder is None:
        raise ConfigError("--data is missing: name the folder that the configs' paths are relative to")
    names = chosen(options.memories, builders, groups)
    again = chosen(options.again, builders, groups) if options.again else ()
    reference = _reference(options.reference, names)
    settings = [_changed(CompareConfig.read(config), options.changes or {}) for config in configs]
    reports = []
    for config in settings:
        plan = Plan.load(config, Path(data_folder or "."))
        own = {name: builders[name] for name in names}
        results = compare(plan, own, options.work, fitter=fitter, again=again, console=log)
        report = make_report(plan, results, reference=reference)
        _print(report, console)
        if options.output is not None:
            log.print(f"written: {', '.join(map(str, write(report, options.output)))}", soft_wrap=True)
        reports.append(report)
    if options.json_file is not None:
        from fresh.cli.files import write_json

        write_json(options.json_file, {"compare": [report.plain() for report in reports]})
    if options.with_published:
        from inference.compare.published import show

        show(console)
    return reports


def _changed(config: CompareConfig, changes: Mapping[str, Any]) -> CompareConfig:
    wanted = {name: value for name, value in changes.items() if value not in (None, ())}
    if wanted.keys() & {"mine_agents", "measure_agents"}:
        wanted["name"] = f"{config.name}-across-models"  # files of its own beside those of the ordinary comparison
    return replace(config, **wanted)


def _print(report: CompareReport, console: Console) -> None:
    for table in tables(report):
        console.print(table)
    for line in (*report.verdicts(), *report.notes):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def print_memories(builders: Mapping[str, object], groups: Mapping[str, Sequence[str]], console: Console) -> None:
    """Lists the names that ``--memories`` understands."""
    for name, builder in builders.items():
        line = getattr(builder, "line", "")
        console.print(f"{name}: {line}" if line else name, markup=False, highlight=False, soft_wrap=True)
    for name, members in groups.items():
        console.print(f"{name} (group): {', '.join(members)}", markup=False, highlight=False, soft_wrap=True)


def chosen(
    names: Iterable[str], builders: Mapping[str, object], groups: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Memories by name or by group, each once, in the order asked for; when none is named, all that need no extra.

    Raises:
        ConfigError: There is no such memory; the message names the nearest.
    """
    found: dict[str, None] = {}
    for name in names:
        if name in groups:
            found.update(dict.fromkeys(groups[name]))
        elif name in builders:
            found[name] = None
        else:
            raise ConfigError(_unknown(name, [*builders, *groups]))
    return tuple(found or (name for name, builder in builders.items() if not getattr(builder, "extra", "")))


def _unknown(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.6)
    near = near or [other for other in known if name and (name in other or other in name)][:3]
    hint = f"did you mean {' or '.join(near)}" if near else f"there are: {', '.join(known)}"
    return f"there is no memory called {name!r}; {hint}"


def _reference(wanted: str, names: Sequence[str]) -> str:
    """Which of the memories the others are compared with; empty where none is FRESH."""
    if wanted:
        if wanted not in names:
            raise ConfigError(f"--reference {wanted}: it is not among the memories compared ({', '.join(names)})")
        return wanted
    if REFERENCE in names:
        return REFERENCE
    return next((name for name in names if name.startswith(REFERENCE)), "")
