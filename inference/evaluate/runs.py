"""The recorded runs that an evaluation's config names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from graph_schema.errors import ConfigError
from graph_schema.trajectory import Trajectory


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
