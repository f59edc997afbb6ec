"""What an arm shows the executor at each step besides the conversation."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from fresh.guidance import estimate_tokens
from fresh.retrieval.bm25 import BM25Index
from graph_schema.errors import ConfigError
from graph_schema.trajectory import CallStatus, Outcome, ToolCall, Trajectory
from inference.memory import FrozenMemory

_HEADING = "Notes from earlier runs with a similar request, the actions that solved it:"

Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]]


class Adviser(Protocol):
    """Makes a note for the next step."""

    def note(self, messages: Messages, tools: Tools, budget: int) -> str:
        """The note; empty if there is nothing to say.

        Args:
            messages: The conversation so far.
            tools: The tools of this step: all of the domain, or what the gate has narrowed them to.
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
        """The sequences, each different one once, as many as the budget holds; the same at every step of a run.

        Where it holds none, they are told by the names of their tools alone.
        """
        request = next((str(m["content"]) for m in messages if m["role"] == "user"), "")
        scores = self._index.scores(request)
        ranked = sorted(range(len(self._runs)), key=lambda i: -scores[i])
        found = [self._runs[i] for i in ranked if scores[i] > 0]
        for named in (_sequence, _tools):
            lines = list(dict.fromkeys(f"- {named(run)}" for run in found))[: self._count]
            for count in range(len(lines), 0, -1):
                note = "\n".join([_HEADING, *lines[:count]])
                if estimate_tokens(note) <= budget:
                    return note
        return ""


def _sequence(run: Trajectory) -> str:
    """The calls that worked, in order, by name and parameters; a call repeated at once is named once."""
    return ", then ".join(_runs_of(f"{call.tool}({', '.join(call.arguments or ())})" for call in _worked(run)))


def _tools(run: Trajectory) -> str:
    """The same by name alone."""
    return ", then ".join(_runs_of(call.tool for call in _worked(run)))


def _worked(run: Trajectory) -> Iterator[ToolCall]:
    return (call for _, call in run.calls() if call.status is CallStatus.OK)


def _runs_of(names: Iterable[str]) -> list[str]:
    """Names without those that repeat the one before them."""
    return [name for name, _ in itertools.groupby(names)]
