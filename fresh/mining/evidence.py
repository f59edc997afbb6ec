"""What one run contributes to the graph, taken out of it once.

Small, plain and picklable, so that runs can be read in several processes and reduced in one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fresh.expg.experience import ScoreVector
from fresh.history import History, RunIndex
from fresh.mining.credit import Credit, CreditedCall, EffectOf, credit_run
from fresh.mining.patterns import action_pattern, choice_at, error_message, in_words, request_text
from fresh.mining.repairs import Fix, repairs_in_run
from fresh.mining.use import Use, use_evidence
from fresh.traces.structure import parse_observation
from fresh.values import argument_leaves, is_data_key
from graph_schema.graph import Run
from graph_schema.trajectory import CallStatus, Effect, Outcome, ToolSpec, Trajectory

if TYPE_CHECKING:
    from fresh.expg.evaluate import RuleEvaluator

MALFORMED = "malformed arguments"


@dataclass(frozen=True, slots=True)
class Judged:
    """ExpG's view of one answered call (`fresh.expg`): the ten scores, and its sizes."""

    scores: ScoreVector
    length: int
    success: bool
    seconds: float | None
    tokens: int | None


@dataclass(frozen=True)
class CallEvidence:
    """One call: its pattern, credit, and what came back."""

    tool: str
    pattern: str
    effect: Effect
    credit: Credit
    fields: tuple[str, ...] | None
    """Fields of the observation; None when there was none or it was an error."""
    error: str | None
    arguments: dict[str, Any] | None
    origins: tuple[tuple[str, str], ...]
    """``(argument, origin)`` of a verified call."""
    choices: tuple[tuple[str, str], ...]
    """``(argument, choice-like value)`` of a verified call."""
    judged: Judged | None = None


@dataclass(frozen=True)
class RunEvidence:
    """One run's part of the graph."""

    run: Run
    request: str
    outcome: Outcome
    calls: tuple[CallEvidence, ...]
    uses: tuple[Use, ...]
    fixes: tuple[tuple[int, Fix, int], ...]
    tools: tuple[ToolSpec, ...] = ()
    solution: tuple[str, ...] | None = None
    """Tools of the agent's actions in the task's own solution, in order; None where the trace has none."""


def run_evidence(trajectory: Trajectory, effect_of: EffectOf, evaluator: RuleEvaluator | None = None) -> RunEvidence:
    """Takes out what a run shows; ExpG's judgement of its calls too, where an evaluator is given."""
    index = RunIndex(trajectory.turns)
    credited = credit_run(trajectory, effect_of, index)
    views: dict[int, History] = {}
    subject = trajectory.subject or f"{trajectory.domain}/{trajectory.task_id}"
    judged = _judge(trajectory, evaluator) if evaluator is not None else {}
    calls, uses = [], []
    for item in credited:
        history = views.setdefault(item.turn, index.at(item.turn))
        pattern = action_pattern(item.call.tool, item.call.arguments)
        calls.append(_call_evidence(item, pattern, history, judged.get(item.call.id)))
        if item.effect is Effect.WRITE and item.call.arguments is not None and _first_try(credited, item):
            uses.append(use_evidence(trajectory.id, subject, item.call, pattern, item.credit.sign, history))
    return RunEvidence(
        run=_run(trajectory),
        request=request_text(
            trajectory.request, (item.call for item in credited), (paths for _, _, paths in index.shown)
        ),
        outcome=trajectory.feedback.outcome,
        calls=tuple(calls),
        uses=tuple(uses),
        fixes=tuple(repairs_in_run(credited, trajectory.feedback.outcome)),
        tools=trajectory.tools or (),
        solution=None if trajectory.gold is None else tuple(a.tool for a in trajectory.gold if not a.by_user),
    )


def _judge(trajectory: Trajectory, evaluator: RuleEvaluator) -> dict[str, Judged]:
    return {
        e.invocation.call: Judged(e.scores, e.tokens, e.invocation.success, e.invocation.seconds, e.invocation.tokens)
        for e in evaluator.evaluate_trajectory(trajectory)
    }


def _first_try(credited: list[CreditedCall], item: CreditedCall) -> bool:
    """A repeat of a failed call says nothing new about what the call needs."""
    return item.credit is not Credit.REPEATED


def _run(trajectory: Trajectory) -> Run:
    times = [turn.timestamp for turn in trajectory.turns if turn.timestamp is not None]
    return Run(
        id=trajectory.id,
        task_key=trajectory.task_key,
        domain=trajectory.domain,
        outcome=str(trajectory.feedback.outcome),
        agent=trajectory.agent or "",
        file=trajectory.source.file,
        record=trajectory.source.record,
        time=min(times) if times else float("nan"),
    )


def _call_evidence(item: CreditedCall, pattern: str, history: History, judged: Judged | None) -> CallEvidence:
    call = item.call
    error = None
    if call.arguments is None:
        error = MALFORMED
    elif call.status is CallStatus.ERROR and call.observation is not None:
        error = error_message(call.observation.text, call.arguments)
    verified = item.credit.sign > 0 and call.arguments is not None
    return CallEvidence(
        tool=call.tool,
        pattern=pattern,
        effect=item.effect,
        credit=item.credit,
        fields=observed_fields(call.observation.text) if call.status is CallStatus.OK and call.observation else None,
        error=error,
        arguments=call.arguments,
        origins=tuple(_origins(call.arguments or {}, history)) if verified else (),
        choices=tuple(_choices(call.arguments or {})) if verified else (),
        judged=judged,
    )


def observed_fields(text: str) -> tuple[str, ...]:
    """Names of the fields that an observation brings, sorted; data among the keys shows as ``{}``."""
    data = parse_observation(text)
    if isinstance(data, list):
        rows = [row for row in data if isinstance(row, dict)]
        if not rows:
            return ("[]",)
        return tuple(sorted({f"[].{name}" for row in rows[:20] for name in _field_names(row)}))
    if isinstance(data, dict):
        return tuple(sorted(set(_field_names(data))))
    return ("text",)


def _field_names(data: Mapping[str, Any]) -> list[str]:
    return ["{}" if is_data_key(str(name)) else str(name) for name in data]


def _origins(arguments: dict[str, Any], history: History) -> list[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for path, value in argument_leaves(arguments):
        if value in (None, "") or isinstance(value, bool):
            continue
        found[path, str(history.source(value))] += 1
    return sorted(found)


def _choices(arguments: dict[str, Any]) -> list[tuple[str, str]]:
    found = ((path, choice_at(path, value)) for path, value in argument_leaves(arguments))
    return sorted({(path, text) for path, text in found if text is not None})


def observation_text(tool: str, fields: tuple[str, ...]) -> str:
    """What an Observation node says."""
    return f"{in_words(tool)} returns {', '.join(in_words(f) if f not in ('{}', '[]') else f for f in fields)}"
