"""tau-bench results: ``{task_id, trial, reward, info, traj}``, in a list or one a line.

The recorded reward is not always right: upstream's environment kept state between tasks in some runs. Where a file of
labels lies beside the results (``X.labels.jsonl.gz``, same order) its ``replayed_reward`` is the outcome.
"""

from __future__ import annotations

import re
from typing import Any

from fresh.traces.messages import Conversation, content_text
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
from graph_schema.trajectory import Feedback, Role, Trajectory

NAME = "tau_bench"
DOMAIN = "domain"
"""Key of the file's domain in a header: for runs that broke off before their policy was logged."""

_HEADING = re.compile(r"^\s*#\s+(.+)$", re.MULTILINE)
_FILLER = re.compile(r"\b(?:agent|policy|the|wiki)\b", re.IGNORECASE)


def recognises(record: Any) -> bool:
    """A result has the messages under ``traj``."""
    return isinstance(record, dict) and isinstance(record.get("traj"), list) and "task_id" in record


def under_attack(record: Any) -> bool:
    """Never: the benchmark has no attacks."""
    return False


def read(record: Any, place: Place) -> Trajectory:
    """Reads one result."""
    if not isinstance(mapping(record).get("traj"), list):
        raise ValueError("no list of messages under 'traj'")
    info = mapping(record.get("info"))
    task, reward_info = mapping(info.get("task")), mapping(info.get("reward_info"))
    conversation = Conversation(objects(record["traj"]))
    actions = task.get("actions", reward_info.get("actions"))
    return build(
        conversation,
        place,
        format=NAME,
        task_id=text_or_none(record.get("task_id")),
        domain=domain_of_policy(conversation.first_text(Role.SYSTEM)) or str(place.header.get(DOMAIN, "")),
        subject=text_or_none(task.get("user_id", mapping(place.label).get("user_id"))),
        trial=whole(record.get("trial")),
        feedback=_feedback(record, mapping(reward_info.get("info")), place),
        gold=None if actions is None else gold_actions(actions),
    )


def domain_of(record: Any) -> str:
    """The domain a result names through its policy, without reading the rest; empty when there is none."""
    messages = objects(mapping(record).get("traj"))
    first = messages[0] if messages else {}
    return domain_of_policy(content_text(first.get("content"))) if first.get("role") == "system" else ""


def domain_of_policy(policy: str) -> str:
    """The domain that a policy's first heading names: ``# Retail agent policy`` is ``retail``."""
    heading = _HEADING.search(policy)
    return " ".join(_FILLER.sub(" ", heading.group(1)).split()).lower() if heading else ""


def _feedback(record: Any, parts: Any, place: Place) -> Feedback:
    recorded = number(record.get("reward"))
    checks = {key: parts[key] for key in ("r_actions", "r_outputs", "outputs") if parts.get(key) is not None} | {
        "recorded_reward": recorded
    }
    replayed = number(place.label.get("replayed_reward")) if place.label else None
    reward = recorded if replayed is None else replayed
    source = "none" if reward is None else "recorded" if replayed is None else "replayed"
    return Feedback.model_construct(
        outcome=outcome_of(reward),
        reward=reward,
        source=source,
        termination="error" if mapping(record.get("info")).get("error") else None,
        checks=checks,
    )
