"""One run of one task: the executor, its user, the environment, and between them the notes and the gate of an arm."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from graph_schema.trajectory import Effect
from inference.evaluate.executors.advice import Adviser
from inference.evaluate.executors.agent import Executor
from inference.evaluate.executors.dialogue import Dialogue
from inference.evaluate.executors.narrowing import narrowed
from inference.evaluate.executors.reply import Reply, proposed_call
from inference.evaluate.executors.settings import LoopSettings
from inference.evaluate.executors.user import User
from inference.evaluate.tau2.environment import Domain
from inference.guarded import Judge, guarded_step

if TYPE_CHECKING:
    from tau2.data_model.tasks import Action, Task

    from fresh.gate import Decision

GREETING = "Hi! How can I help you today?"
"""How tau2's agents open a conversation."""


class End(StrEnum):
    """How a run ended."""

    DONE = "done"
    """The user got what they wanted."""
    TRANSFERRED = "transferred"
    """Handed over to a person."""
    USER_LEFT = "user left"
    """The user gave up."""
    STUCK = "stuck"
    """The same action again and again, or too many steps."""


@dataclass
class Step:
    """One answer of the executor, for the transcript.

    Attributes:
        at: Length of the history when it was asked for.
        note: What it was shown besides the conversation.
        offered: Tools it was narrowed to; None if it had all.
        verdicts: The gate's verdict on each of its calls, in order.
    """

    at: int
    note: str
    offered: tuple[str, ...] | None
    reply: Reply
    verdicts: list[str] = field(default_factory=list)


@dataclass
class Episode:
    """A finished run.

    Attributes:
        right: Gold writes that were made.
        wrong: Writes that the environment took and that are no gold write.
        refused: Writes that the environment refused.
        held: Calls that the gate held back.
        unreadable: Answers and calls that could not be read.
        ended: How it ended.
    """

    task: Task
    dialogue: Dialogue
    steps: list[Step] = field(default_factory=list)
    right: list[Action] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    refused: int = 0
    held: int = 0
    unreadable: int = 0
    ended: End = End.STUCK
    seconds: float = 0.0


class Runner:
    """Runs a task once.

    Args:
        domain: The task's domain.
        task: The task.
        executor: The model that acts.
        user: Whoever it talks to.
        settings: Bounds.
        adviser: Makes the note of each step; None for no notes.
        gate: Judges each call; None for no gate.
    """

    def __init__(
        self,
        domain: Domain,
        task: Task,
        executor: Executor,
        user: User,
        settings: LoopSettings,
        adviser: Adviser | None = None,
        gate: Judge | None = None,
    ) -> None:
        self._domain = domain
        self._executor = executor
        self._user = user
        self._settings = settings
        self._adviser = adviser
        self._gate = gate
        self._environment = domain.environment()
        self._talk = Dialogue(executor.system)
        self._episode = Episode(task, self._talk)
        actions = task.evaluation_criteria.actions or []
        self._waiting = [action for action in actions if domain.effects.get(action.name) is Effect.WRITE]
        self._to_tell = bool(task.evaluation_criteria.communicate_info)
        self._offered: list[dict[str, Any]] = domain.tools
        self._tried: Counter[str] = Counter()  # proposals by action, since something new came
        self._seen: set[tuple[str, str, str]] = set()
        self._complaint = ""
        self._ended = False

    def run(self) -> Episode:
        """Runs the task to its end.

        Raises:
            EvaluatorError: The endpoint failed for good.
        """
        self._executor.start()
        started = time.perf_counter()
        self._talk.assistant(GREETING)
        self._talk.user(self._user.opening())
        while not self._ended and len(self._episode.steps) < self._settings.max_steps:
            self._step()
        self._episode.seconds = time.perf_counter() - started
        return self._episode

    def _end(self, how: End) -> None:
        self._episode.ended = how
        self._ended = True

    def _step(self) -> None:
        note = self._note()
        narrowed_to = None if self._offered is self._domain.tools else tuple(map(_name, self._offered))
        at = len(self._talk.history)
        reply = self._executor.act(self._talk.history, note, self._offered, self._talk.next_id())
        self._episode.steps.append(Step(at, note, narrowed_to, reply))
        self._offered, self._complaint = self._domain.tools, ""
        self._tried[reply.key] += 1
        if self._tried[reply.key] >= self._settings.max_same:
            self._end(End.STUCK)
        elif reply.problem:
            self._episode.unreadable += 1
            self._complaint = f"Your last answer could not be used: {reply.problem}."
        elif reply.calls:
            self._call(reply)
        else:
            self._talk.assistant(reply.text)
            self._hear()

    def _note(self) -> str:
        shown = ""
        if self._adviser is not None:
            budget = self._settings.guidance_tokens
            shown = self._adviser.note(self._talk.history, self._offered, budget)
        return "\n\n".join(text for text in (shown, self._complaint) if text)

    def _hear(self) -> None:
        """The user answers the executor's last words."""
        words = self._user.reply(self._talk.history, self._waiting)
        self._talk.user(words.text)
        latest = self._episode.steps[-1].reply.key
        self._tried = Counter({latest: self._tried[latest]})  # after the answer the same action is still the same
        if words.ends:
            self._end(End.USER_LEFT if self._waiting else End.DONE)

    # -- calls ----------------------------------------------------------------------------------------------------

    def _call(self, reply: Reply) -> None:
        self._talk.propose(reply.calls, reply.text)
        self._episode.unreadable += sum(call.arguments is None for call in reply.calls)
        if self._gate is not None:
            self._guarded(self._gate, reply)
            return
        for call in reply.calls:
            if call.arguments is None:
                self._talk.answer(call, f"Error: the arguments of {call.tool} cannot be read: {call.problem}")
            else:
                self._talk.answer(call, self._execute(call.tool, call.arguments))

    def _execute(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Makes a call and sees what it means for the run; after its end nothing is made any more."""
        if self._ended:
            return "Error: the conversation is over."
        text, refused = self._talk.execute(tool, arguments, self._environment)
        writes = self._domain.effects.get(tool) is Effect.WRITE
        outcome = (tool, repr(sorted(arguments.items())), text)
        if outcome not in self._seen:
            self._seen.add(outcome)
            latest = self._episode.steps[-1].reply.key
            self._tried = Counter({latest: 1})
        if refused:
            self._episode.refused += writes
        elif writes:
            self._written(tool, arguments)
        elif tool == self._settings.handover_tool:
            self._end(End.TRANSFERRED)
        return text

    def _written(self, tool: str, arguments: Mapping[str, Any]) -> None:
        from tau2.data_model.message import ToolCall

        made = ToolCall(id="made", name=tool, arguments=dict(arguments))
        gold = next((action for action in self._waiting if action.compare_with_tool_call(made)), None)
        if gold is None:
            self._episode.wrong.append(f"{tool} {dict(arguments)}")
            return
        self._waiting.remove(gold)
        self._episode.right.append(gold)
        if not self._waiting and not self._to_tell:  # otherwise the user still waits for an answer
            self._end(End.DONE)

    # -- through the gate -----------------------------------------------------------------------------------------

    def _guarded(self, gate: Judge, reply: Reply) -> None:
        """Each call of the message gets its own verdict and its own answer; then what the gate asks for is done."""
        talk, tools = self._talk, self._domain.tools
        calls = [call.openai() for call in reply.calls]
        step = guarded_step(gate, talk.history, calls, self._execute, tools, run_reads=self._settings.run_reads)
        talk.history.extend(step.messages)
        decisions = [decision for decision in step.decisions if decision is not None]
        self._episode.steps[-1].verdicts += [f"{decision.verdict}: {decision.reason}" for decision in decisions]
        held = [decision for decision in decisions if not decision.allowed]
        self._episode.held += len(held)
        if step.handover is not None and not self._ended:
            self._make(step.handover.tool, step.handover.arguments)
            talk.assistant("I am handing you over to a person who can help.")
            self._end(End.TRANSFERRED)
        if step.question and not self._ended:
            talk.assistant(step.question)
            self._hear()
            held = [again for decision in held if not (again := self._ask_again(gate, decision)).allowed]
        if held:
            self._offered = narrowed(tools, held)

    def _ask_again(self, gate: Judge, held: Decision) -> Decision:
        """Judges a held call in the light of the user's answer, and makes it if their yes was all that was missing."""
        decision = gate.gate(held.call, self._talk.history, self._domain.tools)
        if decision.allowed and held.question and not self._ended:
            self._episode.steps[-1].verdicts.append(f"{decision.verdict}: {decision.reason} (made after the answer)")
            self._make(held.call.tool, held.call.arguments or {})
        return decision

    def _make(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """A call of the loop's own, shown as a message of its own."""
        call = proposed_call(self._talk.next_id(), tool, dict(arguments))
        self._talk.propose([call])
        self._talk.answer(call, self._execute(tool, arguments))


def _name(tool: Mapping[str, Any]) -> str:
    return str(tool["function"]["name"])
