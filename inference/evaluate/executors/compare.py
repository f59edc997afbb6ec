"""The same tasks in every arm, task by task, so that an interrupted comparison is still a paired one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graph_schema.errors import ConfigError
from graph_schema.trajectory import Effect
from inference.evaluate.executors.advice import Adviser
from inference.evaluate.executors.agent import Executor
from inference.evaluate.executors.episode import Runner
from inference.evaluate.executors.measure import Finished, measure, score, simulation
from inference.evaluate.executors.report import LoopReport
from inference.evaluate.executors.settings import Arm, LoopSettings
from inference.evaluate.executors.store import EpisodeStore
from inference.evaluate.executors.transcript import transcript
from inference.evaluate.executors.user import User
from inference.evaluate.tau2.conversation import START
from inference.evaluate.tau2.environment import DISTRIBUTION, Domain, package_version
from inference.guarded import Judge

if TYPE_CHECKING:
    from rich.console import Console
    from tau2.data_model.tasks import Task


@dataclass(frozen=True)
class Helpers:
    """What the arms put beside the executor.

    Attributes:
        notes: Recalls sequences of recorded runs.
        guidance: The memory's guidance.
        gate: The memory's gate.
        mined: Tasks behind them, as ``domain/id``.
    """

    notes: Adviser | None = None
    guidance: Adviser | None = None
    gate: Judge | None = None
    mined: frozenset[str] = frozenset()

    def of(self, arm: Arm) -> tuple[Adviser | None, Judge | None]:
        """Adviser and gate of an arm.

        Raises:
            ConfigError: The arm needs something that is not there.
        """
        adviser = self.notes if arm is Arm.NOTES else self.guidance if arm.guided else None
        if arm is Arm.NOTES and adviser is None:
            raise ConfigError(f"the arm {arm} needs recorded runs to take notes from")
        if (arm.guided and adviser is None) or (arm.gated and self.gate is None):
            raise ConfigError(f"the arm {arm} needs a memory")
        return adviser, self.gate if arm.gated else None


def choose_tasks(
    domain: Domain,
    split: str,
    *,
    writes: int | None = None,
    limit: int | None = None,
    ids: Sequence[str] | None = None,
) -> list[Task]:
    """Tasks of a split, in the package's order.

    Args:
        domain: Where they are.
        split: An official split.
        writes: Keep the tasks with this many gold writes.
        limit: Keep the first so many.
        ids: Keep these.

    Raises:
        ConfigError: The split does not exist, an id is not in it, or no task is left.
    """
    tasks = domain.tasks(split)
    missing = set(ids or ()) - {task.id for task in tasks}
    if missing:
        raise ConfigError(f"the {split} split of {domain.name} has no task {', '.join(sorted(missing))}")
    if ids:
        tasks = [task for task in tasks if task.id in ids]
    if writes is not None:
        tasks = [task for task in tasks if gold_writes(domain, task) == writes]
    if not tasks[:limit]:
        raise ConfigError(f"no task of the {split} split of {domain.name} is left to run")
    return tasks[:limit]


def gold_writes(domain: Domain, task: Task) -> int:
    """How many writes the task's gold actions hold."""
    return sum(domain.effects.get(a.name) is Effect.WRITE for a in task.evaluation_criteria.actions or [])


def check_unseen(domain: Domain, tasks: Sequence[Task], helpers: Helpers) -> None:
    """Refuses tasks that the memory or the notes come from.

    Raises:
        ConfigError: A task was mined.
    """
    seen = [task.id for task in tasks if f"{domain.name}/{task.id}" in helpers.mined]
    if seen:
        raise ConfigError(
            f"the memory or the notes hold runs of {domain.name} tasks {', '.join(seen)}; measured is on tasks that "
            "were not mined, or say that this is not a measurement"
        )


def run_arms(
    domain: Domain,
    tasks: Sequence[Task],
    arms: Sequence[Arm],
    executor: Executor,
    user: Callable[[Task], User],
    helpers: Helpers,
    settings: LoopSettings,
    folder: Path,
    *,
    common: Mapping[str, Any],
    console: Console | None = None,
) -> LoopReport:
    """Runs the tasks in every arm; what the folder already holds is not run again.

    Args:
        domain: Where the tasks are.
        tasks: What to run.
        arms: What to compare; the first is what the others are compared with.
        executor: The model that acts.
        user: Makes the user of a task.
        helpers: What the arms put beside the executor.
        settings: Bounds.
        folder: Where the runs go: one tau2 results file an arm, and a transcript a run.
        common: What tells this comparison from others, beside the settings.
        console: Where a line a run goes.

    Raises:
        ConfigError: An arm lacks what it needs, or the folder holds another comparison.
        EvaluatorError: The endpoint failed for good; what is finished is kept.
    """
    for arm in arms:
        helpers.of(arm)
    store = EpisodeStore(folder, {**common, "domain": domain.name, "settings": settings.model_dump(mode="json")})
    planned = list(_planned(tasks, arms, settings.trials))
    for number, (task, arm, trial) in enumerate(planned, 1):
        if (domain.name, task.id, arm.value, trial) in store.finished:
            continue
        adviser, gate = helpers.of(arm)
        runner = Runner(domain, task, executor, user(task), settings, adviser, gate)
        run = _finish(domain, runner, arm, trial, settings.seed)
        store.add(run)
        _write_transcript(folder, run)
        if console is not None:
            console.print(f"{number}/{len(planned)} {_line(run)}", highlight=False)
    wanted = {(domain.name, task.id, arm.value, trial) for task, arm, trial in planned}
    runs = [run for key, run in store.finished.items() if key in wanted]
    for arm in arms:
        _write_results(domain, tasks, [r for r in runs if r.arm is arm], folder / f"{arm.value}.json", settings, common)
    return LoopReport(domain.name, tuple(arms), tuple(runs), settings, dict(common))


def _planned(tasks: Sequence[Task], arms: Sequence[Arm], trials: int) -> Iterator[tuple[Task, Arm, int]]:
    for trial in range(trials):
        for task in tasks:
            for arm in arms:
                yield task, arm, trial


def _finish(domain: Domain, runner: Runner, arm: Arm, trial: int, seed: int) -> Finished:
    episode = runner.run()
    reward = score(domain, episode)
    measures = measure(domain, episode, reward)
    return Finished(
        domain=domain.name,
        task_id=episode.task.id,
        arm=arm,
        trial=trial,
        measures=measures,
        simulation=simulation(domain, episode, reward, arm, trial, seed).model_dump(mode="json"),
        transcript=transcript(domain, episode, measures, arm, trial),
    )


def _line(run: Finished) -> str:
    m = run.measures
    return (
        f"task {run.task_id} {run.arm.value}: reward {m.reward:g}, {m.ended}, writes right {m.right_writes} wrong "
        f"{m.wrong_writes}, reads {m.read_matches}/{m.gold_reads}, {m.steps} steps, {m.seconds:.0f} s"
    )


def _write_transcript(folder: Path, run: Finished) -> None:
    path = folder / "transcripts" / f"{run.task_id}-{run.arm.value}-{run.trial}.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text(run.transcript, encoding="utf-8")


def _write_results(
    domain: Domain,
    tasks: Sequence[Task],
    runs: Sequence[Finished],
    path: Path,
    settings: LoopSettings,
    common: Mapping[str, Any],
) -> None:
    """Runs as the package's own results file, which can be mined like any other."""
    from tau2.data_model.simulation import AgentInfo, Info, Results, SimulationRun, UserInfo

    ran = {run.task_id for run in runs}
    info = Info(
        git_commit=f"{DISTRIBUTION} {package_version()}",
        num_trials=settings.trials,
        max_steps=settings.max_steps,
        max_errors=settings.max_steps,
        user_info=UserInfo(implementation=str(common.get("user", "scripted"))),
        agent_info=AgentInfo(implementation="fresh_executor", llm=str(common.get("model", ""))),
        environment_info=domain.environment().get_info(include_tool_info=True),
        seed=settings.seed,
    )
    results = Results(
        timestamp=START.isoformat(),
        info=info,
        tasks=[task for task in tasks if task.id in ran],
        simulations=[SimulationRun.model_validate(run.simulation) for run in runs],
    )
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.write_text(json.dumps(results.model_dump(mode="json")), encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
