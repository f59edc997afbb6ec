"""Who&When: failed runs of several agents talking to each other, with the agent and step that people blame.

The agents' tools act inside the text, so a run has turns and no calls.
"""

from __future__ import annotations

from typing import Any

from fresh.traces.messages import Conversation
from fresh.traces.record import Place, build, mapping, objects, text_or_none
from graph_schema.trajectory import Feedback, Outcome, Trajectory

NAME = "who_and_when"
_USERS = frozenset({"human", "user_proxy"})
_BLAME = ("mistake_agent", "mistake_step", "mistake_reason")


def recognises(record: Any) -> bool:
    """A record has a ``history`` and says who made the mistake."""
    return isinstance(record, dict) and isinstance(record.get("history"), list) and "mistake_agent" in record


def under_attack(record: Any) -> bool:
    """Never: the data set has no attacks."""
    return False


def read(record: Any, place: Place) -> Trajectory:
    """Reads one run. Every message but the person's is an agent's, whatever role its framework gave it."""
    history = mapping(record).get("history")
    if not isinstance(history, list):
        raise ValueError("no list under 'history'")
    messages = [
        {"role": "user" if message.get("role") in _USERS else "assistant", "content": message.get("content")}
        for message in objects(history)
    ]
    correct = record.get("is_correct", record.get("is_corrected"))
    return build(
        Conversation(messages),
        place,
        format=NAME,
        task_id=text_or_none(record.get("question_ID")),
        request=text_or_none(record.get("question")),
        feedback=Feedback.model_construct(
            outcome=Outcome.SUCCESS if correct is True else Outcome.FAILURE,
            source="recorded",
            checks={key: str(record[key]) for key in _BLAME if record.get(key) is not None},
            failure_origin="agent",
        ),
        identity=text_or_none(record.get("_file")),
    )
