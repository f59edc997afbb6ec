"""Reflexion logs: ReAct text cut at each question, and results of episodes whose steps were not kept.

In the text an action is ``Search[Some page]`` between a numbered thought and a numbered observation. The bracketed text
is the call's only argument. An episode without steps is a trajectory without turns: its outcome still counts.
"""

from __future__ import annotations

import re
from typing import Any

from fresh.traces.messages import Conversation
from fresh.traces.record import Place, build, mapping, text_or_none, whole
from graph_schema.trajectory import Feedback, Outcome, Trajectory

NAME = "reflexion"
_STEP = re.compile(r"^(Thought|Action|Observation) (\d+):[ \t]*", re.MULTILINE)
_ACTION = re.compile(r"([A-Za-z]\w*)\[(.*)\]\s*$", re.DOTALL)
_REFLECTIONS = "You have attempted to answer following question before"
_EPILOGUE = "\nCorrect answer:"
_OUTCOMES = {"CORRECT": Outcome.SUCCESS, "INCORRECT": Outcome.FAILURE, "HALTED": Outcome.FAILURE}


def recognises(record: Any) -> bool:
    """A cut of a log, or the result of an episode."""
    if not isinstance(record, dict):
        return False
    log = isinstance(record.get("text"), str) and "_section" in record
    return log or ("is_success" in record and "name" in record and "memory" in record)


def under_attack(record: Any) -> bool:
    """Never: the logs hold no attacks."""
    return False


def read(record: Any, place: Place) -> Trajectory:
    """Reads one question's log or one episode's result."""
    if not recognises(record):
        raise ValueError("neither a log of a question nor the result of an episode")
    return _read_log(record, place) if "_section" in record else _read_episode(record, place)


def _read_log(record: Any, place: Place) -> Trajectory:
    question, messages = _messages(record["text"])
    section = str(record["_section"])
    return build(
        Conversation(messages),
        place,
        format=NAME,
        task_id=None,
        domain="react",
        trial=whole(record.get("_trial")),
        request=question,
        feedback=Feedback.model_construct(
            outcome=_OUTCOMES.get(section, Outcome.UNKNOWN),
            source="recorded" if section in _OUTCOMES else "none",
            termination="halted" if section == "HALTED" else None,
        ),
        identity=text_or_none(record.get("_file")),
    )


def _read_episode(record: Any, place: Place) -> Trajectory:
    success = record.get("is_success")
    outcome = Outcome.UNKNOWN
    if isinstance(success, bool):
        outcome = Outcome.SUCCESS if success else Outcome.FAILURE
    return build(
        Conversation(()),
        place,
        format=NAME,
        task_id=text_or_none(mapping(record).get("name")),
        domain="episodes",
        feedback=Feedback.model_construct(outcome=outcome, source="none" if outcome is Outcome.UNKNOWN else "recorded"),
        identity=[text_or_none(record.get("_file")), record.get("memory")],
    )


def _messages(text: str) -> tuple[str, list[dict[str, Any]]]:
    """The question, and the steps as chat messages; the logger's closing line with the right answer is left out."""
    text = text.partition(_EPILOGUE)[0]
    marks = list(_STEP.finditer(text))
    head = (text[: marks[0].start()] if marks else text).strip().removeprefix("Question:").strip()
    question = head.partition(_REFLECTIONS)[0].strip()
    messages: list[dict[str, Any]] = [{"role": "user", "content": head}]
    thought = ""
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    for mark, end in zip(marks, ends[: len(marks)], strict=True):
        body = text[mark.end() : end].strip()
        kind, number = mark.group(1), mark.group(2)
        if kind == "Thought":
            thought = body
        elif kind == "Action":
            messages.append({"role": "assistant", "content": thought, **_call(body, number)})
            thought = ""
        else:
            messages.append({"role": "tool", "tool_call_id": number, "content": body})
    if thought:
        messages.append({"role": "assistant", "content": thought})
    return question, messages


def _call(body: str, number: str) -> dict[str, Any]:
    action = _ACTION.match(body)
    name, argument = (action.group(1), {"text": action.group(2)}) if action else (body.split("[")[0].strip(), body)
    return {"tool_calls": [{"id": number, "name": name, "arguments": argument}]}
