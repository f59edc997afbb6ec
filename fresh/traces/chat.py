"""Plain OpenAI chat-completions messages: a list, or an object with ``messages`` and whatever else is known.

Beside ``messages`` an object may hold ``success`` or ``reward``, ``tools``, ``task_id``, ``domain``, ``id``, ``trial``,
``agent`` or ``model``, ``termination`` and ``gold`` (a list of ``{name, arguments}``); each is also looked for under
``metadata``. Without an outcome the run's outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fresh.traces.messages import Conversation
from fresh.traces.record import (
    Place,
    build,
    gold_actions,
    mapping,
    number,
    objects,
    outcome_of,
    text_or_none,
    whole,
)
from fresh.traces.tools import parse_tools
from graph_schema.trajectory import Feedback, Outcome, Trajectory

NAME = "messages"


def is_message(value: Any) -> bool:
    """Whether the value is one chat message."""
    if not isinstance(value, dict) or not isinstance(value.get("role"), str):
        return False
    return "content" in value or "tool_calls" in value


def recognises(record: Any) -> bool:
    """A list of messages, or an object with one under ``messages``."""
    messages = record.get("messages") if isinstance(record, dict) else record
    return isinstance(messages, list) and bool(messages) and any(is_message(message) for message in messages)


def under_attack(record: Any) -> bool:
    """Never: plain messages say nothing of attacks."""
    return False


def read(record: Any, place: Place) -> Trajectory:
    """Reads one run."""
    beside: Mapping[str, Any] = record if isinstance(record, dict) else {}
    messages = beside.get("messages") if isinstance(record, dict) else record
    if not isinstance(messages, list) or not messages:
        raise ValueError("no messages")
    metadata = mapping(beside.get("metadata"))
    facts = {**metadata, **{key: value for key, value in beside.items() if value is not None}}
    gold, tools = facts.get("gold"), facts.get("tools")
    return build(
        Conversation(messages),
        place,
        format=NAME,
        task_id=text_or_none(facts.get("task_id")),
        domain=text_or_none(facts.get("domain")) or "",
        subject=text_or_none(facts.get("subject", facts.get("user_id"))),
        agent=text_or_none(facts.get("agent", facts.get("model"))),
        trial=whole(facts.get("trial")),
        feedback=_feedback(facts),
        gold=gold_actions(gold) if isinstance(gold, list) else None,
        tools=parse_tools(objects(tools)) if isinstance(tools, list) else None,
        identity=text_or_none(facts.get("id")),
    )


def _feedback(facts: Mapping[str, Any]) -> Feedback:
    """What the run was worth.

    Raises:
        ValueError: It says so in a way that cannot be read. To mine it as a run of unknown outcome would be to lose it.
    """
    reward, success = number(facts.get("reward")), facts.get("success")
    if reward is None and facts.get("reward") is not None:
        raise ValueError(f"reward is {facts['reward']!r}: write a number, 1 for full success")
    outcome = outcome_of(reward)
    if success is not None:
        outcome = Outcome.SUCCESS if _truth(success) else Outcome.FAILURE
    return Feedback.model_construct(
        outcome=outcome,
        reward=reward,
        source="none" if outcome is Outcome.UNKNOWN else "recorded",
        termination=text_or_none(facts.get("termination")),
    )


def _truth(value: Any) -> bool:
    """True or false, as JSON or as a word for it."""
    known = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}
    word = str(value).strip().lower()
    if word not in known:
        raise ValueError(f"success is {value!r}: write true or false")
    return known[word]
