"""The simulated executor: a careful agent that follows a task's gold actions and errs at set rates.

It is no language model. It knows what the right call would be, because it follows the gold actions; its errors are
injected (see :mod:`.faults`), and what it does about a gate's answer follows fixed rules:

* **Revise**: it does what each item of ``decision.todo`` names, in order, and tries again, at most
  ``max_revisions`` times. It knows nothing else of the memory.

  - ``call``: makes that call as it stands. Arguments it had guessed because it had not read, or miswritten in a
    refused call, are then filled rightly if the result shows the right value. An argument taken from the wrong object
    is not: the executor believes in it, unless it ``notices`` (a setting, 0 as shipped) on reading that object.
  - ``ask_user``: says that text; the scripted user says yes.
  - ``correct_argument``: replaces that argument and no other. With one candidate it takes it; with several the one it
    meant all along, else the first. In a list or object only the value that is named wrong is replaced or, where none
    is named, those it did get wrong. With no candidates it goes back to the source: it makes the omitted reads that
    show the value, and fills it in without the error; a value that was right stays.
* **Block**: it drops the call.
* **Transfer**: it makes the handover call that is named, or that of the settings, and the run ends.

A call that was held back was not made: neither it nor the refusal stands in the history.
"""

from __future__ import annotations

import inspect
import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from graph_schema.trajectory import Effect
from inference.evaluate.tau2.conversation import Conversation
from inference.evaluate.tau2.environment import Domain
from inference.evaluate.tau2.faults import Fault, FaultMaker
from inference.evaluate.tau2.plan import Call, Read, Step, TaskPlan, execute, shown_by
from inference.evaluate.tau2.run import FaultLog, Result, Run, WriteLog
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
    """Anything that judges a call before it is made, a frozen memory above all.

    A gate that also takes ``revisions`` is told how often the call was revised already, and so can settle it at last.
    """

    def gate(
        self,
        tool_call: Mapping[str, Any],
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> Decision:
        """Judges one call in the light of the messages so far."""


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
        self._counts_revisions = gate is not None and "revisions" in inspect.signature(gate.gate).parameters
        self._environment = domain.environment(plan.task)
        self._knowledge = Knowledge()
        self._talk = Conversation(domain.policy)
        self._seed = f"{settings.seed}/{domain.name}/{plan.task.id}/{trial}"
        self._rng = random.Random(self._seed)
        self._notice = random.Random(f"{self._seed}/notice")
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
        self._count_writes()
        return self.run_log

    def _count_writes(self) -> None:
        """Harm and progress apart: writes that were made and are wrong, and those that are right."""
        due = [step.write for step in self._plan.steps if step.write]
        for call, refused, _ in self._made:
            if refused or self._domain.effects.get(call.tool) is not Effect.WRITE:
                continue
            match = next((write for write in due if write.same_as(call)), None)
            if match is None:
                self.run_log.wrong_writes += 1
                continue
            due.remove(match)
            self.run_log.right_writes += 1

    def _hear(self, text: str) -> None:
        self._talk.user(text)
        self._knowledge.tell(text)

    def _step(self, step: Step) -> None:
        if step.write is None:
            self._read_all(step.reads)
            if step.by_user is not None and not self._ended:
                self._have_done(step.by_user)
            return
        rng = random.Random(f"{self._seed}/{step.index}")
        kind = self._faults.draw(rng) if step.works else None
        fault = None
        if kind in (ErrorKind.SKIPPED_READ, ErrorKind.PREMATURE_WRITE):
            pending = self._pending(step.reads)
            fault = self._usable(
                self._faults.without_reads(kind, step, pending, self._knowledge, self._environment, rng)
            )
        omitted = fault.omitted if fault else ()
        self._read_all([read for read in step.reads if read not in omitted])
        if kind is ErrorKind.WRONG_OBJECT:
            fault = self._usable(self._faults.wrong_object(step, self._knowledge, self._environment, rng))
        elif kind is ErrorKind.REPEATED_FAILED_CALL:
            fault = self._usable(self._faults.refused(step, self._environment, rng))
        if not self._ended:
            self._write(step, fault, rng)

    def _have_done(self, call: Call) -> None:
        """Asks the user to do something with a tool of their own, and hears what came of it."""
        values = ", ".join(f"{'.'.join(map(str, path))}: {leaf}" for path, leaf in leaves(call.arguments))
        self._talk.assistant(f"Please {_words(call.tool)} on your side{f' ({values})' if values else ''}.")
        self._hear(f"I did that. It says: {self._talk.user_call(call, self._environment)}")

    def _usable(self, fault: Fault | None) -> Fault | None:
        """An error, unless its call is right in itself and only out of order."""
        if fault and any(step.write and fault.call.same_as(step.write) for step in self._plan.steps):
            return None
        return fault

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
        else:
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
            decision = self._judge(attempt.call, revision)
            if decision is None or decision.verdict == "allow":
                return Result.REFUSED if self._make(attempt.call)[1] else Result.DONE
            attempt.held_gold += is_gold
            for check in {f.check for f in getattr(decision, "findings", ()) if f.verdict != "allow"}:
                self.run_log.count_guard(check, right=is_gold)
            if decision.verdict == "transfer":
                self.run_log.stuck = True
                self._hand_over(decision.todo)
                return Result.ENDED
            if decision.verdict == "block" or revision == self._settings.max_revisions:
                break
            for item in decision.todo:
                self._follow(item, attempt)
        self.run_log.stuck = True
        return Result.HELD

    def _judge(self, call: Call, revision: int) -> Decision | None:
        if self._gate is None:
            return None
        proposed = self._talk.openai_call(call)
        told: dict[str, Any] = {"revisions": revision} if self._counts_revisions else {}
        start = time.perf_counter()
        decision = self._gate.gate(proposed, self._talk.history, tools=self._domain.tools, **told)
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
            call = Call(item.tool, dict(item.arguments))
            text, refused = self._make(call)
            if not refused:
                self._learn(call, text, attempt)
        elif item.kind == "ask_user":
            if item.text:
                self._ask(item.text)
            else:
                self._confirm(attempt.call)
        elif item.kind == "correct_argument":
            self._correct(item, attempt)

    def _learn(self, call: Call, text: str, attempt: _Attempt) -> None:
        """Puts right what a named call has shown to be wrong."""
        shown, asked = shown_by(text), {str(leaf) for _, leaf in leaves(call.arguments)}
        for path, right in list(attempt.right.items()):
            if attempt.learns:
                sees = str(right) in shown
            else:
                looked_at = str(at(attempt.call.arguments, path)) in asked
                sees = looked_at and self._notice.random() < self._settings.notices
            if sees:
                attempt.fill(path, right)

    def _correct(self, item: Any, attempt: _Attempt) -> None:
        name = re.split(r"[.\[]", item.argument)[0]
        if name not in attempt.call.arguments:
            return
        targets = _targets(item, name, attempt)
        if item.candidates:
            for path in targets:
                meant = _find(attempt.gold.arguments, path)
                attempt.fill(path, meant if meant in item.candidates else item.candidates[0])
            return
        for path, right in list(attempt.right.items()):
            if any(path[: len(target)] == target for target in targets):
                self._read_all([read for read in attempt.omitted if str(right) in read.shows])
                attempt.fill(path, right)

    def _hand_over(self, todo: Sequence[Any]) -> None:
        named = next((Call(item.tool, dict(item.arguments)) for item in todo if item.kind == "call"), None)
        tool = self._settings.handover_tool
        if named is None and tool in self._domain.required:
            summary = f"The request could not be completed: {self._plan.request}"
            named = Call(tool, dict.fromkeys(self._domain.required[tool], summary))
        if named:
            self._make(named)
        self._talk.assistant("I am handing you over to a person who can help.")
        self._ended = True


def _targets(item: Any, name: str, attempt: _Attempt) -> list[Path]:
    """Where in the call a ``correct_argument`` replaces something."""
    argument = attempt.call.arguments[name]
    if not isinstance(argument, list | dict) or any(isinstance(value, list | dict) for value in item.candidates):
        return [(name,)]
    wrong = getattr(item, "value", None)
    if wrong is not None:
        return [(name, *path) for path, leaf in leaves(argument) if leaf == wrong]
    return [path for path in attempt.right if path[0] == name]


def _find(arguments: Any, path: Path) -> Any:
    try:
        return at(arguments, path)
    except (KeyError, IndexError, TypeError):
        return None


def _words(tool: str) -> str:
    return tool.replace("_", " ")
