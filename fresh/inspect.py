"""What a memory holds, as plain values and as tables: the whole of it, or everything about one tool."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from fresh.mine_report import frequent_errors, simple_table
from graph_schema.errors import ConfigError
from graph_schema.graph import ExperienceGraph, Node, Run
from graph_schema.types import EDGE_TYPES, NODE_TYPES, NodeType, Relation

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fresh.gate.policy import Policy

_SHOWN_RUNS = 3
_SHOWN_SOURCES = 3


# -- values ------------------------------------------------------------------------------------------------------


def summary(graph: ExperienceGraph, policy: Policy | None = None) -> dict[str, Any]:
    """The whole memory: counts, tools, frequent errors and how it was mined; and the rules of a policy, if given."""
    return {
        "nodes": {str(t): len(graph.indices(t)) for t in NODE_TYPES},
        "edges": {str(e.relation): graph.counts()[e.relation] for e in EDGE_TYPES},
        "runs": graph.tables.runs.num_rows,
        "outcomes": dict(sorted(Counter(graph.tables.runs["outcome"].to_pylist()).items())),
        "tasks": graph.settings.get("tasks"),
        "tools": [_tool_row(graph, node) for node in graph.nodes(NodeType.TOOL)],
        "errors": frequent_errors(graph),
        "features": {name: list(values.shape) for name, values in sorted(graph.features.items())},
        "settings": graph.settings,
        "policy": policy_rows(policy) if policy is not None else [],
    }


def run_list(graph: ExperienceGraph) -> list[dict[str, Any]]:
    """Every run the memory was mined from."""
    return [_run_row(graph.run(index)) for index in range(graph.tables.runs.num_rows)]


def tool_report(graph: ExperienceGraph, name: str, policy: Policy | None = None) -> dict[str, Any]:
    """Everything known about one tool, with the runs behind each statement; and a policy's rules on it, if given.

    Raises:
        ConfigError: The memory does not know the tool; the message names the nearest ones it knows.
    """
    index = graph.find(NodeType.TOOL, name)
    if index is None:
        raise ConfigError(_unknown_tool(graph, name))
    return {
        **_tool_row(graph, graph.node(index)),
        "parameters": graph.node(index).data.get("parameters", []),
        "actions": [_action(graph, node) for node in _ranked(graph, name, NodeType.ACTION)],
        "preconditions": [_precondition(graph, node) for node in _ranked(graph, name, NodeType.PRECONDITION)],
        "errors": [_error(graph, node) for node in _ranked(graph, name, NodeType.ERROR)],
        "observations": [
            {"fields": node.data.get("fields", []), "seen": node.success + node.failure + node.unknown}
            | _runs(graph, node)
            for node in _ranked(graph, name, NodeType.OBSERVATION)
        ],
        "policy": policy_rows(policy, name) if policy is not None else [],
        **_runs(graph, graph.node(index)),
    }


def policy_rows(policy: Policy, tool: str | None = None) -> list[dict[str, Any]]:
    """The rules of a policy, those on one tool if asked."""
    return [
        {
            "rule": policy.place(number),
            "tool": rule.tool,
            "severity": rule.severity,
            "reviewed": rule.reviewed,
            "text": rule.text,
            "condition": rule.condition.model_dump(mode="json"),
            "condition_text": rule.condition.text(rule.tool),
            "quote": rule.quote,
        }
        for number, rule in enumerate(policy.rules)
        if tool is None or fnmatchcase(tool, rule.tool)
    ]


def _unknown_tool(graph: ExperienceGraph, name: str) -> str:
    known = [graph.node(index).key for index in graph.indices(NodeType.TOOL)]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"it knows {', '.join(known[:12]) or 'no tool'}"
    return f"the memory knows no tool named {name!r}: {hint}"


def _ranked(graph: ExperienceGraph, tool: str, node_type: NodeType) -> list[Node]:
    nodes = [graph.node(index) for index in graph.of_tool(tool, node_type)]
    return sorted(nodes, key=lambda n: (-(n.success + n.failure + n.unknown), n.index))


def _tool_row(graph: ExperienceGraph, node: Node) -> dict[str, Any]:
    return {
        "tool": node.key,
        "purpose": node.data.get("purpose", ""),
        "effect": node.data.get("effect", ""),
        "effect_source": graph.settings.get("effect_sources", {}).get(node.key, ""),
        **_uses(node),
        "errors_seen": sum(graph.node(i).failure for i in graph.of_tool(node.key, NodeType.ERROR)),
        "preconditions_known": len(graph.of_tool(node.key, NodeType.PRECONDITION)),
    }


def _uses(node: Node) -> dict[str, Any]:
    decided = node.success + node.failure
    return {
        "verified": node.success,
        "failed": node.failure,
        "unverified": node.unknown,
        "success_rate": round(node.success / decided, 4) if decided else None,
    }


def _runs(graph: ExperienceGraph, node: Node) -> dict[str, Any]:
    return {"run_count": node.runs, "runs": [_run_row(run) for run in graph.runs_of(node.index)]}


def _run_row(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "task": run.task_key,
        "outcome": run.outcome,
        "agent": run.agent,
        "file": run.file,
        "record": run.record,
        "time": None if math.isnan(run.time) else run.time,
    }


def _action(graph: ExperienceGraph, node: Node) -> dict[str, Any]:
    return {
        "pattern": node.key,
        **_uses(node),
        "arguments": node.data.get("arguments", {}),
        "then": [graph.node(target).key for target, _ in graph.successors(node.index, Relation.PRECEDES)][:3],
        **_runs(graph, node),
    }


def _precondition(graph: ExperienceGraph, node: Node) -> dict[str, Any]:
    measures = {name: node.data.get(name) for name in ("support", "confidence", "lift", "necessity", "caught")}
    return {"text": node.text, "condition": node.data.get("condition"), **measures, **_runs(graph, node)}


def _error(graph: ExperienceGraph, node: Node) -> dict[str, Any]:
    repairs = [graph.node(index) for index, _ in graph.successors(node.index, Relation.FIXED_BY)]
    return {
        "message": node.data.get("message", node.text),
        "times": node.failure,
        "repairs": [
            {"text": r.text, "kind": r.data.get("kind"), "resolved": r.success} | _runs(graph, r) for r in repairs
        ],
        **_runs(graph, node),
    }


# -- tables ------------------------------------------------------------------------------------------------------


def print_summary(values: dict[str, Any], console: Console) -> None:
    """Prints the whole memory."""
    outcomes = ", ".join(f"{count} {name}" for name, count in values["outcomes"].items())
    console.print(f"{values['runs']} runs ({outcomes or 'none'})", highlight=False)
    table = simple_table("Nodes and edges", "kind", "type", "count", left=2)
    for kind, counts in (("node", values["nodes"]), ("edge", values["edges"])):
        for name, count in counts.items():
            table.add_row(kind, name, str(count))
        table.add_section()
    console.print(table)
    console.print(_tools_table(values["tools"]))
    if values["errors"]:
        console.print(_errors_table(values["errors"]))
    if values["policy"]:
        console.print(policy_table(values["policy"]))
    features = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in values["features"].items())
    console.print(f"features: {features or 'none'}", highlight=False)


def print_runs(runs: Sequence[dict[str, Any]], console: Console) -> None:
    """Prints a list of runs."""
    from rich.text import Text

    table = simple_table(f"{len(runs)} runs", "id", "task", "outcome", "agent", "read from", left=5)
    for run in runs:
        table.add_row(*(Text(t) for t in (run["id"], run["task"], run["outcome"], run["agent"], _place(run))))
    console.print(table)


def print_tool(values: dict[str, Any], console: Console, *, all_runs: bool = False) -> None:
    """Prints everything known about a tool.

    Args:
        values: What `tool_report` returned.
        console: Where to.
        all_runs: Name every run behind a line, not the first few.
    """
    shown = None if all_runs else _SHOWN_RUNS
    source = values["effect_source"]
    console.print(f"{values['tool']} ({values['effect']}{', ' + source if source else ''})", markup=False)
    if values["purpose"]:
        console.print(values["purpose"], markup=False, highlight=False)
    console.print(
        f"success rate {_rate(values['success_rate'])}: {values['verified']} verified, {values['failed']} failed, "
        f"{values['unverified']} unverified; {values['run_count']} runs",
        markup=False,
    )
    console.print(_actions_table(values["actions"], shown))
    for table in (
        _preconditions_table(values["preconditions"], shown),
        _tool_errors_table(values["errors"], shown),
        _repairs_table(values["errors"], shown),
        policy_table(values["policy"]),
    ):
        if table.row_count:
            console.print(table)


def policy_table(rows: Sequence[dict[str, Any]]) -> Table:
    """The rules of a policy as a table."""
    from rich.text import Text

    table = simple_table("Policy rules", "rule", "tool", "violated", "counts", "text", "condition", left=6)
    for row in rows:
        counts = "yes" if row["reviewed"] else "not reviewed"
        cells = (row["rule"], row["tool"], row["severity"], counts, row["text"], row["condition_text"])
        table.add_row(*map(Text, cells))
    return table


def _tools_table(tools: Sequence[dict[str, Any]]) -> Table:
    columns = ("tool", "effect", "success", "verified", "failed", "open", "errors", "rules")
    table = simple_table("Tools", *columns, left=1)
    table.columns[0].no_wrap = True  # a name broken in two cannot be searched for
    for row in sorted(tools, key=lambda r: -(r["verified"] + r["failed"] + r["unverified"])):
        numbers = ("verified", "failed", "unverified", "errors_seen", "preconditions_known")
        table.add_row(row["tool"], row["effect"], _rate(row["success_rate"]), *(str(row[name]) for name in numbers))
    return table


def _errors_table(errors: Sequence[dict[str, Any]]) -> Table:
    from rich.text import Text

    table = simple_table("Most frequent errors", "tool", "message", "times", left=2)
    for error in errors:
        table.add_row(Text(error["tool"]), Text(error["message"]), str(error["times"]))
    return table


def _actions_table(actions: Sequence[dict[str, Any]], shown: int | None) -> Table:
    from rich.text import Text

    columns = ("action", "where its arguments come from", "runs", "verified", "failed", "unverified")
    table = simple_table("Actions", *columns, left=3)
    for row in actions:
        origins = "\n".join(_origins(name, value) for name, value in row["arguments"].items())
        numbers = (str(row[name]) for name in ("verified", "failed", "unverified"))
        table.add_row(Text(row["pattern"]), Text(origins), Text(_run_names(row, shown)), *numbers)
    return table


def _preconditions_table(rows: Sequence[dict[str, Any]], shown: int | None) -> Table:
    from rich.text import Text

    columns = ("condition", "runs", "support", "confidence", "necessity", "caught")
    table = simple_table("Preconditions", *columns, left=2)
    for row in rows:
        shares = (_rate(row[name]) for name in ("confidence", "necessity", "caught"))
        table.add_row(Text(row["text"]), Text(_run_names(row, shown)), str(row["support"]), *shares)
    return table


def _tool_errors_table(errors: Sequence[dict[str, Any]], shown: int | None) -> Table:
    from rich.text import Text

    table = simple_table("Errors", "message", "runs", "times", left=2)
    for row in errors:
        table.add_row(Text(row["message"]), Text(_run_names(row, shown)), str(row["times"]))
    return table


def _repairs_table(errors: Sequence[dict[str, Any]], shown: int | None) -> Table:
    from rich.text import Text

    table = simple_table("Repairs", "what resolved an error", "runs", "times", left=2)
    for repair in (repair for error in errors for repair in error["repairs"]):
        table.add_row(Text(repair["text"]), Text(_run_names(repair, shown)), str(repair["resolved"]))
    return table


def _origins(name: str, value: dict[str, Any]) -> str:
    sources = ", ".join(f"{source} ({count})" for source, count in value.get("sources", [])[:_SHOWN_SOURCES])
    choices = " | ".join(value.get("choices", []))
    return f"{name}: {sources or '-'}{f'; one of {choices}' if choices else ''}"


def _run_names(row: dict[str, Any], shown: int | None) -> str:
    runs = row["runs"][:shown]
    more = row["run_count"] - len(runs)
    return "\n".join([*(_place(run) for run in runs), *([f"and {more} more"] if more > 0 else [])])


def _place(run: dict[str, Any]) -> str:
    return f"{run['file'].rsplit('/', 1)[-1]}:{run['record']}"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
