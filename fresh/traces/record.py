"""What every format reader shares: where a record stands, and how a trajectory is put together from it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fresh.traces.clean import dumps, scrub
from fresh.traces.messages import Conversation
from graph_schema.trajectory import Feedback, GoldAction, Outcome, Role, Source, ToolSpec, Trajectory

ID_LENGTH = 16
"""Hex digits of a trajectory id: 64 bits, a collision in ten million runs is a one in 300,000 chance."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record was found, and what its surroundings say of it.

    Attributes:
        file: The file's path as given.
        index: Position of the record in the file.
        domain: The caller's word for the domain, which wins over the record's.
        label: A better outcome for this record from a file beside it.
        header: What the file says once for all its records.
        notes: Repairs the file layer had to make for this record.
    """

    file: str
    index: int
    domain: str | None = None
    label: Mapping[str, Any] | None = None
    header: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Format(Protocol):
    """One trace format: a module with these four names."""

    NAME: str

    def recognises(self, record: Any) -> bool:
        """Whether the record has this format's own keys."""

    def under_attack(self, record: Any) -> bool:
        """Whether the run was made under an injection attack; cheap, called before :meth:`read`."""

    def read(self, record: Any, place: Place) -> Trajectory:
        """Reads a recognised record.

        Raises:
            ValueError: The record cannot be a run; the message says why.
        """


def build(
    conversation: Conversation,
    place: Place,
    *,
    format: str,
    task_id: str | None,
    domain: str = "",
    subject: str | None = None,
    agent: str | None = None,
    trial: int | None = None,
    request: str | None = None,
    policy: str | None = None,
    feedback: Feedback | None = None,
    gold: Iterable[GoldAction] | None = None,
    tools: Iterable[ToolSpec] | None = None,
    notes: Iterable[str] = (),
    identity: Any = None,
) -> Trajectory:
    """Puts a trajectory together; its id is a hash of the format, the task and all that was said and done.

    Args:
        conversation: The parsed messages.
        place: Where the record stands.
        format: Name of the format.
        task_id: The task; None makes one from the request, so that equal requests are one task.
        domain: The record's own domain; ``place.domain`` wins.
        subject: Whose request it was.
        agent: Name of the model or agent.
        trial: Which attempt at the task.
        request: The request, where it is not the first thing the user says.
        policy: The system prompt, where it is not in the messages.
        feedback: How it went; unknown by default.
        gold: The task's own solution.
        tools: Tools offered.
        notes: Repairs beyond those of the conversation.
        identity: What else tells this run from another with the same words, such as an upstream run id.
    """
    said = conversation.first_text(Role.USER)
    request = scrub(request) if request else said
    task = task_id if task_id is not None else "request-" + _digest(request)[:12]
    run_id = _digest(dumps([format, task, agent, trial, identity, conversation.fingerprint()]))[:ID_LENGTH]
    return Trajectory.model_construct(
        id=run_id,
        source=Source.model_construct(file=place.file, record=place.index),
        format=format,
        domain=place.domain if place.domain is not None else scrub(domain),
        task_id=scrub(task),
        subject=subject,
        agent=agent,
        trial=trial,
        request=request,
        policy=scrub(policy) if policy else conversation.first_text(Role.SYSTEM),
        turns=conversation.turns(run_id),
        feedback=feedback or Feedback(),
        gold=None if gold is None else tuple(gold),
        tools=None if tools is None else tuple(tools),
        notes=tuple(sorted({*conversation.notes, *notes, *place.notes})),
    )


def outcome_of(reward: float | None) -> Outcome:
    """Success is the full reward; anything less is a failure; no reward is unknown."""
    if reward is None:
        return Outcome.UNKNOWN
    return Outcome.SUCCESS if reward >= 1.0 - 1e-6 else Outcome.FAILURE


def number(value: Any) -> float | None:
    """A recorded number or boolean as a float; None for anything else."""
    return float(value) if isinstance(value, int | float) else None


def whole(value: Any) -> int | None:
    """A recorded integer; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text_or_none(value: Any) -> str | None:
    """A recorded id or name as text; None when it is null, empty or not a scalar."""
    return scrub(str(value)) if isinstance(value, str | int | float) and value != "" else None


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects in a list; empty for anything else."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def gold_actions(actions: Any) -> tuple[GoldAction, ...]:
    """Gold actions written as ``{name, arguments}`` or ``{name, kwargs}``."""
    return tuple(
        GoldAction.model_construct(
            tool=str(action["name"]),
            arguments=dict(mapping(action.get("arguments", action.get("kwargs")))),
            by_user=action.get("requestor") == "user",
        )
        for action in objects(actions)
        if action.get("name")
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
