"""tau2-bench results: one object ``{info, tasks, simulations}``, or lines with a ``task`` and a ``simulation`` each.

Some published files have their ``task_id`` scrambled. The action checks that the evaluator wrote into each simulation
copy the task's own actions, so the true task is the one whose actions these are. The prefix of an ``action_id`` alone
does not tell: it is off by one for some retail tasks and no task id at all in telecom.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fresh.traces import files
from fresh.traces.clean import dumps, ignore
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
from graph_schema.trajectory import Feedback, Outcome, Trajectory

NAME = "tau2"
RUNS = "simulations.item"
"""Where the runs are inside a results file, in ijson's notation."""

_USER_ID = re.compile(r"\buser[ _]id(?: is|:)?\s+['\"]?([A-Za-z]\w*\d)", re.IGNORECASE)
_PERSON = re.compile(r"\b(?:You are|Your? name is)\s+([A-Z][\w'-]+)\s+([A-Z][\w'-]+)")
_ORIGINS = {"user_error": "user", "agent_error": "agent", "too_many_errors": "agent"}
_PARTS = {
    "env_assertions": "met",
    "nl_assertions": "met",
    "communicate_checks": "met",
    "action_checks": "action_match",
}


@dataclass(frozen=True)
class Header:
    """What a results file says once for all its simulations.

    Attributes:
        info: The file's ``info``.
        tasks: Tasks by id.
        scrambled: At least one simulation names a task that is not its own, so an id that cannot be checked
            cannot be trusted either.
    """

    info: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    subjects: Mapping[str, str] = field(default_factory=dict)
    by_actions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    scrambled: bool = False


def recognises(record: Any) -> bool:
    """A line holds a ``simulation``, or is one: messages, a reward and a reason for ending."""
    if not isinstance(record, dict):
        return False
    simulation = record.get("simulation", record)
    if not isinstance(simulation, dict) or not isinstance(simulation.get("messages"), list):
        return False
    return "reward_info" in simulation and "task_id" in simulation


def recognises_keys(keys: Iterable[str]) -> bool:
    """Whether a file whose object has these first keys is a results file."""
    seen = set(keys)
    return "simulations" in seen or {"info", "tasks"} <= seen


def under_attack(record: Any) -> bool:
    """Never: the benchmark has no attacks."""
    return False


def read_header(path: Path) -> Header:
    """Reads what stands around the simulations of a results file, and whether their task ids hold.

    Raises:
        ValueError: The file is not JSON.
    """
    header = make_header(mapping(files.read_part(path, "info")), objects(files.read_part(path, "tasks")))
    for record in files.iter_array(path, RUNS, ignore):
        simulation = mapping(record.value)
        if _true_task(simulation, header) != text_or_none(simulation.get("task_id")):
            return Header(header.info, header.tasks, header.subjects, header.by_actions, scrambled=True)
    return header


def make_header(info: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]) -> Header:
    """Indexes the tasks of a file."""
    by_id = {str(task.get("id")): task for task in tasks}
    by_actions: dict[str, list[str]] = {}
    for task_id, task in by_id.items():
        actions = _task_actions(task)
        if actions:
            by_actions.setdefault(_signature(actions), []).append(task_id)
    return Header(info, by_id, _subjects(by_id), by_actions)


def read(record: Any, place: Place) -> Trajectory:
    """Reads one simulation, or one line with a task and its simulation."""
    line = mapping(record)
    if isinstance(line.get("simulation"), dict):
        task = line.get("task")
        header = make_header(mapping(line.get("info")), [task] if isinstance(task, dict) else [])
        simulation = line["simulation"]
    else:
        found = place.header.get(NAME)
        header = found if isinstance(found, Header) else Header()
        simulation = line
    if not isinstance(simulation.get("messages"), list):
        raise ValueError("no list of messages in the simulation")
    return _read_simulation(simulation, header, line, place)


def _read_simulation(
    simulation: Mapping[str, Any], header: Header, line: Mapping[str, Any], place: Place
) -> Trajectory:
    recorded_id = text_or_none(simulation.get("task_id"))
    task_id = _true_task(simulation, header)
    notes = [] if task_id == recorded_id else ["task_id_restored"]
    reward_info = mapping(simulation.get("reward_info"))
    checked = [mapping(check.get("action")) for check in objects(reward_info.get("action_checks"))]
    if header.scrambled and not checked:
        task_id, notes = None, ["task_id_unverified"]
    task = header.tasks.get(task_id) if task_id is not None else None
    environment = mapping(header.info.get("environment_info"))
    actions = checked or (_task_actions(task) if task is not None else None)
    return build(
        Conversation(objects(simulation["messages"])),
        place,
        format=NAME,
        task_id=task_id,
        domain=text_or_none(environment.get("domain_name")) or text_or_none(line.get("_domain")) or _domain_of(task),
        subject=header.subjects.get(task_id) if task_id is not None else None,
        agent=text_or_none(mapping(header.info.get("agent_info")).get("llm")) or text_or_none(line.get("_agent")),
        trial=whole(simulation.get("trial")),
        request=None if _user_speaks(simulation) else text_or_none(mapping(task).get("ticket")),
        policy=text_or_none(environment.get("policy")) or text_or_none(line.get("_policy")),
        feedback=_feedback(simulation, reward_info),
        gold=None if actions is None else gold_actions(actions),
        notes=notes,
        identity=text_or_none(simulation.get("id")),
    )


def _true_task(simulation: Mapping[str, Any], header: Header) -> str | None:
    """The id of the task whose actions the evaluator checked; the recorded id where that cannot be told."""
    recorded = text_or_none(simulation.get("task_id"))
    checks = objects(mapping(simulation.get("reward_info")).get("action_checks"))
    if not checks:
        return recorded
    actions = [mapping(check.get("action")) for check in checks]
    own = header.tasks.get(recorded) if recorded is not None else None
    signature = _signature(actions)
    if own is not None and _signature(_task_actions(own)) == signature:
        return recorded
    candidates = header.by_actions.get(signature, ())
    prefix = str(actions[0].get("action_id", "")).rpartition("_")[0]
    if prefix in candidates:
        return prefix
    if candidates:
        return candidates[0]
    own_ids = {action.get("action_id") for action in _task_actions(own)} if own is not None else set()
    return prefix if prefix in header.tasks and actions[0].get("action_id") not in own_ids else recorded


def _task_actions(task: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return objects(mapping(task.get("evaluation_criteria")).get("actions"))


def _signature(actions: Iterable[Mapping[str, Any]]) -> str:
    return dumps([[action.get("name"), sorted(mapping(action.get("arguments")).items())] for action in actions])


def _subjects(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Whose request each task is: a user id where one is named, else the person's name.

    Empty where all tasks are the same person's: then it tells no task from another.
    """
    named = {task_id: _person(task) for task_id, task in tasks.items()}
    ids: dict[str, set[str]] = {}
    for name, user_id in named.values():
        if name and user_id:
            ids.setdefault(name, set()).add(user_id)
    subjects: dict[str, str] = {}
    for task_id, (name, user_id) in named.items():
        known = ids.get(name, set()) if name else set()
        subject = user_id or (next(iter(known)) if len(known) == 1 else name)
        if subject:
            subjects[task_id] = subject
    return subjects if len(set(subjects.values())) > 1 or len(tasks) == 1 else {}


def _person(task: Mapping[str, Any]) -> tuple[str | None, str | None]:
    known = mapping(mapping(task.get("user_scenario")).get("instructions")).get("known_info")
    text = known if isinstance(known, str) else ""
    person, user_id = _PERSON.search(text), _USER_ID.search(text)
    name = f"{person.group(1)}_{person.group(2)}".lower() if person else None
    if user_id:
        return name, user_id.group(1)
    for action in _task_actions(task):
        value = mapping(action.get("arguments")).get("user_id")
        if isinstance(value, str) and value:
            return name, value
    return name, None


def _domain_of(task: Mapping[str, Any] | None) -> str:
    instructions = mapping(mapping(mapping(task).get("user_scenario")).get("instructions"))
    return text_or_none(instructions.get("domain")) or ""


def _user_speaks(simulation: Mapping[str, Any]) -> bool:
    return any(message.get("role") == "user" and message.get("content") for message in objects(simulation["messages"]))


def _feedback(simulation: Mapping[str, Any], reward_info: Mapping[str, Any]) -> Feedback:
    reward = number(reward_info.get("reward"))
    outcome = outcome_of(reward)
    checks: dict[str, Any] = {}
    database = mapping(reward_info.get("db_check")).get("db_match")
    if database is not None:
        checks["db_match"] = database
    for part, met in _PARTS.items():
        results = objects(reward_info.get(part))
        if results:
            checks[part] = {"met": sum(bool(result.get(met)) for result in results), "of": len(results)}
    for key in ("reward_basis", "reward_breakdown"):
        if reward_info.get(key):
            checks[key] = reward_info[key]
    ended = text_or_none(simulation.get("termination_reason"))
    return Feedback.model_construct(
        outcome=outcome,
        reward=reward,
        source="none" if reward is None else "recorded",
        termination=ended,
        checks=checks,
        failure_origin=_ORIGINS.get(ended or "") if outcome is Outcome.FAILURE else None,
    )
