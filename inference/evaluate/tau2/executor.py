"""The simulated executor: a careful agent that follows a task's gold actions and errs at set rates.

It is no language model. It knows what the right call would be, because it follows the gold actions; its errors are
injected (see :mod:`.faults`), and what it does about a gate's answer follows fixed rules:

* **Revise**: it does what each item of ``decision.todo`` names, in order, and tries again, at most
  ``max_revisions`` times. It knows nothing else of the memory.

  - ``call``: makes that call as it stands. Arguments it had guessed because it had not read, or miswritten in a
    refused call, are then filled rightly if the result shows the right value. An argument taken from the wrong object
    is not: the executor believes in it.
  - ``ask_user``: says that text; the scripted user says yes.
  - ``correct_argument``: replaces that argument and no other. With one candidate it takes it; with several the one it
    meant all along, else the first. In a list or object only the values it got wrong are replaced. With no candidates
    it goes back to the source: it makes the omitted reads that show the value, and fills it in without the error.
* **Block**: it drops the call.
* **Transfer**: it calls the handover tool, if the domain has it, and the run ends.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from graph_schema.trajectory import Effect
from inference.evaluate.tau2.conversation import Conversation
from inference.evaluate.tau2.environment import Domain
from inference.evaluate.tau2.faults import Fault, FaultMaker
from inference.evaluate.tau2.plan import Call, Read, Step, TaskPlan, execute, shown_by
from inference.evaluate.tau2.settings import ErrorKind, Settings
from inference.evaluate.tau2.values import Knowledge, Path, Scalar, at, leaves, replaced


class Decision(Protocol):
    """What the executor needs of a gate's answer."""

    @property
    def verdict(self) -> str:
        """``allow``, ``revise``, ``block`` or ``transfer``."""

    @property
    def todo(self) -> Sequence[Any]:
        """What to do first; each item has a ``kind``, and the fields of that kind."""


class Gate(Protocol):
    """Anything that judges a call before it is made, a frozen memory above all."""

    def gate(
        self,
        tool_call: Mapping[str, Any],
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> Decision:
        """Judges one call in the light of the messages so far."""


class Result(StrEnum):
    """What became of a call."""

    DONE = "done"
    REFUSED = "refused"  # by the environment
    HELD = "held"  # by the gate, to the end
    ENDED = "ended"  # the gate handed the run over


@dataclass
class FaultLog:
    """One injected error and what became of it; kept beside the run, never in it.

    Attributes:
        step: Index of the gold write it was made at.
        call: The erroneous call; for a repeated failed call, the one that is repeated.
        gold: The call that was due.
        wrong: Names of the arguments that are wrong in it.
        message: Index of the message of its first appearance in the environment; None if the gate kept it away.
        reached: It reached the environment as it was (a repeated call: once more after its refusal).
        accepted: The environment took it.
        mended: The gold call was made in the end.
    """

    kind: ErrorKind
    step: int
    call: Call
    gold: Call
    wrong: tuple[str, ...]
    message: int | None = None
    reached: bool = False
    accepted: bool = False
    mended: bool = False


@dataclass
class WriteLog:
    """One gold write and what became of it.

    Attributes:
        faulty: An error was injected at it.
        proposed: The right call was put forward, at once or after correction.
        due: It was right and due: proposed with nothing injected, and the environment would take it.
        revised: Times the gate answered it with anything but Allow.
        made: The right call reached the environment.
    """

    step: int
    faulty: bool
    proposed: bool = False
    due: bool = False
    revised: int = 0
    made: bool = False


@dataclass
class Run:
    """A finished run.

    Attributes:
        latencies: Seconds of each gate decision, with whether the call was a write.
        reads_held: Calls that write nothing and that the gate did not let through.
    """

    task_id: str
    trial: int
    conversation: Conversation
    faults: list[FaultLog] = field(default_factory=list)
    writes: list[WriteLog] = field(default_factory=list)
    latencies: list[tuple[float, bool]] = field(default_factory=list)
    verdicts: dict[str, int] = field(default_factory=dict)
    reads_held: int = 0


@dataclass
class _Attempt:
    call: Call
    gold: Call
    right: dict[Path, Scalar] = field(default_factory=dict)
    omitted: tuple[Read, ...] = ()
    learns: bool = True
    held: int = 0
    held_gold: int = 0
    proposed_gold: bool = False

    def fill(self, path: Path, value: Any) -> None:
        """Replaces one value; what is then right is no longer wrong."""
        self.call = replace(self.call, arguments=replaced(self.call.arguments, path, value))
        self.right = {wrong: right for wrong, right in self.right.items() if at(self.call.arguments, wrong) != right}


_YES = ("Yes.", "Yes, please.", "Yes, go ahead.", "Yes, I confirm.", "Yes, please proceed.")


class Executor:
    """Runs one task once.

    Args:
        domain: The task's domain.
        plan: What a careful agent would do.
        faults: Makes its errors.
        settings: Rates, shares and bounds.
        trial: Number of the run among the task's runs.
        gate: Asked before every call; None for the ungated executor. The errors drawn do not depend on it.
    """

    def __init__(
        self,
        domain: Domain,
        plan: TaskPlan,
        faults: FaultMaker,
        settings: Settings,
        trial: int = 0,
        gate: Gate | None = None,
    ) -> None:
        self._domain = domain
        self._plan = plan
        self._faults = faults
        self._settings = settings
        self._gate = gate
        self._environment = domain.environment()
        self._knowledge = Knowledge()
        self._talk = Conversation(domain.policy)
        self._seed = f"{settings.seed}/{domain.name}/{plan.task.id}/{trial}"
        self._rng = random.Random(self._seed)
        self._made: list[tuple[Call, bool, int]] = []  # call, refused, index of its message
        self._ended = False
        self.run_log = Run(plan.task.id, trial, self._talk)

    def run(self) -> Run:
        """Runs the task to its end."""
        self._talk.assistant("Hi! How can I help you today?")
        self._hear(self._plan.request)
        self._talk.assistant("I can help with that. Who am I speaking with, and what else should I know?")
        self._hear(self._plan.details)
        for step in self._plan.steps:
            if not self._ended:
                self._step(step)
        if not self._ended:
            facts = ", ".join(self._plan.facts)
            self._talk.assistant(f"That is all done. To sum up: {facts}." if facts else "That is all done.")
        self._talk.user("Thank you, that is all. ###STOP###")
        return self.run_log

    def _hear(self, text: str) -> None:
        self._talk.user(text)
        self._knowledge.tell(text)

    def _step(self, step: Step) -> None:
        if step.write is None:
            self._read_all(step.reads)
            return
        rng = random.Random(f"{self._seed}/{step.index}")
        kind = self._faults.draw(rng) if step.works else None
        fault = None
        if kind in (ErrorKind.SKIPPED_READ, ErrorKind.PREMATURE_WRITE):
            fault = self._faults.without_reads(
                kind, step, self._pending(step.reads), self._knowledge, self._environment, rng
            )
        omitted = fault.omitted if fault else ()
        self._read_all([read for read in step.reads if read not in omitted])
        if kind is ErrorKind.WRONG_OBJECT:
            fault = self._faults.wrong_object(step, self._knowledge, self._environment, rng)
        elif kind is ErrorKind.REPEATED_FAILED_CALL:
            fault = self._faults.refused(step, self._environment, rng)
        if not self._ended:
            self._write(step, fault, rng)

    def _write(self, step: Step, fault: Fault | None, rng: random.Random) -> None:
        assert step.write is not None
        log = WriteLog(step.index, faulty=fault is not None)
        start = len(self._made)
        attempt = _Attempt(step.write, step.write)
        if fault:
            attempt = _Attempt(
                fault.call,
                step.write,
                dict(fault.right),
                fault.omitted,
                learns=fault.kind is not ErrorKind.WRONG_OBJECT,
            )
        elif self._gate:
            log.due = execute(self._domain.fork(self._environment), step.write) is not None
        if not fault or fault.kind is not ErrorKind.PREMATURE_WRITE:
            self._confirm(attempt.call)
        result = self._submit(attempt)
        if result is Result.REFUSED and fault:
            result = self._after_refusal(attempt, fault, rng)
        if result in (Result.REFUSED, Result.HELD) and not self._ended:
            self._talk.assistant(f"I am sorry, I could not {_words(step.write.tool)}. Let us go on.")
        since = self._made[start:]
        log.proposed, log.revised = attempt.proposed_gold, attempt.held_gold
        log.made = any(call.same_as(step.write) and not refused for call, refused, _ in since)
        self.run_log.writes.append(log)
        if fault:
            self._log_fault(step, fault, since, log.made)

    def _log_fault(self, step: Step, fault: Fault, since: list[tuple[Call, bool, int]], mended: bool) -> None:
        assert step.write is not None
        times = [(refused, message) for call, refused, message in since if call.same_as(fault.call)]
        needed = 2 if fault.kind is ErrorKind.REPEATED_FAILED_CALL else 1
        self.run_log.faults.append(
            FaultLog(
                kind=fault.kind,
                step=step.index,
                call=fault.call,
                gold=step.write,
                wrong=tuple(sorted({str(path[0]) for path in fault.right})),
                message=times[0][1] if times else None,
                reached=len(times) >= needed,
                accepted=any(not refused for refused, _ in times),
                mended=mended,
            )
        )

    def _after_refusal(self, attempt: _Attempt, fault: Fault, rng: random.Random) -> Result:
        if fault.kind is ErrorKind.REPEATED_FAILED_CALL:
            for _ in range(self._settings.repeats):
                result = self._submit(attempt)
                if result is not Result.REFUSED:
                    return result
            return Result.REFUSED
        if rng.random() >= self._settings.recovery:
            return Result.REFUSED
        self._read_all(attempt.omitted)
        for path, right in list(attempt.right.items()):
            attempt.fill(path, right)
        self._confirm(attempt.call)
        return self._submit(attempt)

    def _read_all(self, reads: Sequence[Read]) -> None:
        for read in self._pending(reads):
            if self._ended:
                return
            if self._submit(_Attempt(read.call, read.call)) is Result.HELD:
                self.run_log.reads_held += 1

    def _pending(self, reads: Sequence[Read]) -> list[Read]:
        return [r for r in reads if not any(r.call.same_as(call) for call, refused, _ in self._made if not refused)]

    def _confirm(self, call: Call) -> None:
        values = ", ".join(f"{'.'.join(map(str, path))}: {leaf}" for path, leaf in leaves(call.arguments))
        self._ask(f"I am about to {_words(call.tool)} with these details: {values}. Shall I go ahead (yes or no)?")

    def _ask(self, text: str) -> None:
        self._talk.assistant(text)
        self._hear(self._rng.choice(_YES))

    def _submit(self, attempt: _Attempt) -> Result:
        """Puts a call to the gate, revises it as told, and makes it once it is allowed."""
        for revision in range(self._settings.max_revisions + 1):
            is_gold = attempt.call.same_as(attempt.gold)
            attempt.proposed_gold |= is_gold
            decision = self._judge(attempt.call)
            if decision is None or decision.verdict == "allow":
                return Result.REFUSED if self._make(attempt.call)[1] else Result.DONE
            attempt.held_gold += is_gold
            if decision.verdict == "transfer":
                self._hand_over()
                return Result.ENDED
            if decision.verdict == "block" or revision == self._settings.max_revisions:
                break
            for item in decision.todo:
                self._follow(item, attempt)
        return Result.HELD

    def _judge(self, call: Call) -> Decision | None:
        if self._gate is None:
            return None
        proposed = self._talk.openai_call(call)
        start = time.perf_counter()
        decision = self._gate.gate(proposed, self._talk.history, tools=self._domain.tools)
        seconds = time.perf_counter() - start
        self.run_log.latencies.append((seconds, self._domain.effects.get(call.tool) is Effect.WRITE))
        verdict = str(decision.verdict)
        self.run_log.verdicts[verdict] = self.run_log.verdicts.get(verdict, 0) + 1
        return decision

    def _make(self, call: Call) -> tuple[str, bool]:
        message = len(self._talk.messages)
        text, refused = self._talk.call(call, self._environment)
        self._made.append((call, refused, message))
        if not refused:
            self._knowledge.observe(text)
        return text, refused

    def _follow(self, item: Any, attempt: _Attempt) -> None:
        if item.kind == "call":
            text, refused = self._make(Call(item.tool, dict(item.arguments)))
            if not refused and attempt.learns:
                shown = shown_by(text)
                for path, right in list(attempt.right.items()):
                    if str(right) in shown:
                        attempt.fill(path, right)
        elif item.kind == "ask_user":
            if item.text:
                self._ask(item.text)
            else:
                self._confirm(attempt.call)
        elif item.kind == "correct_argument":
            self._correct(item, attempt)

    def _correct(self, item: Any, attempt: _Attempt) -> None:
        name = re.split(r"[.\[]", item.argument)[0]
        if name not in attempt.call.arguments:
            return
        doubted = {path: right for path, right in attempt.right.items() if path[0] == name}
        if not item.candidates:
            for path, right in doubted.items():
                self._read_all([read for read in attempt.omitted if str(right) in read.shows])
                attempt.fill(path, right)
            return
        meant = attempt.gold.arguments.get(name)
        whole = not isinstance(meant, list | dict) or isinstance(item.candidates[0], list | dict)
        targets: dict[Path, Any] = {(name,): meant} if whole else dict(doubted)
        for path, value in targets.items():
            attempt.fill(path, value if value in item.candidates else item.candidates[0])

    def _hand_over(self) -> None:
        tool = self._settings.handover_tool
        if tool in self._domain.required:
            summary = f"The request could not be completed: {self._plan.request}"
            self._make(Call(tool, dict.fromkeys(self._domain.required[tool], summary)))
        self._talk.assistant("I am handing you over to a person who can help.")
        self._ended = True


def _words(tool: str) -> str:
    return tool.replace("_", " ")
