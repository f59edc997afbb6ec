"""Records runs of the simulated executor as tau2 simulation files.

The file is the package's own format, so that it is read by the same reader as anyone's recordings. The injected
errors are logged beside it, in a file that no trace reader takes for traces: they are for counting alone.
"""

from __future__ import annotations

import gzip
import json
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graph_schema.errors import ConfigError
from inference.evaluate.tau2.conversation import START
from inference.evaluate.tau2.environment import DISTRIBUTION, Domain, load_domain, package_version
from inference.evaluate.tau2.executor import Executor, Gate
from inference.evaluate.tau2.faults import FaultMaker
from inference.evaluate.tau2.plan import TaskPlan, plan_task
from inference.evaluate.tau2.run import FaultLog, Run
from inference.evaluate.tau2.settings import Settings, load_settings

if TYPE_CHECKING:
    from rich.console import Console
    from tau2.data_model.simulation import RewardInfo
    from tau2.data_model.tasks import Task

LOG_SUFFIX = ".injected.log"
SUCCESS = 1.0 - 1e-6
"""A reward from here on is a success, as in the package's own metrics."""


@dataclass(frozen=True)
class ScoredRun:
    """A run with the reward its environment gave it."""

    plan: TaskPlan
    run: Run
    reward: RewardInfo

    @property
    def succeeded(self) -> bool:
        """Whether the reward counts as a success."""
        return self.reward.reward >= SUCCESS


@dataclass(frozen=True)
class Recording:
    """What was recorded, and where.

    Attributes:
        path: The simulations.
        log: The injected errors, a JSON line each.
        injected: Errors made, by kind.
        reward_when_injected: Mean reward of the runs with an error of that kind.
    """

    domain: str
    split: str
    path: Path
    log: Path
    tasks: int
    runs: int
    successes: int
    injected: dict[str, int] = field(default_factory=dict)
    reward_when_injected: dict[str, float] = field(default_factory=dict)


def run_tasks(
    domain: Domain,
    split: str,
    settings: Settings,
    *,
    trials: int,
    gate: Gate | None = None,
    label: str = "",
    console: Console | None = None,
) -> list[ScoredRun]:
    """Runs every task of a split and scores each run.

    Args:
        domain: Where the tasks are.
        split: An official split.
        settings: Rates and bounds of the executor.
        trials: Runs per task.
        gate: Asked before every call, if given.
        label: What the progress bar says.
        console: Where the progress bar goes; standard error by default.
    """
    from rich.console import Console
    from rich.progress import track

    faults = FaultMaker(domain, settings)
    jobs = [(task, trial) for task in domain.tasks(split) for trial in range(trials)]
    plans: dict[str, TaskPlan] = {}
    scored = []
    for task, trial in track(
        jobs, description=label or f"{domain.name} {split}", console=console or Console(stderr=True)
    ):
        plan = plans.get(task.id) or plans.setdefault(task.id, plan_task(domain, task))
        run = Executor(domain, plan, faults, settings, trial, gate).run()
        scored.append(ScoredRun(plan, run, domain.evaluate(task, run.conversation.messages)))
    return scored


def record_runs(
    domain: str,
    split: str,
    out: Path,
    config: Settings | Path | None = None,
    *,
    console: Console | None = None,
) -> Recording:
    """Records ``record_trials`` runs per task of a split into one file.

    Args:
        domain: ``airline`` or ``retail``.
        split: An official split, ``train`` or ``test``.
        out: The file to write, ``.json`` or ``.json.gz``; the injected errors go beside it, ``*.injected.log``.
        config: Settings, or the YAML file that holds them; the shipped ones by default.
        console: Where the progress bar goes; standard error by default.

    Raises:
        ConfigError: A setting, the domain or the split is wrong, or ``out`` has another ending.
        MissingExtraError: The tau2 package is not installed.
    """
    settings = config if isinstance(config, Settings) else load_settings(*([config] if config else []))
    if not out.name.endswith((".json", ".json.gz")):
        raise ConfigError(f"{out}: recordings are written as .json or .json.gz")
    loaded = load_domain(domain)
    scored = run_tasks(
        loaded, split, settings, trials=settings.record_trials, label=f"recording {domain}", console=console
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    log = out.with_name(out.name.removesuffix(".gz").removesuffix(".json") + LOG_SUFFIX)
    _write(out, json.dumps(results(loaded, scored, settings)))
    _write(log, "".join(json.dumps(line) + "\n" for line in fault_lines(loaded.name, scored)))
    kinds = Counter(fault.kind.value for item in scored for fault in item.run.faults)
    return Recording(
        domain=domain,
        split=split,
        path=out,
        log=log,
        tasks=len({item.plan.task.id for item in scored}),
        runs=len(scored),
        successes=sum(item.succeeded for item in scored),
        injected=dict(sorted(kinds.items())),
        reward_when_injected={kind: _mean_reward(scored, kind) for kind in sorted(kinds)},
    )


def _mean_reward(scored: list[ScoredRun], kind: str) -> float:
    rewards = [s.reward.reward for s in scored if any(fault.kind.value == kind for fault in s.run.faults)]
    return sum(rewards) / len(rewards)


def simulation_id(domain: str, task_id: str, trial: int, seed: int) -> str:
    """The id of a recorded run; the same run always has the same."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"fresh/{domain}/{task_id}/{trial}/{seed}"))


def results(domain: Domain, scored: Iterable[ScoredRun], settings: Settings) -> dict[str, Any]:
    """Scored runs as the package's results object, in plain JSON values."""
    from tau2.data_model.simulation import AgentInfo, Info, Results, SimulationRun, TerminationReason, UserInfo

    scored = list(scored)
    tasks: dict[str, Task] = {item.plan.task.id: item.plan.task for item in scored}
    simulations = []
    for item in scored:
        talk = item.run.conversation
        simulations.append(
            SimulationRun(
                id=simulation_id(domain.name, item.run.task_id, item.run.trial, settings.seed),
                task_id=item.run.task_id,
                timestamp=talk.now(),
                start_time=START.isoformat(),
                end_time=talk.now(),
                duration=float(len(talk.messages)),
                termination_reason=TerminationReason.USER_STOP,
                reward_info=item.reward,
                messages=talk.messages,
                trial=item.run.trial,
                seed=settings.seed,
            )
        )
    info = Info(
        git_commit=f"{DISTRIBUTION} {package_version()}",
        num_trials=max((item.run.trial + 1 for item in scored), default=0),
        max_steps=max((len(item.run.conversation.messages) for item in scored), default=0),
        max_errors=settings.repeats + 1,
        user_info=UserInfo(implementation="scripted_user"),
        agent_info=AgentInfo(implementation="simulated_executor"),
        environment_info=domain.environment().get_info(include_tool_info=True),
        seed=settings.seed,
    )
    whole = Results(timestamp=START.isoformat(), info=info, tasks=list(tasks.values()), simulations=simulations)
    return whole.model_dump(mode="json")


def fault_lines(domain: str, scored: Iterable[ScoredRun]) -> list[dict[str, Any]]:
    """The injected errors as plain JSON values, each with the run it belongs to."""
    return [
        {"domain": domain, "task_id": item.run.task_id, "trial": item.run.trial, **fault_json(fault)}
        for item in scored
        for fault in item.run.faults
    ]


def fault_json(fault: FaultLog) -> dict[str, Any]:
    """One injected error as plain JSON values."""
    return {
        "kind": fault.kind.value,
        "step": fault.step,
        "message": fault.message,
        "call": {"name": fault.call.tool, "arguments": fault.call.arguments},
        "gold": {"name": fault.gold.tool, "arguments": fault.gold.arguments},
        "wrong_arguments": list(fault.wrong),
        "reached": fault.reached,
        "accepted": fault.accepted,
        "mended": fault.mended,
    }


def _write(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
