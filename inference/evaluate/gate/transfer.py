"""What a memory's guards do on tools that it has never seen: nothing, but for the stated default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fresh.gate import Gate, Verdict
from fresh.history import RunIndex
from fresh.live import Live
from graph_schema.trajectory import ToolCall, ToolSpec, Trajectory
from graph_schema.types import NodeType
from inference.evaluate.gate.judging import tools_of

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Transfer:
    """Calls of runs, split by whether memory knows the tool.

    Attributes:
        default: The gate's setting for writes that it has never seen.
        known_calls: Calls of tools that memory knows.
        unseen_calls: Calls of tools that it does not.
        known_mined: Findings of mined guards on known tools, warnings included.
        unseen_mined: Findings of mined guards on unseen tools: what was learned elsewhere must not fire here.
        unseen_checks: What the default found on unseen tools, by check.
        unseen_verdicts: The verdicts on unseen tools.
    """

    default: str
    known_calls: int
    unseen_calls: int
    known_mined: int
    unseen_mined: int
    unseen_checks: dict[str, int]
    unseen_verdicts: dict[str, int]

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return dict(vars(self))


def measure_transfer(gate: Gate, runs: Iterable[Trajectory], tools: Mapping[str, ToolSpec] | None = None) -> Transfer:
    """Puts every call of the runs to the gate and sorts the findings by where they come from.

    A finding is of a mined guard if a Precondition node of the memory stands behind it.

    Args:
        gate: The gate.
        runs: Recorded runs, of any domain; those under attack are passed over.
        tools: Tools by name, for runs that list none.
    """
    calls: Counter[bool] = Counter()
    mined: Counter[bool] = Counter()
    checks: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    for run in runs:
        if run.feedback.attack is not None:
            continue
        index = RunIndex(run.turns)
        specs = tools_of(run, tools)
        for turn, call in run.calls():
            seen = call.tool in gate.index
            calls[seen] += 1
            unanswered = ToolCall.model_construct(**(dict(call) | {"observation": None}))
            decision = gate.decide(unanswered, Live(index.at(turn)), specs)
            mined[seen] += sum(_is_mined(gate, finding.node) for finding in decision.findings)
            if seen:
                continue
            checks.update(f.check for f in decision.findings if not _is_mined(gate, f.node))
            verdicts[decision.verdict.value] += 1
    return Transfer(
        default=gate.settings.unknown_tool,
        known_calls=calls[True],
        unseen_calls=calls[False],
        known_mined=mined[True],
        unseen_mined=mined[False],
        unseen_checks=dict(sorted(checks.items())),
        unseen_verdicts={v.value: verdicts[v.value] for v in Verdict if verdicts[v.value]},
    )


def _is_mined(gate: Gate, node: int | None) -> bool:
    return node is not None and gate.index.graph.node(node).type is NodeType.PRECONDITION


def transfer_table(transfer: Transfer) -> Table:
    """Findings on known and on unseen tools."""
    from rich.table import Table

    table = Table(title=f"Tools this memory knows, and tools it has never seen (default: {transfer.default})")
    table.add_column("tools")
    for heading in ("calls", "mined guards violated", "held"):
        table.add_column(heading, justify="right")
    held = transfer.unseen_calls - transfer.unseen_verdicts.get(Verdict.ALLOW.value, 0)
    table.add_row("known", str(transfer.known_calls), str(transfer.known_mined), "")
    table.add_row("never seen", str(transfer.unseen_calls), str(transfer.unseen_mined), str(held))
    if transfer.unseen_checks:
        found = ", ".join(f"{check} {count}" for check, count in transfer.unseen_checks.items())
        table.caption = f"found by the default: {found}"
    return table
