"""AgentDojo task results, upstream's and those of defences derived from it.

``utility`` says whether the user's task was done. ``security`` means something only under attack, and there it is true
when the *injected* goal was reached: true is bad. Runs under attack hold calls that an injected instruction provoked;
readers leave them out unless asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fresh.traces.messages import Conversation
from fresh.traces.record import Place, build, mapping, number, objects, text_or_none
from graph_schema.trajectory import Effect, Feedback, Outcome, ToolSpec, Trajectory

NAME = "agentdojo"
_PERMISSIONS = {"read": Effect.READ, "write": Effect.WRITE}


def recognises(record: Any) -> bool:
    """A result names a user task and a suite, and has messages or conversations."""
    if not isinstance(record, dict) or "user_task_id" not in record:
        return False
    return isinstance(record.get("messages"), list) or isinstance(record.get("conversations"), list)


def under_attack(record: Any) -> bool:
    """An attack is named, or an injected goal is."""
    return bool(mapping(record).get("attack_type") or mapping(record).get("injection_task_id"))


def read(record: Any, place: Place) -> Trajectory:
    """Reads one result."""
    messages = mapping(record).get("messages", mapping(record).get("conversations"))
    if not isinstance(messages, list):
        raise ValueError("no list of messages under 'messages' or 'conversations'")
    permissions = mapping(record.get("tool_permission"))
    return build(
        Conversation(objects(messages)),
        place,
        format=NAME,
        task_id=text_or_none(record.get("user_task_id")),
        domain=text_or_none(record.get("suite_name")) or "",
        agent=text_or_none(record.get("pipeline_name")),
        feedback=_feedback(record),
        tools=_tools(permissions) if permissions else None,
        identity=[
            record.get("attack_type"),
            record.get("injection_task_id"),
            record.get("evaluation_timestamp"),
        ],
    )


def _feedback(record: Any) -> Feedback:
    utility = record.get("utility")
    outcome = Outcome.UNKNOWN
    if isinstance(utility, bool):
        outcome = Outcome.SUCCESS if utility else Outcome.FAILURE
    attacked = under_attack(record)
    security = record.get("security")
    return Feedback.model_construct(
        outcome=outcome,
        reward=number(utility),
        source="none" if outcome is Outcome.UNKNOWN else "recorded",
        termination="error" if record.get("error") else None,
        checks={"error": str(record["error"])} if record.get("error") else {},
        attack=(text_or_none(record.get("attack_type")) or "unnamed") if attacked else None,
        attack_succeeded=security if attacked and isinstance(security, bool) else None,
    )


def _tools(permissions: Any) -> Iterator[ToolSpec]:
    for name, permission in sorted(permissions.items()):
        yield ToolSpec.model_construct(
            name=name, description="", parameters={}, effect=_PERMISSIONS.get(str(permission).lower())
        )
