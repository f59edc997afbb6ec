"""Builds every memory on the same folds of the same runs, and keeps what it advised at each decision point.

What is written down as soon as it is done is the advice, one file for each memory and fold; measuring it takes no time
and is done anew by `inference.compare.report`. An interrupted comparison goes on where it stopped. A file counts only
for the very settings and runs it was made with, which its name holds in a hash.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from fresh.guidance import estimate_tokens
from fresh.splits import folds, task_groups
from fresh.versions import versions
from graph_schema.errors import ConfigError
from graph_schema.trajectory import ToolSpec, Trajectory
from inference.baselines.base import Fitter, Memory, Setting
from inference.compare.config import CompareConfig, sides
from inference.compare.points import HeldOut, chat_before, held_out, openai_tools, tools_by_domain
from inference.compare.store import FORMAT, FoldResult, Given, Store
from inference.evaluate.runs import load_runs

if TYPE_CHECKING:
    from rich.console import Console

    from fresh.retrieval.encoder import Encoder

Builder = Callable[[Sequence[Trajectory], Setting], Memory]
"""Makes a memory from recorded runs."""


class Plan:
    """The runs of a comparison, their folds and decision points: everything but the memories.

    Args:
        config: The comparison.
        runs: The runs; the same run twice is kept once.
        specs: Descriptions of tools by name.

    Raises:
        ConfigError: There are no runs, too few tasks, or the agents cannot be told apart.
    """

    def __init__(
        self, config: CompareConfig, runs: Sequence[Trajectory], specs: Mapping[str, ToolSpec] | None = None
    ) -> None:
        # In order of content, so that nothing depends on the order of files.
        self.runs = [run for _, run in sorted({run.id: run for run in runs}.items())]
        if not self.runs:
            raise ConfigError("there are no runs to compare on: give paths that hold recorded runs")
        self.config = config
        self.specs = dict(specs or {})
        self.groups = task_groups(self.runs, config.subject_arguments)
        self.parts = folds(self.groups, config.folds, config.seed)
        self._may_mine, self._may_measure = sides(config, self.runs)

    @classmethod
    def load(cls, config: CompareConfig, data_folder: Path) -> Plan:
        """Reads the runs of a config.

        Raises:
            ConfigError: The data folder or the files are not there, or as for `Plan`.
        """
        from fresh.traces import load_tools_file

        if not data_folder.is_dir():
            raise ConfigError(f"there is no folder {data_folder}: --data names the folder of recorded runs")
        runs = load_runs(
            config.paths,
            data_folder,
            exclude=config.exclude,
            runs_per_task=config.runs_per_task,
            seed=config.seed,
        )
        specs = load_tools_file(data_folder / config.tools) if config.tools else ()
        return cls(config, runs, {spec.name: spec for spec in specs})

    @cached_property
    def held_out(self) -> list[HeldOut]:
        """Every run that is measured, with its decision points; in the order of `runs`."""
        effects = {name: spec.effect for name, spec in self.specs.items() if spec.effect is not None}
        config = self.config
        return [
            held_out(run, group, count=config.points_per_run, seed=config.seed, effects=effects)
            for run, group, measured in zip(self.runs, self.groups, self._may_measure, strict=True)
            if measured
        ]

    @cached_property
    def _fold_of(self) -> dict[str, int]:
        return {run.id: part for run, part in zip(self.runs, self.parts, strict=True)}

    def mined(self, fold: int) -> list[Trajectory]:
        """The runs that memories are made of for one fold: none of its tasks.

        Raises:
            ConfigError: There are none.
        """
        rows = zip(self.runs, self.parts, self._may_mine, strict=True)
        found = [run for run, part, mined in rows if mined and part != fold]
        if not found:
            raise ConfigError(f"fold {fold} leaves no run to mine: use fewer folds or more agents")
        return found

    def measured(self, fold: int) -> list[HeldOut]:
        """The runs that memories are asked about in one fold."""
        return [held for held in self.held_out if self._fold_of[held.run.id] == fold]

    @cached_property
    def fingerprint(self) -> str:
        """Changes with every setting and run that a result depends on."""
        settings = self.config.plain()
        settings.pop("name")
        described = {name: spec.model_dump(mode="json") for name, spec in sorted(self.specs.items())}
        content = [FORMAT, settings, [run.id for run in self.runs], self.groups, described]
        return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def compare(
    plan: Plan,
    builders: Mapping[str, Builder],
    work: Path,
    *,
    fitter: Fitter | None = None,
    encoder: Encoder | None = None,
    again: Sequence[str] = (),
    console: Console | None = None,
) -> dict[str, list[FoldResult]]:
    """Asks every memory at every decision point of the runs held out.

    Args:
        plan: Runs, folds and settings.
        builders: The memories by name, in the order of the table.
        work: Folder for results, one file a memory and fold.
        fitter: Trains a reranker, for the memories that need one.
        encoder: Text encoder; the config's when None.
        again: Memories whose kept results are not used.
        console: Where to show progress; nowhere when None.

    Returns:
        For each memory, its result on each fold.
    """
    store = Store(work, plan.fingerprint)
    results: dict[str, list[FoldResult]] = {name: [] for name in builders}
    with _progress(console, len(builders) * plan.config.folds) as advance:
        for fold in range(plan.config.folds):
            for name, builder in builders.items():
                advance(0, f"{plan.config.name}, fold {fold + 1} of {plan.config.folds}: {name}")
                kept = None if name in again else store.get(name, fold)
                if kept is None:
                    encoder = encoder or _encoder(plan.config)
                    kept = _ask(plan, name, builder, fold, fitter, encoder)
                    store.put(kept)
                results[name].append(kept)
                advance(1, "")
    return results


def _encoder(config: CompareConfig) -> Encoder:
    from fresh.retrieval.encoder import load_encoder

    return load_encoder(config.encoder)


def _ask(plan: Plan, name: str, builder: Builder, fold: int, fitter: Fitter | None, encoder: Encoder) -> FoldResult:
    """Builds a memory and asks it for advice wherever the fold's runs call tools."""
    runs = plan.mined(fold)
    setting = Setting(
        encoder=encoder,
        effects={tool: spec.effect for tool, spec in plan.specs.items() if spec.effect is not None},
        fitter=fitter,
        training=plan.config.training,
        seed=plan.config.seed,
        subject_arguments=plan.config.subject_arguments,
    )
    start = time.perf_counter()
    memory = builder(runs, setting)
    built = time.perf_counter() - start
    tools = {domain: openai_tools(specs) for domain, specs in tools_by_domain(runs, plan.specs).items()}
    advice = {}
    for held in plan.measured(fold):
        offered = openai_tools({s.name: s for s in held.run.tools}) if held.run.tools else tools.get(held.run.domain)
        advice[held.run.id] = tuple(
            _given(memory, chat_before(held.run, point.turn), offered, plan.config.budget) for point in held.points
        )
    return FoldResult(name, fold, built, memory.size(), advice, versions(), code_fingerprint())


def _given(memory: Memory, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, budget: int) -> Given:
    start = time.perf_counter()
    advice = memory.guide(messages, tools, budget)
    seconds = time.perf_counter() - start
    text = within(advice.text, budget)
    return Given(text, seconds, cut=text != advice.text)


def within(text: str, budget: int) -> str:
    """The first lines of a text that fit into a budget; a line is never cut."""
    if estimate_tokens(text) <= budget:
        return text
    lines = text.splitlines()
    while lines and estimate_tokens("\n".join(lines)) > budget:
        lines.pop()
    return "\n".join(lines)


def code_fingerprint() -> str:
    """Changes with the source of everything that a memory's advice can depend on."""
    import fresh
    import graph_schema
    import inference.baselines

    digest = hashlib.sha256()
    for package in (graph_schema, fresh, inference.baselines):
        folder = Path(str(package.__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _progress(console: Console | None, total: int) -> Iterator[Callable[[int, str], None]]:
    """A progress bar on a console: gives a function that is told what was done and what comes next."""
    if console is None:
        yield lambda done, what: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=total)

        def advance(done: int, what: str) -> None:
            bar.update(task, advance=done, description=what or None)

        yield advance
