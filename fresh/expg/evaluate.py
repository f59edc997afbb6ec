"""Acquisition: from recorded runs to experiences (arXiv 2608.03403, "experience acquisition").

:class:`Evaluator` is what both evaluators offer. :class:`RuleEvaluator` needs no network and no model; the one that
asks a language model is :class:`fresh.expg.judge.LLMEvaluator`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from fresh.expg.experience import ASPECTS, Experience, Judgement, ScoreVector
from fresh.expg.history import History
from fresh.expg.record import RecordedCall, record_calls
from fresh.expg.rules import Findings, Scene, call_key, judge_input, judge_response, judge_use
from fresh.expg.schema_check import UNDECIDED, SchemaChecker
from fresh.expg.shapes import ResponseShapes, collect_shapes, shape_key
from graph_schema.trajectory import ToolSpec, Trajectory


class Evaluator(Protocol):
    """Judges the answered calls of recorded runs."""

    def evaluate(
        self, trajectories: Sequence[Trajectory], tools: Mapping[str, ToolSpec] | None = None
    ) -> list[Experience]:
        """Returns one experience for each of the agent's answered calls, in order."""
        ...


class RuleEvaluator:
    """Judges by rules: deterministic, offline, about a thousand calls a second.

    An aspect that the trace does not decide is listed in ``Judgement.unknown`` and enters the score vector as 1, so
    that the perfect class means "no fault found". The verdicts use the call, what stood before it and what the agent
    did with the answer; never the outcome of the run.

    A tool's *usual* response shape is learnt from all runs given to :meth:`evaluate`, or handed to
    :meth:`evaluate_trajectory` as ``shapes``.
    """

    def __init__(self) -> None:
        self._checker = SchemaChecker()

    def __repr__(self) -> str:
        return "RuleEvaluator()"

    def evaluate(
        self, trajectories: Sequence[Trajectory], tools: Mapping[str, ToolSpec] | None = None
    ) -> list[Experience]:
        """Two passes: response shapes over all runs, then the calls of each.

        Args:
            trajectories: The runs.
            tools: Tools by name, used before each run's own list.
        """
        shapes = collect_shapes(trajectories)
        return [e for t in trajectories for e in self.evaluate_trajectory(t, tools, shapes)]

    def evaluate_trajectory(
        self,
        trajectory: Trajectory,
        tools: Mapping[str, ToolSpec] | None = None,
        shapes: ResponseShapes | None = None,
        *,
        time: float | None = None,
    ) -> list[Experience]:
        """Judges the agent's answered calls of one run.

        Args:
            trajectory: The run.
            tools: Tools by name, used before the run's own list.
            shapes: Usual response shapes (:func:`fresh.expg.shapes.collect_shapes`); None decides no shape.
            time: When the run was learnt; by default its first recorded timestamp.
        """
        history = History(trajectory)
        recorded = record_calls(trajectory, tools, history=history, time=time)
        offered = frozenset(spec.name for spec in trajectory.tools) if trajectory.tools is not None else None
        keys = [call_key(item.call) for item in recorded]
        shapes = shapes or ResponseShapes()
        experiences: list[Experience] = []
        for position, item in enumerate(recorded):
            shape = shape_key(trajectory, item.call.tool)
            scene = Scene(trajectory, history, recorded, position, offered, shapes, shape, keys)
            experiences.append(Experience.of(item.invocation, self._judge(scene, item)))
        return experiences

    def _judge(self, scene: Scene, item: RecordedCall) -> Judgement:
        m = item.invocation
        verdict = UNDECIDED if m.input is None else self._checker.check(m.tool.parameters, m.input)
        findings = Findings()
        judge_input(scene, verdict, findings)
        judge_response(scene, findings)
        judge_use(scene, findings)
        return judgement_of(findings)


def judgement_of(findings: Findings) -> Judgement:
    """The score vector, with what is undecided counted as 1, and the reasons in words."""
    scores: ScoreVector = tuple(findings.scores.get(aspect, 1) for aspect in ASPECTS)  # type: ignore[assignment]
    unknown = tuple(aspect.place for aspect in ASPECTS if aspect not in findings.scores)
    return Judgement(scores=scores, unknown=unknown, explanation=_explain(findings, unknown))


def _explain(findings: Findings, unknown: Iterable[int]) -> str:
    said: dict[str, list[str]] = {}
    for aspect in ASPECTS:
        if aspect in findings.reasons:
            said.setdefault(findings.reasons[aspect], []).append(aspect.value)
    parts = [f"{', '.join(names)}: {reason}." for reason, names in said.items()]
    untold = [ASPECTS[index].value for index in unknown]
    if untold:
        parts.append(f"Not decided, counted as passed: {', '.join(untold)}.")
    return " ".join(parts) or "No fault found."
