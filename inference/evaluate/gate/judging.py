"""The gate's word on each recorded write, beside what the write turned out to be.

Each write of a run is judged on the history it was made from, its result hidden. The runs must be of tasks that the
memory was not mined from: `cross_judge` sees to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fresh.conditions import KINDS
from fresh.gate import Decision, Gate, GateSettings, Verdict
from fresh.history import RunIndex
from fresh.knowledge import ToolIndex
from fresh.live import Live
from fresh.mining.patterns import error_message
from fresh.traces.tools import infer_effect
from graph_schema.errors import ConfigError
from graph_schema.graph import ExperienceGraph
from graph_schema.trajectory import CallStatus, Effect, ToolCall, ToolSpec, Trajectory
from inference.evaluate.gate.kinds import Mark, Mistake, Usual, marks
from inference.evaluate.gate.solutions import Label, Solutions

NO_SOLUTIONS = (
    "no run has gold actions and no task has a run that succeeded, so nobody can say which writes were right: "
    "give runs of a benchmark that records its solutions or its outcomes"
)


@dataclass(frozen=True)
class Judged:
    """One recorded write and what the gate says of it.

    Attributes:
        task: The group of tasks it belongs to: the unit of resampling.
        data: The data set it is reported under.
        label: What it turned out to be.
        accepted: The environment took it.
        checks: What speaks against it so that it is held.
        score: How surely it breaks a guard, 0 to 1, whatever the verdict.
        mistake: What is wrong with it, where it is wrong.
        marks: Signs in its history that right writes rarely bear.
        fold: Part of the tasks it is in.
    """

    task: str
    data: str
    domain: str
    tool: str
    label: Label
    accepted: bool
    verdict: Verdict
    checks: tuple[str, ...] = ()
    score: float = 0.0
    mistake: Mistake | None = None
    marks: frozenset[Mark] = frozenset()
    fold: int = 0

    @property
    def held(self) -> bool:
        """Whether it was not let through."""
        return self.verdict is not Verdict.ALLOW

    @property
    def foreseeable(self) -> bool:
        """Whether its history holds structural evidence against it; else only its meaning was wrong."""
        return bool(self.marks)


def data_set(trajectory: Trajectory) -> str:
    """What a run is reported under: its format and domain, apart where it was under attack."""
    return _named(f"{trajectory.format.replace('_', '-')} {trajectory.domain}".strip(), trajectory)


def format_of(trajectory: Trajectory) -> str:
    """As `data_set`, with the domains of a format together."""
    return _named(trajectory.format.replace("_", "-"), trajectory)


def _named(name: str, trajectory: Trajectory) -> str:
    return f"{name}, under attack" if trajectory.feedback.attack is not None else name


def judge_runs(
    gate: Gate,
    trajectories: Iterable[Trajectory],
    tasks: Callable[[Trajectory], str] | None = None,
    *,
    solutions: Solutions | None = None,
    fold: int = 0,
    data: Callable[[Trajectory], str] = data_set,
    tools: Mapping[str, ToolSpec] | None = None,
) -> list[Judged]:
    """Judges every write of the runs that can be labelled; the others are passed over.

    Args:
        gate: The gate.
        trajectories: Runs that the memory was not mined from.
        tasks: Group of a run, for resampling; its task key by default.
        solutions: What is right; by default worked out from the runs themselves.
        fold: Part of the tasks these runs are in.
        data: Name of the data set of a run.
        tools: Tools by name, for runs that list none.
    """
    runs = list(trajectories)
    solutions = solutions or Solutions(runs)
    judged: list[Judged] = []
    for trajectory in runs:
        if solutions.knows(trajectory):
            group = tasks(trajectory) if tasks else trajectory.task_key
            place = _Place(group, data(trajectory), fold)
            judged += _judge_run(gate, trajectory, solutions, place, tools_of(trajectory, tools))
    return judged


def tools_of(trajectory: Trajectory, others: Mapping[str, ToolSpec] | None = None) -> Mapping[str, ToolSpec] | None:
    """The tools that a run lists, by name, else those given; None where there are none."""
    return {spec.name: spec for spec in trajectory.tools} if trajectory.tools else others or None


@dataclass(frozen=True)
class _Place:
    task: str
    data: str
    fold: int


def _judge_run(
    gate: Gate,
    trajectory: Trajectory,
    solutions: Solutions,
    place: _Place,
    specs: Mapping[str, ToolSpec] | None,
) -> list[Judged]:
    index = RunIndex(trajectory.turns)
    labels = solutions.of(trajectory)
    judged = []
    for turn, call in trajectory.calls():
        if not _writes(gate, specs, call.tool):
            continue
        history = index.at(turn)
        truth = labels.label(call, history)
        unanswered, live = _unanswered(call), Live(history)
        decision = gate.decide(unanswered, live, specs)
        judged.append(
            Judged(
                task=place.task,
                data=place.data,
                domain=trajectory.domain,
                tool=call.tool,
                label=truth.label,
                accepted=call.status is CallStatus.OK,
                verdict=decision.verdict,
                checks=tuple(f.check for f in decision.findings if f.verdict is not Verdict.ALLOW),
                score=violation_score(decision, gate.score(unanswered, live)),
                mistake=truth.mistake,
                marks=marks(call, history, known_refusal=_known_refusal(gate, call)),
                fold=place.fold,
            )
        )
    return judged


def _unanswered(call: ToolCall) -> ToolCall:
    return ToolCall.model_construct(**(dict(call) | {"observation": None}))


def violation_score(decision: Decision, mined: float) -> float:
    """How sure the gate is that a write is wrong: by the conditions it breaks, or surely where it could not have run.

    Args:
        decision: The gate's.
        mined: `Gate.score` of the write.
    """
    sure = any(f.verdict is not Verdict.ALLOW and f.check not in KINDS for f in decision.findings)
    return 1.0 if sure else mined


def _writes(gate: Gate, specs: Mapping[str, ToolSpec] | None, tool: str) -> bool:
    spec = (specs or {}).get(tool)
    effect = spec.effect if spec is not None and spec.effect is not None else gate.index.effect(tool)
    return (effect or infer_effect(tool)) is Effect.WRITE


def _known_refusal(gate: Gate, call: ToolCall) -> bool:
    tool = gate.index.get(call.tool)
    if tool is None or call.status is not CallStatus.ERROR or call.observation is None:
        return False
    return tool.error(error_message(call.observation.text, call.arguments)) is not None


def only_telling(judged: Sequence[Judged]) -> list[Judged]:
    """The same, with only those signs kept that right writes of the same tool rarely bear."""
    usual = Usual((j.domain, j.tool, j.marks) for j in judged if j.label is Label.RIGHT)
    return [replace(j, marks=usual.telling(j.domain, j.tool, j.marks)) for j in judged]


def cross_judge(
    trajectories: Sequence[Trajectory],
    *,
    count: int = 5,
    seed: int = 0,
    settings: GateSettings | None = None,
    effects: dict[str, Effect] | None = None,
    subject_arguments: Iterable[str] = (),
    miner: Callable[[list[Trajectory]], ExperienceGraph] | None = None,
    data: Callable[[Trajectory], str] = data_set,
    tools: Mapping[str, ToolSpec] | None = None,
) -> list[Judged]:
    """Mines each part of the tasks' complement and judges the part, so that every run is judged by other tasks alone.

    Runs under attack are judged and never mined.

    Args:
        trajectories: All runs; those that cannot be labelled are mined from but not judged.
        count: Number of parts.
        seed: Of the split.
        settings: Of the gate.
        effects: What the caller says of tools.
        subject_arguments: Arguments that name whose request it is; tasks of one subject stay together.
        miner: Makes the graph; `fresh.mining.mine` by default.
        data: Name of the data set of a run.
        tools: Tools by name, for runs that list none; what they do counts in mining too.

    Raises:
        ConfigError: No run can be labelled, or there are fewer groups of tasks than parts.
    """
    from fresh.mining import mine
    from fresh.splits import folds, task_groups

    solutions = Solutions(trajectories)
    if not any(solutions.knows(trajectory) for trajectory in trajectories):
        raise ConfigError(NO_SOLUTIONS)
    groups = task_groups(trajectories, subject_arguments)
    parts = folds(groups, count, seed)
    group_of = {id(t): f"group {g}" for t, g in zip(trajectories, groups, strict=True)}
    said = {name: spec.effect for name, spec in (tools or {}).items() if spec.effect is not None} | (effects or {})
    make = miner or (lambda runs: mine(runs, effects=said))
    judged: list[Judged] = []
    for part in range(count):
        others = [t for t, p in zip(trajectories, parts, strict=True) if p != part and t.feedback.attack is None]
        held_out = [t for t, p in zip(trajectories, parts, strict=True) if p == part]
        gate = Gate(ToolIndex(make(others)), settings)
        judged += judge_runs(
            gate, held_out, lambda t: group_of[id(t)], solutions=solutions, fold=part, data=data, tools=tools
        )
    return judged
