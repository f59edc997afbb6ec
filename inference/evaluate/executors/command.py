"""What ``fresh eval llm`` does: put the parts together, run the arms, write what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from fresh.expg.endpoint import EndpointSettings
from fresh.guidance import GuidanceSettings
from fresh.traces import load as load_runs
from graph_schema.errors import ConfigError
from graph_schema.trajectory import Effect
from inference.evaluate.executors.advice import MemoryAdviser, SequenceNotes
from inference.evaluate.executors.agent import ChatModel, Executor, SlotFile
from inference.evaluate.executors.compare import Helpers, check_unseen, choose_tasks, run_arms
from inference.evaluate.executors.report import LoopReport
from inference.evaluate.executors.settings import Arm, LoopSettings
from inference.evaluate.executors.user import ModelUser, ScriptedUser, User
from inference.evaluate.tau2.environment import Domain, load_domain
from inference.memory import FrozenMemory, load

if TYPE_CHECKING:
    from rich.console import Console
    from tau2.data_model.tasks import Task

DEFAULT_ARMS = ("none", "bm25", "guidance", "guidance+gate")
USERS = ("scripted", "model")
DOMAINS_OF_ONE = ("airline", "retail")
"""Domains in which the agent alone has tools."""


def loop_settings(**values: Any) -> LoopSettings:
    """Settings by name.

    Raises:
        ConfigError: A value is wrong.
    """
    try:
        return LoopSettings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def evaluate_executor(
    memory: Path | None,
    model: str,
    folder: Path,
    *,
    base_url: str | None = None,
    domain: str = "retail",
    split: str = "test",
    arms: Sequence[str] = DEFAULT_ARMS,
    notes: Sequence[Path] = (),
    user: str = "scripted",
    writes: int | None = None,
    limit: int | None = None,
    tasks: Sequence[str] | None = None,
    seen_tasks: bool = False,
    prefix_file: bool = False,
    deadline: float = 600.0,
    settings: LoopSettings | None = None,
    guidance: GuidanceSettings | None = None,
    console: Console | None = None,
) -> LoopReport:
    """Runs a model on tasks of tau2-bench, alone and with each kind of help.

    The key comes from the environment (``OPENAI_API_KEY``); it is neither stored nor printed.

    Args:
        memory: The frozen memory behind guidance and gate; None where no arm needs one.
        model: Name of the model.
        folder: Where the runs go; what it already holds is not run again.
        base_url: Base of the endpoint, up to and with ``/v1``; the client's default when None.
        domain: ``airline`` or ``retail``.
        split: An official split of its tasks.
        arms: What to compare; the first is what the others are compared with.
        notes: Files or folders of recorded runs, for the arm of notes.
        user: A script, or the same model in the user's role.
        writes: Keep the tasks with this many gold writes.
        limit: Keep the first so many tasks.
        tasks: Keep these tasks.
        seen_tasks: Allow tasks that were mined: for development, not for measuring.
        prefix_file: The endpoint is a llama-server that saves slots: start every run from the same state.
        deadline: Seconds that one request may take.
        settings: Bounds and protocol.
        guidance: Settings of the guidance; the memory's own when None.
        console: Where a line a run goes.

    Raises:
        ConfigError: An option is wrong, an arm lacks what it needs, or a task was mined.
        EvaluatorError: The endpoint failed for good; what is finished is kept.
        MissingExtraError: A package that is needed is not installed.
    """
    settings = settings or LoopSettings()
    unknown = [arm for arm in arms if arm not in set(Arm)] + ([] if user in USERS else [user])
    if unknown:
        raise ConfigError(f"{unknown[0]!r} is neither an arm ({', '.join(Arm)}) nor a user ({', '.join(USERS)})")
    chosen_arms = [Arm(arm) for arm in dict.fromkeys(arms)]
    if domain not in DOMAINS_OF_ONE:
        known = ", ".join(DOMAINS_OF_ONE)
        raise ConfigError(
            f"a language model cannot be put into {domain!r}: name one of {known}, where users have no tools"
        )
    if prefix_file and base_url is None:
        raise ConfigError("a prefix file needs the base URL of a llama-server")
    loaded = load_domain(domain)
    chosen = choose_tasks(loaded, split, writes=writes, limit=limit, ids=tasks)
    frozen = load(memory, guidance=guidance) if memory is not None else None
    helpers = _helpers(frozen, notes if Arm.NOTES in chosen_arms else ())
    if not seen_tasks:
        check_unseen(loaded, chosen, helpers)
    endpoint = EndpointSettings(model=model, base_url=base_url, deadline=deadline)
    chat = ChatModel(endpoint)
    slot = SlotFile(base_url, model) if prefix_file and base_url is not None else None
    executor = Executor(
        chat, settings.protocol, loaded.policy, loaded.tools, max_tokens=settings.max_tokens, prefix=slot
    )
    common = {
        "model": model,
        "base_url": base_url,
        "split": split,
        "user": user,
        "memory": _fingerprint(frozen),
        "guidance": guidance and guidance.model_dump(),
        "notes": sorted(str(path) for path in notes),
        "seen_tasks": seen_tasks,
    }
    return run_arms(
        loaded,
        chosen,
        chosen_arms,
        executor,
        _users(loaded, chat, user, settings),
        helpers,
        settings,
        folder,
        common=common,
        console=console,
    )


def _helpers(memory: FrozenMemory | None, notes: Sequence[Path]) -> Helpers:
    runs = load_runs(list(notes))[0] if notes else []
    mined = {run.task_key for run in runs}
    if memory is not None:
        mined |= set(memory.graph.tables.runs.column("task_key").to_pylist())
    return Helpers(
        notes=SequenceNotes(runs) if runs else None,
        guidance=MemoryAdviser(memory) if memory is not None else None,
        gate=memory,
        mined=frozenset(_plain_keys(mined)),
    )


def _plain_keys(keys: Iterable[str]) -> Iterable[str]:
    """``domain/task`` of ``format:domain/task``."""
    return (key.partition(":")[2] for key in keys)


def _fingerprint(memory: FrozenMemory | None) -> Any:
    """What tells one memory from another: the hashes of its files."""
    if memory is None:
        return None
    return {name: entry["sha256"][:12] for name, entry in sorted(memory.manifest["files"].items())}


def _users(domain: Domain, chat: ChatModel, kind: str, settings: LoopSettings) -> Callable[[Task], User]:
    writes = [tool for tool, effect in domain.effects.items() if effect is Effect.WRITE]

    def make(task: Task) -> User:
        if kind == "model":
            return ModelUser(chat, task, settings.max_user_turns)
        return ScriptedUser(task, writes, settings.max_user_turns)

    return make
