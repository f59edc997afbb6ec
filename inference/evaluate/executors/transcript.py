"""A run as a person reads it: who said and called what, what was shown beside it, and what the gate did."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from graph_schema.trajectory import Effect
from inference.evaluate.executors.episode import Episode, Step
from inference.evaluate.executors.measure import Measures
from inference.evaluate.executors.settings import Arm
from inference.evaluate.tau2.environment import Domain

if TYPE_CHECKING:
    from tau2.data_model.tasks import Action

_LONGEST = 600
"""Characters of a result that are shown."""


def transcript(domain: Domain, episode: Episode, measures: Measures, arm: Arm, trial: int) -> str:
    """The whole run as text; the system prompt is left out."""
    gold = [a for a in episode.task.evaluation_criteria.actions or [] if domain.effects.get(a.name) is Effect.WRITE]
    head = [
        f"{domain.name} task {episode.task.id}, {arm.value}, trial {trial}",
        f"reward {measures.reward:g}, ended: {measures.ended}, right writes {measures.right_writes} of "
        f"{measures.gold_writes}, wrong {measures.wrong_writes}, refused {measures.refused_writes}, steps "
        f"{measures.steps}, {measures.seconds:g} s",
        *(f"wanted: {_written(action)}" for action in gold),
    ]
    return "\n".join([*head, "", *_body(episode)]) + "\n"


def _written(action: Action) -> str:
    return f"{action.name}({', '.join(f'{k}={v}' for k, v in action.arguments.items())})"


def _body(episode: Episode) -> Iterator[str]:
    steps = {step.at: (number, step) for number, step in enumerate(episode.steps, 1)}
    for position, message in enumerate(episode.dialogue.history):
        if position in steps:
            yield from _before(*steps.pop(position))
        if message["role"] == "system":
            continue
        if message["role"] == "tool":
            yield _indented(f"  -> {message['name']}: ", str(message["content"]))
            continue
        if message.get("content"):
            yield _indented(f"{message['role'].upper()}: ", str(message["content"]))
        for call in message.get("tool_calls") or ():
            yield _indented("CALL: ", f"{call['function']['name']} {call['function']['arguments']}")
    for number, step in steps.values():
        yield from _before(number, step)
        yield _indented("ASSISTANT (not carried out): ", step.reply.key)


def _before(number: int, step: Step) -> Iterator[str]:
    used = f"{step.reply.prompt_tokens} tokens, {step.reply.cached_tokens} cached"
    yield f"--- step {number} ({used})"
    if step.note:
        yield textwrap.indent(step.note, "    | ")
    if step.offered is not None:
        yield f"    | narrowed to: {', '.join(step.offered) or 'words'}"
    if step.reply.problem:
        yield f"    | unusable answer: {step.reply.problem}"
    for verdict in step.verdicts:
        yield f"    | gate: {verdict}"


def _indented(head: str, text: str) -> str:
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... ({len(text)} characters)"
    return head + shown.replace("\n", "\n    ")
