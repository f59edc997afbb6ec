"""Configs of evaluations, and the recorded runs that they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from graph_schema.errors import ConfigError
from graph_schema.trajectory import Trajectory

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _Config = TypeVar("_Config", bound=DataclassInstance)


def read_config(cls: type[_Config], path: str | Path, packaged: Path, kind: str) -> _Config:
    """Reads a config: the name of one that comes with the package, or a YAML file.

    Args:
        cls: A dataclass; its fields are the config's keys, and lists become tuples.
        path: The name or the file.
        packaged: Folder of the configs that come with the package.
        kind: What messages call it.

    Raises:
        ConfigError: There is no such config, or it has unknown keys or values of the wrong kind.
    """
    import yaml

    named = packaged / f"{path}.yaml"
    file = named if named.is_file() else Path(path)
    if not file.is_file():
        known = ", ".join(sorted(p.stem for p in packaged.glob("*.yaml")))
        raise ConfigError(f"no {kind} config at {path}: give a YAML file or one of {known}")
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not a {kind} config, since it is not YAML: {error}") from None
    keys = {field.name: field for field in fields(cls)}
    if not isinstance(values, dict):
        raise ConfigError(f"{file} is not a {kind} config: it is no mapping; its keys may be: {', '.join(keys)}")
    unknown = sorted(map(str, values.keys() - keys.keys()))
    missing = sorted(name for name, field in keys.items() if _is_required(field) and name not in values)
    for names, what in ((unknown, "has the unknown keys"), (missing, "lacks the keys")):
        if names:
            raise ConfigError(f"{file} {what} {', '.join(names)}; the keys of a {kind} config are: {', '.join(keys)}")
    plain: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
    try:
        return cls(**plain)
    except (TypeError, AttributeError) as error:
        raise ConfigError(f"{file} is not a {kind} config: {error}") from None


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def load_runs(
    paths: Sequence[str], data_folder: Path, *, exclude: Sequence[str] = (), runs_per_task: int = 0, seed: int = 0
) -> list[Trajectory]:
    """Reads runs.

    Args:
        paths: Files relative to the data folder; ``*`` and ``?`` match names.
        data_folder: The folder.
        exclude: Patterns of files to leave out of those.
        runs_per_task: Runs of each task at most, drawn at random; 0 for all.
        seed: Of the drawing.

    Raises:
        ConfigError: None of the files is there.
    """
    from fresh.traces import load

    files = sorted({path for pattern in paths for path in data_folder.glob(pattern)})
    files = [path for path in files if not any(path.match(pattern) for pattern in exclude)]
    if not files:
        raise ConfigError(f"none of {', '.join(paths)} is under {data_folder}: name the folder of recorded runs")
    runs, _ = load(files)
    if not runs_per_task:
        return runs
    rng = np.random.default_rng(seed)
    by_task: dict[str, list[int]] = {}
    for i, run in enumerate(runs):
        by_task.setdefault(run.task_key, []).append(i)
    kept = sorted(i for own in by_task.values() for i in rng.permutation(own)[:runs_per_task])
    return [runs[i] for i in kept]
