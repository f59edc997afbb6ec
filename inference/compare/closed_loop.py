"""Closed-loop measures from recorded results: pass^k, read and write action accuracy, steps, prompt tokens.

The results are tau2's own files, or runs read from any trace that has gold actions, so that whatever a loop records can
be measured again, and compared task by task with another recording.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fresh.mining.credit import is_gold
from fresh.traces.tools import infer_effect
from graph_schema.errors import ConfigError
from graph_schema.trajectory import CallStatus, Effect, Role, Trajectory
from inference.evaluate.tau2.passk import Estimate, interval, pass_gain, pass_table

SUCCESS = 1.0 - 1e-6
"""A reward from here on is a success, as in tau2's own metrics."""

EffectOf = Callable[[str], Effect]


@dataclass(frozen=True, slots=True)
class Matched:
    """Gold actions of one kind: how many there are, and how many were made."""

    part: int
    whole: int


@dataclass(frozen=True, slots=True)
class LoopRun:
    """One run of a closed loop.

    Attributes:
        task: The task.
        trial: Which of the task's runs.
        reward: The evaluator's.
        reads: Gold reads of the agent.
        writes: Gold writes of the agent. A handover or a calculation is neither.
        steps: Messages of the agent after the user's first.
        prompt_tokens: Of all its requests; None where the recording is silent.
    """

    task: str
    trial: int
    reward: float
    reads: Matched
    writes: Matched
    steps: int
    prompt_tokens: int | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the reward counts as a success."""
        return self.reward >= SUCCESS


@dataclass(frozen=True)
class ClosedLoop:
    """What was measured, each with its interval over tasks; None where nothing was counted.

    Attributes:
        pass_hat: pass^1 to pass^n, n the fewest runs of a task.
        read_accuracy: Share of a task's gold reads that were made, mean over the tasks that have any.
        write_accuracy: The same of gold writes.
        steps: Of a run, mean over tasks.
        prompt_tokens: Of a run, mean over the tasks that say.
        tasks: Distinct tasks.
        runs: All runs.
    """

    pass_hat: Mapping[int, Estimate]
    read_accuracy: Estimate | None
    write_accuracy: Estimate | None
    steps: Estimate | None
    prompt_tokens: Estimate | None
    tasks: int
    runs: int


# -- reading ---------------------------------------------------------------------------------------------------------


def read_results(path: Path, effect_of: EffectOf = infer_effect) -> list[LoopRun]:
    """Reads a tau2 results file; runs that were never evaluated are left out.

    Args:
        path: The file, plain or gzipped.
        effect_of: What a tool does.

    Raises:
        ConfigError: The file is missing, or holds no evaluated simulation.
    """
    from fresh.traces import files, tau2
    from fresh.traces.clean import ignore

    if not path.is_file():
        raise ConfigError(f"there is no results file {path}")
    found = [
        run
        for record in files.iter_array(path, tau2.RUNS, ignore)
        if isinstance(record.value, Mapping) and (run := from_simulation(record.value, effect_of)) is not None
    ]
    if not found:
        raise ConfigError(f"{path} holds no evaluated simulation: give a results file of tau2")
    return found


def from_simulation(simulation: Mapping[str, Any], effect_of: EffectOf = infer_effect) -> LoopRun | None:
    """One of tau2's simulation records; None where it was never evaluated."""
    rewarded = simulation.get("reward_info")
    if not isinstance(rewarded, Mapping) or not isinstance(rewarded.get("reward"), int | float):
        return None
    checks = [check for check in rewarded.get("action_checks") or () if isinstance(check, Mapping)]
    own = [check for check in checks if check.get("action", {}).get("requestor", "assistant") == "assistant"]
    made = [(effect_of(str(check.get("action", {}).get("name"))), bool(check.get("action_match"))) for check in own]
    steps, tokens = _steps(simulation.get("messages") or ())
    return LoopRun(
        task=str(simulation.get("task_id")),
        trial=int(simulation.get("trial") or 0),
        reward=float(rewarded["reward"]),
        reads=_matched(made, Effect.READ),
        writes=_matched(made, Effect.WRITE),
        steps=steps,
        prompt_tokens=tokens,
    )


def from_trajectory(trajectory: Trajectory, effect_of: EffectOf = infer_effect) -> LoopRun | None:
    """A recorded run with a reward and gold actions; None where either is missing."""
    reward = trajectory.feedback.reward
    if reward is None or trajectory.gold is None:
        return None
    done = [call for _, call in trajectory.calls() if call.status is CallStatus.OK]
    own = [gold for gold in trajectory.gold if not gold.by_user]
    made = [(effect_of(gold.tool), any(is_gold(call, gold) for call in done)) for gold in own]
    roles = [turn.role for turn in trajectory.turns]
    start = roles.index(Role.USER) if Role.USER in roles else 0
    return LoopRun(
        task=trajectory.task_key,
        trial=trajectory.trial or 0,
        reward=reward,
        reads=_matched(made, Effect.READ),
        writes=_matched(made, Effect.WRITE),
        steps=sum(role is Role.ASSISTANT for role in roles[start:]),
    )


def _matched(made: Iterable[tuple[Effect, bool]], kind: Effect) -> Matched:
    own = [match for effect, match in made if effect is kind]
    return Matched(sum(own), len(own))


def _steps(messages: Sequence[Any]) -> tuple[int, int | None]:
    """Messages of the agent after the user's first, and the prompt tokens they took."""
    known = [message for message in messages if isinstance(message, Mapping)]
    first = next((i for i, message in enumerate(known) if message.get("role") == "user"), 0)
    own = [message for message in known[first:] if message.get("role") == "assistant"]
    usages = [message.get("usage") for message in own]
    tokens = [usage["prompt_tokens"] for usage in usages if isinstance(usage, Mapping) and "prompt_tokens" in usage]
    return len(own), sum(tokens) if tokens else None


# -- measuring -------------------------------------------------------------------------------------------------------


def closed_loop(runs: Sequence[LoopRun], *, resamples: int = 2_000, seed: int = 0) -> ClosedLoop:
    """Measures the runs of one loop.

    Args:
        runs: All runs; at least one.
        resamples: Bootstrap resamples.
        seed: Of the resampling.

    Raises:
        ConfigError: There are no runs, or one task has the same trial twice.
    """
    by_task = _by_task(runs)

    def mean(values: Iterable[float | None]) -> Estimate | None:
        counted = [value for value in values if value is not None]
        return interval(counted, resamples=resamples, seed=seed) if counted else None

    return ClosedLoop(
        pass_hat=pass_table(_outcomes(by_task), resamples=resamples, seed=seed),
        read_accuracy=mean(_accuracy([run.reads for run in own]) for own in by_task.values()),
        write_accuracy=mean(_accuracy([run.writes for run in own]) for own in by_task.values()),
        steps=mean(sum(run.steps for run in own) / len(own) for own in by_task.values()),
        prompt_tokens=mean(_tokens(own) for own in by_task.values()),
        tasks=len(by_task),
        runs=len(runs),
    )


def gain(
    before: Sequence[LoopRun], after: Sequence[LoopRun], *, resamples: int = 2_000, seed: int = 0
) -> dict[int, Estimate]:
    """The paired difference of pass^k between two loops on the same tasks.

    Raises:
        ConfigError: There are no runs, or the tasks are not the same.
    """
    return pass_gain(_outcomes(_by_task(before)), _outcomes(_by_task(after)), resamples=resamples, seed=seed)


def _by_task(runs: Sequence[LoopRun]) -> dict[str, list[LoopRun]]:
    found: dict[str, list[LoopRun]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.task, run.trial)):
        if any(run.trial == other.trial for other in found[run.task]):
            raise ConfigError(f"task {run.task} has trial {run.trial} twice: measure one recording at a time")
        found[run.task].append(run)
    return dict(found)


def _outcomes(by_task: Mapping[str, Sequence[LoopRun]]) -> dict[str, list[bool]]:
    return {task: [run.succeeded for run in own] for task, own in by_task.items()}


def _accuracy(parts: Sequence[Matched]) -> float | None:
    whole = sum(part.whole for part in parts)
    return sum(part.part for part in parts) / whole if whole else None


def _tokens(runs: Sequence[LoopRun]) -> float | None:
    counted = [run.prompt_tokens for run in runs if run.prompt_tokens is not None]
    return sum(counted) / len(counted) if counted else None
