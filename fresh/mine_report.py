"""What `fresh mine` says at its end: what was read, what was mined, what was left out."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from graph_schema.graph import ExperienceGraph
from graph_schema.trajectory import Outcome
from graph_schema.types import EDGE_TYPES, NODE_TYPES, NodeType, Relation

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fresh.traces.report import ReadReport

INFERRED = "inferred from its name"
_ERRORS = 10
_SKIPPED = 20
_TEXT_WIDTH = 8


def mine_report(graph: ExperienceGraph, report: ReadReport) -> dict[str, Any]:
    """Everything `fresh mine` reports, as plain JSON values."""
    outcomes = Counter((run["domain"], run["outcome"]) for run in graph.tables.runs.to_pylist())
    return {
        "runs": graph.tables.runs.num_rows,
        "files": len(report.files),
        "formats": dict(sorted(report.formats.items())),
        "outcomes": [
            {"domain": domain, **{str(outcome): outcomes[domain, str(outcome)] for outcome in Outcome}}
            for domain in sorted({domain for domain, _ in outcomes})
        ],
        "counts": graph.counts(),
        "errors": frequent_errors(graph),
        "skipped": [{"file": item.file, "position": item.position, "reason": item.reason} for item in report.skipped],
        "repairs": dict(sorted(report.repairs.items())),
        "attacked": report.attacked,
        "files_without_runs": sorted(report.not_traces),
        "inferred_effects": inferred_effects(graph),
    }


def frequent_errors(graph: ExperienceGraph, most: int = _ERRORS) -> list[dict[str, Any]]:
    """The most frequent errors, with how often each was seen and how many repairs are known."""
    indices = graph.indices(NodeType.ERROR)
    seen = graph.column("failure")
    found = []
    for index in sorted(indices, key=lambda i: (-int(seen[i]), i))[:most]:
        node = graph.node(index)
        repairs = len(graph.successors(index, Relation.FIXED_BY))
        found.append(
            {"tool": node.tool, "message": node.data["message"], "times": node.failure, "runs": node.runs}
            | {"repairs": repairs}
        )
    return found


def inferred_effects(graph: ExperienceGraph) -> dict[str, str]:
    """Tools of which nobody said whether they write, with what was inferred."""
    sources, effects = graph.settings.get("effect_sources", {}), graph.settings.get("effects", {})
    return {tool: effects[tool] for tool, source in sorted(sources.items()) if source == INFERRED}


def has_known_outcome(graph: ExperienceGraph) -> bool:
    """Whether any run ended in a known success or failure."""
    return any(outcome != Outcome.UNKNOWN for outcome in graph.tables.runs["outcome"].to_pylist())


def print_mine_report(report: dict[str, Any], console: Console) -> None:
    """Prints the report as tables."""
    console.print(_outcomes(report))
    console.print(_counts(report["counts"]))
    if report["errors"]:
        console.print(_errors(report["errors"]))
    if report["inferred_effects"]:
        console.print(_effects(report["inferred_effects"]))
        console.print(
            "Nobody said what these tools do. Where a guess is wrong, write it to a file with --write-effects FILE, "
            "correct it there, and mine again with --effects FILE.",
            soft_wrap=True,
        )
    if report["repairs"]:
        console.print(_repairs(report["repairs"]))
    _print_left_out(report, console)


def _print_left_out(report: dict[str, Any], console: Console) -> None:
    skipped = report["skipped"]
    if skipped:
        console.print(_skipped(skipped))
    if len(skipped) > _SKIPPED:
        console.print(f"... and {len(skipped) - _SKIPPED} more; --json FILE writes them all", highlight=False)
    if not skipped:
        console.print("Skipped: nothing", highlight=False)
    if report["attacked"]:
        console.print(
            f"Left out: {report['attacked']} runs under an injection attack (--include-attacks mines them)",
            highlight=False,
        )
    if report["files_without_runs"]:
        console.print(f"Files without runs: {len(report['files_without_runs'])}", highlight=False)


def simple_table(title: str, *columns: str, left: int = 1) -> Table:
    """A table whose first ``left`` columns hold text and whose others hold numbers."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for position, column in enumerate(columns):
        text = position < left
        width = {"min_width": _TEXT_WIDTH} if text else {"no_wrap": True}
        table.add_column(column, justify="left" if text else "right", overflow="fold", **width)
    return table


def _outcomes(report: dict[str, Any]) -> Table:
    title = f"{report['runs']} runs from {report['files']} files by outcome"
    table = simple_table(title, "domain", *(str(outcome) for outcome in Outcome))
    for row in report["outcomes"]:
        table.add_row(row["domain"] or "(none)", *(str(row[str(outcome)]) for outcome in Outcome))
    return table


def _counts(counts: dict[str, int]) -> Table:
    table = simple_table("Nodes and edges", "kind", "type", "count", left=2)
    for node_type in NODE_TYPES:
        table.add_row("node", node_type, str(counts[node_type]))
    table.add_section()
    for edge in EDGE_TYPES:
        table.add_row("edge", f"{edge.source} {edge.relation} {edge.target}", str(counts[edge.relation]))
    return table


def _errors(errors: list[dict[str, Any]]) -> Table:
    from rich.text import Text

    table = simple_table("Most frequent errors", "tool", "message", "times", "runs", "repairs", left=2)
    for error in errors:
        numbers = (str(error[name]) for name in ("times", "runs", "repairs"))
        table.add_row(Text(error["tool"]), Text(error["message"]), *numbers)
    return table


def _effects(effects: dict[str, str]) -> Table:
    from rich.text import Text

    table = simple_table("Inferred from the tools' names", "effect", "tools", left=2)
    for effect in sorted(set(effects.values())):
        table.add_row(effect, Text(", ".join(tool for tool, found in effects.items() if found == effect)))
    return table


def _repairs(repairs: dict[str, int]) -> Table:
    table = simple_table("Mended while reading", "what", "runs")
    for kind, count in sorted(repairs.items(), key=lambda item: (-item[1], item[0])):
        table.add_row(kind.replace("_", " "), str(count))
    return table


def _skipped(skipped: list[dict[str, str]]) -> Table:
    from rich.text import Text

    table = simple_table(f"Skipped: {len(skipped)}", "file", "position", "reason", left=3)
    for item in skipped[:_SKIPPED]:
        table.add_row(*(Text(item[name]) for name in ("file", "position", "reason")))
    return table
