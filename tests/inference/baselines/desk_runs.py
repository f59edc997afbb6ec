"""The recorded desks, split by task, and what an agent sees in the runs held out."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from fresh.retrieval.encoder import HashedEncoder
from fresh.splits import folds, task_groups
from fresh.traces import load
from graph_schema.trajectory import Trajectory
from inference.baselines.base import Setting
from inference.compare.points import chat_before, openai_tools

DESKS = Path(__file__).parents[2] / "data" / "desks"
SETTING = Setting(encoder=HashedEncoder(128))
BUDGET = 300


@cache
def split() -> tuple[list[Trajectory], list[Trajectory]]:
    """Runs to build from and runs held out, of different tasks."""
    runs, _ = load([DESKS / "library.jsonl", DESKS / "garden.jsonl"])
    parts = folds(task_groups(runs), 4)
    return [r for r, p in zip(runs, parts, strict=True) if p], [r for r, p in zip(runs, parts, strict=True) if not p]


def tools_of(run: Trajectory) -> list[dict[str, Any]]:
    """The tools that a run was offered, as a chat completion has them."""
    return openai_tools({spec.name: spec for spec in run.tools or ()})


def moments(count: int = 0) -> list[tuple[Trajectory, list[dict[str, Any]]]]:
    """``(run, messages)`` before every round of calls of the runs held out; some of them if asked."""
    found = [(run, chat_before(run, turn)) for run in split()[1] for turn in sorted({turn for turn, _ in run.calls()})]
    return found[:: max(1, len(found) // count)] if count else found
