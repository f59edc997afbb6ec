"""What an arm shows the executor at each step besides the conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fresh.guidance import estimate_tokens
from fresh.retrieval.bm25 import BM25Index
from graph_schema.errors import ConfigError
from graph_schema.trajectory import CallStatus, Outcome, Trajectory
from inference.memory import FrozenMemory

Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]]


class Adviser(Protocol):
    """Makes a note for the next step."""

    def note(self, messages: Messages, tools: Tools, budget: int) -> str:
        """The note; empty if there is nothing to say.

        Args:
            messages: The conversation so far.
            tools: All tools of the domain.
            budget: Most tokens, by `fresh.guidance.estimate_tokens`.
        """


class MemoryAdviser:
    """A frozen memory's guidance.

    Args:
        memory: The memory.
    """

    def __init__(self, memory: FrozenMemory) -> None:
        self._memory = memory

    def note(self, messages: Messages, tools: Tools, budget: int) -> str:
        """The guidance for the next step, made anew from the conversation."""
        return self._memory.guide(messages, tools, budget=budget).text


class SequenceNotes:
    """The action sequences of successful recorded runs whose requests resemble this one most, by BM25.

    Args:
        runs: Recorded runs; those without success are left out.
        count: Sequences shown.

    Raises:
        ConfigError: No run was successful.
    """

    def __init__(self, runs: Sequence[Trajectory], count: int = 2) -> None:
        self._runs = [run for run in runs if run.feedback.outcome is Outcome.SUCCESS and run.request]
        if not self._runs:
            raise ConfigError("no recorded run was successful, so there is no action sequence to take notes from")
        self._index = BM25Index.build([run.request for run in self._runs])
        self._count = count

    def note(self, messages: Messages, tools: Tools, budget: int) -> str:
        """The sequences, each different one once; the same at every step of a run."""
        request = next((str(m["content"]) for m in messages if m["role"] == "user"), "")
        scores = self._index.scores(request)
        ranked = sorted(range(len(self._runs)), key=lambda i: -scores[i])
        lines: dict[str, None] = {}
        for position in ranked:
            if scores[position] <= 0 or len(lines) == self._count:
                break
            lines.setdefault(f"- {_sequence(self._runs[position])}")
        if not lines:
            return ""
        note = "\n".join(["Notes from earlier runs with a similar request, the actions that solved it:", *lines])
        return note if estimate_tokens(note) <= budget else ""


def _sequence(run: Trajectory) -> str:
    """The calls that worked, in order, by name and parameters; a call repeated at once is named once."""
    names: list[str] = []
    for _, call in run.calls():
        name = f"{call.tool}({', '.join(call.arguments or ())})"
        if call.status is CallStatus.OK and names[-1:] != [name]:
            names.append(name)
    return ", then ".join(names)
