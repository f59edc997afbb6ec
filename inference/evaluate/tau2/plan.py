"""What a careful agent would do on a task: its gold writes, each after the reads that ground it.

Gold action lists name few reads, or none. A careful agent looks at the objects a write names before it writes, and at
whatever holds the values it fills in. Which tool shows what is not written down here: it is found by trying the read
tools on a copy of the environment, with values filed under the names of their parameters.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graph_schema.trajectory import Effect
from inference.evaluate.tau2.environment import Domain
from inference.evaluate.tau2.values import (
    Knowledge,
    Scalar,
    at,
    field_name,
    is_reference,
    leaves,
    parse,
    same_arguments,
)

if TYPE_CHECKING:
    from tau2.data_model.tasks import Task
    from tau2.environment.environment import Environment

MAX_POOL = 6
"""Values tried per parameter, the newest first, when looking for the read that shows a value."""
MAX_COMBINATIONS = 60
"""Argument combinations tried per read tool in one look, the newest values first."""
MAX_CHAIN = 3
"""Longest chain of reads (an order, its buyer, ...) followed to ground one value."""


@dataclass(frozen=True)
class Call:
    """A tool call: name and arguments."""

    tool: str
    arguments: dict[str, Any]

    def same_as(self, other: Call) -> bool:
        """Whether both are the same call."""
        return self.tool == other.tool and same_arguments(self.arguments, other.arguments)


@dataclass(frozen=True)
class Read:
    """A planned call that writes nothing, with all the values its result shows.

    Attributes:
        shown: Identifier of the object that the result is, empty where it is none.
    """

    call: Call
    shows: frozenset[str]
    shown: str = ""


@dataclass(frozen=True)
class Step:
    """A gold write and the reads to make before it.

    Attributes:
        index: Position among the task's steps.
        reads: In order; a later one may need what an earlier one shows. A read may stand in several steps.
        write: None for what is left to read after the last write, and for what the user does.
        by_user: What the user does with a tool of their own when the agent asks for it.
        works: The environment accepts the write where the plan makes it.
    """

    index: int
    reads: tuple[Read, ...]
    write: Call | None
    works: bool = True
    by_user: Call | None = None


@dataclass(frozen=True)
class TaskPlan:
    """A task, ready to run.

    Attributes:
        request: What the user says first.
        details: What the user says when asked for the rest.
        facts: What the user must be told in the end.
    """

    task: Task
    request: str
    details: str
    steps: tuple[Step, ...]
    facts: tuple[str, ...]


@dataclass
class _Planner:
    domain: Domain
    environment: Environment
    knowledge: Knowledge
    made: list[Read] = field(default_factory=list)

    def read(self, call: Call) -> Read | None:
        """Makes a read for good; None if the environment refuses it."""
        text = execute(self.environment, call)
        if text is None:
            return None
        self.knowledge.name(call.arguments)
        self.knowledge.observe(text)
        done = Read(call, frozenset(shown_by(text)), _own_name(text))
        self.made.append(done)
        return done

    def look_up(self, call: Call) -> Read | None:
        """A read made earlier, or made now."""
        known = next((read for read in self.made if read.call.same_as(call)), None)
        return known or self.read(call)

    def ground(self, write: Call) -> list[Read]:
        """The reads a careful agent makes for this write, beyond those it has made already."""
        found: list[Read] = []
        for path, leaf in leaves(write.arguments):
            name = field_name(path)
            for tool in self._read_tools():
                parameters = self.domain.required[tool]
                if len(parameters) != 1 or not _takes(parameters[0], name):
                    continue
                if self._is_open(leaf):
                    found += self._reveal(leaf)
                if parameters[0] != name and any(str(leaf) == read.shown for read in self.made):
                    continue  # another look-up has shown this very object already
                read = self.look_up(Call(tool, {parameters[0]: leaf}))  # the write names this very object
                found += [read] if read else []
        for path, leaf in leaves(write.arguments):
            if self._is_open(leaf):
                self.knowledge.name(write.arguments)
                self.knowledge.name(at(write.arguments, path[:-1]))  # what stands beside it is the best to ask with
                found += self._reveal(leaf)
        return found

    def _is_open(self, leaf: Scalar) -> bool:
        """Whether a value has to be looked up: it names something, and nobody has said or seen it."""
        return is_reference(leaf) and not self.knowledge.knows(leaf)

    def _reveal(self, leaf: Scalar) -> list[Read]:
        """The shortest chain of reads found that shows a value; empty if none does."""
        scout = self.knowledge.copy()
        tried: set[str] = set()
        for _ in range(MAX_CHAIN):
            opened: list[str] = []
            for call in self._possible(scout, leaf, tried):
                text = execute(self.environment, call)
                if text is None:
                    continue
                if str(leaf) in shown_by(text):
                    return self._chain_to(call)
                opened.append(text)
            for text in opened:
                scout.observe(text)
        return []

    def _chain_to(self, call: Call) -> list[Read]:
        """The call, preceded by reads that show what it asks with and nobody has said."""
        chain: list[Read] = []
        for _, leaf in leaves(call.arguments):
            if self._is_open(leaf):
                chain += self._reveal(leaf)
        read = self.look_up(call)
        return [*chain, read] if read else chain

    def _possible(self, scout: Knowledge, wanted: Scalar, tried: set[str]) -> Iterator[Call]:
        """Reads that can be made from what the scout knows and that do not ask with the wanted value itself."""
        for tool in self._read_tools():
            names = self.domain.required[tool]
            for values in _newest_first([self._pool(scout, name) for name in names]):
                call = Call(tool, dict(zip(names, values, strict=True)))
                if wanted not in values and str(call) not in tried:
                    tried.add(str(call))
                    yield call

    def _pool(self, scout: Knowledge, name: str) -> list[Scalar]:
        """Values filed under a name, the newest first, without references that nobody has said or seen."""
        newest = reversed(scout.by_name.get(name, ()))
        known = (value for value in newest if not is_reference(value) or scout.knows(value))
        return list(itertools.islice(known, MAX_POOL))

    def _read_tools(self) -> list[str]:
        """Read tools that take an argument, those with the fewest first."""
        reads = [t for t, e in self.domain.effects.items() if e is Effect.READ and self.domain.required[t]]
        return sorted(reads, key=lambda tool: (len(self.domain.required[tool]), tool))


def _takes(parameter: str, name: str) -> bool:
    """Whether a look-up's parameter is meant for such an argument: of the same name, or any identifier at all."""
    return parameter == name or (parameter == "id" and name.endswith("_id"))


def _own_name(text: str) -> str:
    """Identifier of the object that a result is: its first field that is named as one."""
    value = parse(text)
    fields = value.items() if isinstance(value, dict) else ()
    return next((str(item) for key, item in fields if key.endswith("_id") and isinstance(item, str)), "")


def _newest_first(pools: list[list[Scalar]]) -> list[tuple[Scalar, ...]]:
    """Combinations of distinct values, one from each pool, by the sum of their ranks."""
    ranked = itertools.product(*(list(enumerate(pool)) for pool in pools))
    ordered = sorted(ranked, key=lambda combination: sum(rank for rank, _ in combination))
    distinct = (tuple(value for _, value in combination) for combination in ordered)
    return list(itertools.islice((c for c in distinct if len(set(c)) == len(c)), MAX_COMBINATIONS))


def execute(environment: Environment, call: Call, *, by_user: bool = False) -> str | None:
    """Makes a call in an environment; None if it is refused."""
    try:
        result = environment.make_tool_call(call.tool, requestor="user" if by_user else "assistant", **call.arguments)
        environment.sync_tools()
        return environment.to_json_str(result)
    except Exception:  # the tools raise whatever their author chose; to a caller each is a refusal
        return None


def plan_task(domain: Domain, task: Task) -> TaskPlan:
    """Works out the steps of a task on an environment of its own.

    Args:
        domain: The task's domain.
        task: A task of one of its splits.
    """
    request, details = speech(task)
    knowledge = Knowledge()
    knowledge.tell(f"{request} {details}")
    for name, words in domain.vocabulary.items():
        spoken = re.findall(r"[\w#-]+", f"{request} {details}")
        knowledge.name({name: [word for word in spoken if word in words]})
    planner = _Planner(domain, domain.environment(task), knowledge)
    steps: list[Step] = []
    waiting: list[Read] = []
    for action in task.evaluation_criteria.actions or []:
        call = Call(action.name, action.arguments)
        if action.requestor == "user":
            execute(planner.environment, call, by_user=True)
            steps.append(Step(len(steps), tuple(_once(waiting)), None, by_user=call))
            waiting = []
            continue
        if domain.effects.get(call.tool) is not Effect.WRITE:
            read = planner.look_up(call)
            waiting += [read] if read else []
            continue
        reads = _once([*waiting, *planner.ground(call)])
        works = execute(planner.environment, call) is not None
        steps.append(Step(len(steps), tuple(reads), call, works))
        waiting = []
    if waiting:
        steps.append(Step(len(steps), tuple(_once(waiting)), None))
    facts = tuple(task.evaluation_criteria.communicate_info or ())
    return TaskPlan(task, request, details, tuple(steps), facts)


def _once(reads: list[Read]) -> list[Read]:
    kept: list[Read] = []
    for read in reads:
        if not any(read.call.same_as(other.call) for other in kept):
            kept.append(read)
    return kept


def speech(task: Task) -> tuple[str, str]:
    """What the scripted user says: the reason for the call, and the rest of the scenario when asked for it."""
    instructions = task.user_scenario.instructions
    if isinstance(instructions, str):
        return first_person(instructions), "That is all I know."
    rest = [instructions.known_info, instructions.task_instructions]
    details = " ".join(text.strip() for text in rest if text and text.strip(" ."))
    return first_person(instructions.reason_for_call), first_person(details) or "That is all I know."


_FIRST_PERSON = (
    ("you are", "I am"),
    ("you're", "I'm"),
    ("your", "my"),
    ("yours", "mine"),
    ("yourself", "myself"),
    ("you", "I"),
)


def first_person(text: str) -> str:
    """A scenario ("You want to ...") as its user would say it ("I want to ...")."""
    for second, first in _FIRST_PERSON:
        text = re.sub(rf"\b{second}\b", first, text, flags=re.IGNORECASE)
    return re.sub(r"(^|[.!?]\s+)([a-z])", lambda m: m.group(1) + m.group(2).upper(), text).strip()


def shown_by(observation: str) -> set[str]:
    """Every scalar an observation shows, as text."""
    knowledge = Knowledge()
    knowledge.observe(observation)
    return knowledge.seen
