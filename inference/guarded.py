"""The gate in an agent's loop: one assistant message's calls in, the messages that answer them out.

.. code-block:: python

    while True:
        reply = model(messages, tools=offered(tools, allowed))      # an OpenAI-style assistant message
        messages.append(reply)
        step = guarded_step(memory, messages, reply["tool_calls"], execute, tools)
        messages += step.messages
        allowed = step.allowed_tools
        if step.question:
            messages += [{"role": "assistant", "content": step.question}, wait_for_user()]

Every call has its own verdict and its own tool message; a call that is held back is never run and takes no other with
it. What runs in place of a call that was held back (a read that must come first, a corrected call) is shown as a call
of its own after the others, so that the chat tells what was done and the gate can build on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fresh.gate import REFUSAL, Decision, Mode, Todo, Verdict
from fresh.live import live_call, plain
from fresh.traces.clean import dumps
from graph_schema.errors import ConfigError
from graph_schema.trajectory import ToolCall

Execute = Callable[[str, dict[str, Any]], Any]
"""Runs a tool by name with arguments; its result is text or a JSON value, what it raises becomes an error message."""
Revise = Callable[[ToolCall, Decision], Any]
"""Makes the next proposal from a call that was held back and its decision; None gives up."""


class Judge(Protocol):
    """A frozen memory, or anything else that gates calls."""

    def gate(
        self,
        tool_call: Any,
        messages: Sequence[Any],
        tools: Sequence[Any] | None = None,
        *,
        revisions: int = 0,
        mode: Mode | None = None,
    ) -> Decision:
        """Judges a call before it is made."""

    def reads(self, tool: str, tools: Sequence[Any] | None = None) -> bool:
        """Whether a tool only reads."""


@dataclass(frozen=True)
class GuardedStep:
    """What came of one assistant message.

    Attributes:
        messages: To be appended to the chat, in order: a tool message for each call of the assistant, then the calls
            that were made in their place with their results.
        decisions: The last decision on each call of the assistant, in their order; None where a call had no name. One
            that allows a call which is not among those executed says that the reads made here have cleared its way.
        executed: Every call that was run, in order.
        allowed_tools: Tools to offer in the next step, see `offered`; None offers all of them, as after a question: the
            user's answer may be the yes that was missing.
        question: What to ask the user before the next step; empty if nothing is to be asked.
        handover: The call that hands the case to a person, if a decision asks for that.
    """

    messages: tuple[dict[str, Any], ...]
    decisions: tuple[Decision | None, ...]
    executed: tuple[ToolCall, ...] = ()
    allowed_tools: tuple[str, ...] | None = None
    question: str = ""
    handover: Todo | None = None


def guarded_step(
    memory: Judge,
    messages: Sequence[Mapping[str, Any]],
    tool_calls: Sequence[Any],
    execute: Execute,
    tools: Sequence[Any] | None = None,
    *,
    run_reads: bool = True,
    revise: Revise | None = None,
    max_revisions: int = 3,
    mode: Mode | None = None,
) -> GuardedStep:
    """Judges and runs the calls of one assistant message, in order.

    Args:
        memory: The judge.
        messages: The chat; it is not changed. The assistant's message that makes the calls may be its last one.
        tool_calls: The calls, OpenAI-style.
        execute: Runs a tool.
        tools: The tools the agent may call.
        run_reads: Run the reads that a call needs first, and hand their results over. The call itself is not run then:
            the agent has not seen them yet.
        revise: Makes another proposal where a call is held back; `corrected` is one. Each is judged afresh.
        max_revisions: Most proposals, and most rounds of reads, for one call.
        mode: ``enforce``, ``advise`` or ``off``, in place of the settings' mode. In every mode a call whose arguments
            cannot be read is not run.
    """
    chat = [dict(message) for message in map(plain, messages)]
    calls = [plain(call) for call in tool_calls]
    if not chat or not chat[-1].get("tool_calls"):
        chat.append({"role": "assistant", "content": None, "tool_calls": calls})
    step = _Step(memory, chat, execute, tools, run_reads, revise, max_revisions, mode)
    for position, call in enumerate(calls):
        step.take(call, position)
    return step.result()


def corrected(call: ToolCall, decision: Decision) -> dict[str, Any] | None:
    """A revision for `guarded_step` that makes corrections which leave no choice; None where something else is due."""
    if not decision.todo or any(todo.kind != "correct_argument" or not todo.arguments for todo in decision.todo):
        return None
    return {"name": call.tool, "arguments": decision.todo[0].arguments}


def offered(tools: Sequence[Mapping[str, Any]], allowed: Sequence[str] | None) -> list[Mapping[str, Any]]:
    """The tools of a list that the next step may use."""
    if allowed is None:
        return list(tools)
    return [tool for tool in tools if (tool.get("function") or tool).get("name") in allowed]


@dataclass
class _Step:
    """One assistant message under way."""

    memory: Judge
    chat: list[dict[str, Any]]
    execute: Execute
    tools: Sequence[Any] | None
    run_reads: bool
    revise: Revise | None
    max_revisions: int
    mode: Mode | None
    answers: list[dict[str, Any]] = field(default_factory=list)
    made: list[tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=list)
    decisions: list[Decision | None] = field(default_factory=list)
    executed: list[ToolCall] = field(default_factory=list)

    def take(self, proposed: Any, position: int) -> None:
        """Judges one call, runs it or says why not."""
        call_id = str((proposed.get("id") if isinstance(proposed, Mapping) else None) or f"call_{position}")
        try:
            call = live_call(proposed)
        except ConfigError as error:
            self._answer(call_id, "", f"{REFUSAL}{error}", None)
            return
        decision = self._judge(call)
        if decision.allowed:
            self._answer(call_id, call.tool, self._result(call, decision), decision)
            return
        self._answer(call_id, call.tool, *self._in_place_of(call, decision))

    def result(self) -> GuardedStep:
        """The step once every call has been taken."""
        held = [d for d in self.decisions if d is not None and not d.allowed]
        names = tuple(dict.fromkeys(name for d in held for name in d.allowed_tools or ()))
        question = " ".join(dict.fromkeys(d.question for d in held if d.question))
        calls = [call for call, _ in self.made]
        inserted = [{"role": "assistant", "content": None, "tool_calls": calls}] if calls else []
        return GuardedStep(
            messages=(*self.answers, *inserted, *(answer for _, answer in self.made)),
            decisions=tuple(self.decisions),
            executed=tuple(self.executed),
            allowed_tools=names if held and not question else None,
            question=question,
            handover=next((d.todo[0] for d in held if d.verdict is Verdict.TRANSFER and d.todo), None),
        )

    def _judge(self, call: Any, revisions: int = 0) -> Decision:
        inserted = [{"role": "assistant", "content": None, "tool_calls": [c]} for c, _ in self.made]
        done = [message for pair in zip(inserted, (a for _, a in self.made), strict=True) for message in pair]
        history = [*self.chat, *self.answers, *done]
        return self.memory.gate(call, history, self.tools, revisions=revisions, mode=self.mode)

    def _in_place_of(self, call: ToolCall, decision: Decision) -> tuple[str, Decision]:
        """Runs what a held call needs first, then a revision of it if one is to be had; what to tell the agent."""
        notes: list[str] = []
        for _ in range(self.max_revisions if self.run_reads else 0):
            reads = self._reads(decision)
            if decision.verdict is not Verdict.REVISE or not reads:
                break
            notes += [f"Done for you, the result follows: call {tool} {dumps(arguments)}" for tool, arguments in reads]
            decision = self._judge(call)
        text = "\n".join([_held(decision), *notes])
        if self.revise is None:
            return text, decision
        proposed = decision
        for revisions in range(1, self.max_revisions + 1):
            another = self.revise(proposed.call, proposed) if proposed.verdict is Verdict.REVISE else None
            if another is None:
                break
            proposed = self._judge(live_call(another), revisions)
            if proposed.allowed:
                self._make(proposed)
                shown = f"call {proposed.call.tool} {dumps(proposed.call.arguments)}"
                return f"{text}\nMade instead, the result follows: {shown}", proposed
        return text, decision

    def _reads(self, decision: Decision) -> list[tuple[str, dict[str, Any]]]:
        """Runs the reads of a decision that are allowed themselves."""
        done = []
        for todo in decision.todo:
            if todo.kind != "call" or not self.memory.reads(todo.tool, self.tools):
                continue
            read = self._judge((todo.tool, todo.arguments))
            if read.allowed:
                self._make(read)
                done.append((todo.tool, todo.arguments))
        return done

    def _make(self, decision: Decision) -> None:
        """Runs a call that the agent did not propose, shown as a call of its own."""
        call = decision.call
        call_id = f"fresh{len(self.chat)}x{len(self.made)}"
        arguments = dumps(call.arguments) if call.arguments is not None else call.raw_arguments
        shown = {"id": call_id, "type": "function", "function": {"name": call.tool, "arguments": arguments}}
        self.made.append((shown, _tool_message(call_id, call.tool, self._result(call, decision))))

    def _result(self, call: ToolCall, decision: Decision) -> str:
        if decision.answer is not None:
            return decision.answer
        if call.arguments is None:
            return f"{REFUSAL}the arguments of {call.tool} cannot be read: {call.parse_error or 'not a JSON object'}"
        self.executed.append(call)
        try:
            result = self.execute(call.tool, call.arguments)
        except Exception as error:  # a tool that fails is news for the agent, not the end of its run
            return f"Error: {type(error).__name__}: {error}"
        return result if isinstance(result, str) else dumps(plain(result))

    def _answer(self, call_id: str, tool: str, text: str, decision: Decision | None) -> None:
        self.answers.append(_tool_message(call_id, tool, text))
        self.decisions.append(decision)


def _held(decision: Decision) -> str:
    """What to tell the agent of a call that was not run."""
    if not decision.allowed:
        return decision.message()
    return f"{REFUSAL}What it needed had not been read. Make the call again if the results bear it out."


def _tool_message(call_id: str, tool: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "name": tool, "content": text}
