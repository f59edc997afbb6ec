"""A recorded run, as every reader produces it and every later stage consumes it.

A trajectory is ``tau = (x, a_1, o_1, ..., a_T, o_T, F)`` (FRESH, section 3): the request, tool calls with their
observations, and feedback. It is kept as turns, because confirmation, grounding and credit all depend on what was
said between the calls. Calls sit in the turn that made them, and each call holds its own observation, so that a
call id reused later in the same run can never join the wrong pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict


class Outcome(StrEnum):
    """How a run ended. Unknown is a value of its own and never counts as failure."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


class CallStatus(StrEnum):
    """What a call's own observation says of it."""

    OK = "ok"
    ERROR = "error"
    UNANSWERED = "unanswered"  # no result was recorded: neither success nor failure


class Role(StrEnum):
    """Who speaks in a turn."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    OTHER = "other"  # a role the format invented, such as a checker; kept, never mined as speech


class Effect(StrEnum):
    """What a tool does to the world."""

    READ = "read"
    WRITE = "write"
    OTHER = "other"  # neither: a calculation, a thought, a handover to a person


class Record(BaseModel):
    """Base of the immutable records."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolSpec(Record):
    """A tool as its owner describes it."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    """JSON Schema of the arguments object."""
    effect: Effect | None = None
    """From annotations or the trace; None when nobody said."""


class Observation(Record):
    """The result of one call."""

    text: str
    is_error: bool = False
    truncated: bool = False
    """The recorder had cut the text already."""


class ToolCall(Record):
    """One call of a tool, with its result.

    Attributes:
        id: ``<run id>/<turn>/<position>``, unique whatever ids the trace used.
        arguments: The arguments object; None when the recorded text is not a JSON object.
        raw_arguments: The arguments exactly as recorded, as text.
        parse_error: Why ``arguments`` is None.
        by_user: The simulated or real user made this call with a tool of their own.
        recorded_id: The id in the trace; may be absent, empty or reused.
        seconds: Wall time of the call, if recorded.
        tokens: Tokens of the model call that produced it, if recorded.
    """

    id: str
    tool: str
    arguments: dict[str, Any] | None
    raw_arguments: str
    parse_error: str | None = None
    by_user: bool = False
    recorded_id: str | None = None
    observation: Observation | None = None
    seconds: float | None = None
    tokens: int | None = None

    @property
    def status(self) -> CallStatus:
        """OK, ERROR or UNANSWERED."""
        if self.observation is None:
            return CallStatus.UNANSWERED
        return CallStatus.ERROR if self.observation.is_error else CallStatus.OK


class Turn(Record):
    """One message and the calls it made; results are inside the calls."""

    role: Role
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    timestamp: float | None = None
    """Seconds since the epoch, if recorded."""


class GoldAction(Record):
    """An action that the task's own solution contains."""

    tool: str
    arguments: dict[str, Any]
    by_user: bool = False


class Feedback(Record):
    """What is known of how the run went.

    Attributes:
        source: Where the outcome comes from: ``recorded``, ``replayed``, ``none``, ...
        termination: Why the run ended, in the trace's own word.
        checks: The evaluator's parts (database match, assertions, ...), plain JSON values.
        failure_origin: ``agent``, ``user`` or None when nobody said.
        attack: Name of the injection attack the run was under; None for an ordinary run.
        attack_succeeded: The injected goal was reached; None for an ordinary run.
    """

    outcome: Outcome = Outcome.UNKNOWN
    reward: float | None = None
    source: str = "none"
    termination: str | None = None
    checks: dict[str, Any] = {}
    failure_origin: str | None = None
    attack: str | None = None
    attack_succeeded: bool | None = None


class Source(Record):
    """Where a run was read from."""

    file: str
    record: int
    """Zero-based index of the record in its file."""


class Trajectory(Record):
    """A recorded run.

    Attributes:
        id: Content hash of the run; the same run read twice has the same id.
        domain: Name of the environment or suite; empty when unknown.
        task_id: The task within its domain, the unit of every split.
        subject: Whose request it was (a customer id, say), where the record names it: tasks of one subject share
            identifiers and must not be split.
        request: The first thing the user asked.
        policy: The system prompt.
        gold: Actions of the task's own solution; None when the trace has none.
        tools: Tools offered in the run; None when the trace does not list them.
        notes: What had to be repaired while reading, as ``kind`` strings for the report.
    """

    id: str
    source: Source
    format: str
    domain: str = ""
    task_id: str
    subject: str | None = None
    agent: str | None = None
    trial: int | None = None
    request: str = ""
    policy: str = ""
    turns: tuple[Turn, ...] = ()
    feedback: Feedback = Feedback()
    gold: tuple[GoldAction, ...] | None = None
    tools: tuple[ToolSpec, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def task_key(self) -> str:
        """``format:domain/task_id``: what a split must not cut."""
        return f"{self.format}:{self.domain}/{self.task_id}"

    def calls(self, *, by_user: bool | None = False) -> Iterator[tuple[int, ToolCall]]:
        """Yields ``(turn index, call)`` in order; the agent's own by default, all with ``by_user=None``."""
        for index, turn in enumerate(self.turns):
            for call in turn.calls:
                if by_user is None or call.by_user == by_user:
                    yield index, call
