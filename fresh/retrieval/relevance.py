"""What a run's own future says of a memory's nodes: the labels of training, and the truth of evaluation.

A decision point is a moment at which the agent was to act. A node is relevant there if what the run still needed, or
still did, bears it out. Nothing but recorded feedback is used: gold actions where the trace has them, otherwise the
verified actions of a run that succeeded, and the errors that the run went on to make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fresh.history import RunIndex
from fresh.mining.credit import is_gold
from fresh.mining.evidence import RunEvidence
from fresh.retrieval.query import Query, make_query
from fresh.retrieval.view import GraphView
from graph_schema.trajectory import CallStatus, Effect, GoldAction, Outcome, Role, ToolCall, Trajectory
from graph_schema.types import TYPE_CODE, NodeType, Relation

NEEDED, WARNED = 2.0, 1.0
"""Grades: of an action, precondition or repair of a tool still needed; of an error to be made, with its repair."""

_NEEDED_TYPES = (NodeType.ACTION, NodeType.PRECONDITION, NodeType.REPAIR)


@dataclass(frozen=True, slots=True)
class DecisionPoint:
    """A moment of a recorded run, with what its future bears out.

    Attributes:
        run_id: The run.
        task_key: Its task.
        turn: The turn that the agent is about to take.
        query: What the memory is asked.
        needed: Tools of the good actions still to come.
        errors: Keys of the Error nodes that the run goes on to show.
    """

    run_id: str
    task_key: str
    turn: int
    query: Query
    needed: frozenset[str]
    errors: frozenset[str]


def decision_points(trajectory: Trajectory, evidence: RunEvidence) -> list[DecisionPoint]:
    """The moments of a run whose future bears something out, in order.

    Args:
        trajectory: The run.
        evidence: What the miner took out of it: one entry a call of the agent, in order.
    """
    index = RunIndex(trajectory.turns)
    offered = None if trajectory.tools is None else [spec.name for spec in trajectory.tools]
    points = []
    for turn, needed, errors in _futures(trajectory, evidence):
        if needed or errors:
            query = make_query(index.at(turn), offered)
            points.append(DecisionPoint(trajectory.id, trajectory.task_key, turn, query, needed, errors))
    return points


def _futures(trajectory: Trajectory, evidence: RunEvidence) -> Iterator[tuple[int, frozenset[str], frozenset[str]]]:
    """``(turn, tools needed, errors to come)`` of every turn of the assistant."""
    calls = list(zip(trajectory.calls(), evidence.calls, strict=True))
    for turn, said in enumerate(trajectory.turns):
        if said.role is not Role.ASSISTANT:
            continue
        later = [entry for (when, _), entry in calls if when >= turn]
        errors = frozenset(f"{entry.tool}: {entry.error}" for entry in later if entry.error is not None)
        if trajectory.gold:
            earlier = [call for (when, call), _ in calls if when < turn]
            needed = frozenset(action.tool for action in gold_to_come(trajectory.gold, earlier))
        elif trajectory.gold is None and trajectory.feedback.outcome is Outcome.SUCCESS:
            needed = frozenset(entry.tool for entry in later if entry.credit.sign > 0)
        else:
            needed = frozenset()
        yield turn, needed, errors


def gold_to_come(gold: Sequence[GoldAction], calls: Sequence[ToolCall]) -> list[GoldAction]:
    """The agent's gold actions that have not been carried out yet; each call carries out one."""
    left = [action for action in gold if not action.by_user]
    for call in calls:
        if call.status is not CallStatus.OK:
            continue
        match = next((action for action in left if is_gold(call, action)), None)
        if match is not None:
            left.remove(match)
    return left


def grades(view: GraphView, point: DecisionPoint) -> NDArray[np.float32]:
    """Relevance of every node at a decision point, [N]: 0, 1 or 2."""
    out = np.zeros(len(view), dtype=np.float32)
    for key in point.errors:
        error = view.graph.find(NodeType.ERROR, key)
        if error is not None:
            out[error] = WARNED
            for repair, _ in view.graph.successors(error, Relation.FIXED_BY):
                out[repair] = WARNED
    rows = [view.tool_index[tool] for tool in point.needed if tool in view.tool_index]
    out[np.isin(view.tool_of, rows) & _can_be_needed(view)] = NEEDED
    return out


def _can_be_needed(view: GraphView) -> NDArray[np.bool_]:
    verified = (view.types != TYPE_CODE[NodeType.ACTION]) | (view.graph.column("success") > 0)
    return np.isin(view.types, [TYPE_CODE[t] for t in _NEEDED_TYPES]) & verified


# -- whole runs ------------------------------------------------------------------------------------------------------


def opening_query(trajectory: Trajectory, turns: int = 3) -> Query:
    """The query made of the user's first turns alone, for the retrieval of runs."""
    said = [i for i, turn in enumerate(trajectory.turns) if turn.role is Role.USER and turn.text]
    history = RunIndex([trajectory.turns[i] for i in said[:turns]])
    own = make_query(history.at(len(history.turns)))
    return Query(parts=own.said, said=own.said, user_turns=own.user_turns)


def good_writes(
    trajectory: Trajectory, evidence: RunEvidence, effect_of: Callable[[str], Effect]
) -> frozenset[str] | None:
    """Tools of the writes that a run is known to have needed.

    Gold writes where the trace has a solution, else the verified writes of a run that succeeded; None where neither is
    known.
    """
    if trajectory.gold is not None:
        tools = (action.tool for action in trajectory.gold if not action.by_user)
        return frozenset(tool for tool in tools if effect_of(tool) is Effect.WRITE)
    if trajectory.feedback.outcome is not Outcome.SUCCESS:
        return None
    return frozenset(e.tool for e in evidence.calls if e.effect is Effect.WRITE and e.credit.sign > 0)


def task_writes(view: GraphView) -> list[frozenset[str] | None]:
    """For each Task node, tools of the writes in its shortest good run; None where no run is known to be good."""
    writes = np.flatnonzero(view.effects[:-1, 1])
    found: list[frozenset[str] | None] = []
    for row in view.sequences:
        used = frozenset(view.tools[i] for i in writes if row[i])
        found.append(used if row.any() else None)
    return found
