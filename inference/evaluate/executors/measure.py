"""What is measured of a run, and the run in tau2's own format."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from graph_schema.trajectory import Effect
from inference.evaluate.executors.episode import End, Episode
from inference.evaluate.executors.settings import Arm
from inference.evaluate.tau2.conversation import START
from inference.evaluate.tau2.environment import Domain

if TYPE_CHECKING:
    from tau2.data_model.simulation import RewardInfo, SimulationRun, TerminationReason


class Measures(BaseModel):
    """A finished run in numbers.

    Attributes:
        reward: tau2's own; 0 for a run that was stuck, as in the package for every run that does not end by itself.
        gold_reads: Reads among the task's gold actions.
        read_matches: Of these, made with the gold arguments.
        gold_writes: Writes among the task's gold actions.
        right_writes: Of these, made: progress.
        wrong_writes: Writes that the environment took and that are no gold write: harm.
        refused_writes: Writes that the environment refused.
        held: Calls that the gate held back.
        unreadable: Answers and calls that could not be read.
        ended: How the run ended.
        steps: Answers of the executor.
        prompt_tokens: Tokens of all its requests.
        cached_tokens: Of these, those the server had at hand.
        completion_tokens: Tokens of all its answers.
        note_tokens: Estimated tokens of all notes shown.
        seconds: Wall-clock time.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reward: float
    gold_reads: int
    read_matches: int
    gold_writes: int
    right_writes: int
    wrong_writes: int
    refused_writes: int
    held: int
    unreadable: int
    ended: End
    steps: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    note_tokens: int
    seconds: float

    @property
    def read_accuracy(self) -> float | None:
        """Share of the gold reads that were made; None if the task has none."""
        return self.read_matches / self.gold_reads if self.gold_reads else None

    @property
    def write_accuracy(self) -> float | None:
        """Share of the gold writes that were made; None if the task has none."""
        return self.right_writes / self.gold_writes if self.gold_writes else None

    @property
    def stuck(self) -> bool:
        """Whether the run was stopped because it went round in circles or on for too long."""
        return self.ended is End.STUCK


class Finished(BaseModel):
    """A run that is over: which, its measures, itself in tau2's format, and its transcript."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    domain: str
    task_id: str
    arm: Arm
    trial: int
    measures: Measures
    simulation: dict[str, Any]
    transcript: str

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What tells it from all others of the same comparison."""
        return (self.domain, self.task_id, self.arm.value, self.trial)


def score(domain: Domain, episode: Episode) -> RewardInfo:
    """tau2's reward of a run, its action checks included whatever the end."""
    reward = domain.evaluate(episode.task, episode.dialogue.messages)
    if episode.ended is not End.STUCK:
        return reward
    return reward.model_copy(update={"reward": 0.0, "info": {"note": "the run did not end by itself"}})


def measure(domain: Domain, episode: Episode, reward: RewardInfo) -> Measures:
    """A run in numbers."""
    from fresh.guidance import estimate_tokens

    checks = reward.action_checks or []
    writes = [check for check in checks if domain.effects.get(check.action.name) is Effect.WRITE]
    reads = [check for check in checks if domain.effects.get(check.action.name) is Effect.READ]
    replies = [step.reply for step in episode.steps]
    return Measures(
        reward=reward.reward,
        gold_reads=len(reads),
        read_matches=sum(check.action_match for check in reads),
        gold_writes=len(writes),
        right_writes=len(episode.right),
        wrong_writes=len(episode.wrong),
        refused_writes=episode.refused,
        held=episode.held,
        unreadable=episode.unreadable,
        ended=episode.ended,
        steps=len(replies),
        prompt_tokens=sum(reply.prompt_tokens for reply in replies),
        cached_tokens=sum(reply.cached_tokens for reply in replies),
        completion_tokens=sum(reply.completion_tokens for reply in replies),
        note_tokens=sum(estimate_tokens(step.note) for step in episode.steps if step.note),
        seconds=round(episode.seconds, 2),
    )


def simulation(domain: Domain, episode: Episode, reward: RewardInfo, arm: Arm, trial: int, seed: int) -> SimulationRun:
    """The run in the package's own form; a second of simulated time a message, so that it does not depend on speed."""
    from tau2.data_model.simulation import SimulationRun

    talk = episode.dialogue
    name = f"fresh/{domain.name}/{episode.task.id}/{arm.value}/{trial}/{seed}"
    return SimulationRun(
        id=str(uuid.uuid5(uuid.NAMESPACE_URL, name)),
        task_id=episode.task.id,
        timestamp=talk.now(),
        start_time=START.isoformat(),
        end_time=talk.now(),
        duration=float(len(talk.messages)),
        termination_reason=_termination(episode.ended),
        reward_info=reward,
        messages=talk.messages,
        trial=trial,
        seed=seed,
    )


def _termination(ended: End) -> TerminationReason:
    from tau2.data_model.simulation import TerminationReason

    return TerminationReason.MAX_STEPS if ended is End.STUCK else TerminationReason.USER_STOP
