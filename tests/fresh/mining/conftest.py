from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fresh.traces import load
from graph_schema import Trajectory

sys.path.insert(0, str(Path(__file__).parents[1]))

DESKS = Path(__file__).parents[2] / "data" / "desks"


@pytest.fixture(scope="session")
def desk_runs() -> list[Trajectory]:
    """The runs of the two invented desks."""
    return load(DESKS)[0]


@pytest.fixture(scope="session")
def airline_runs(shared_data: Path) -> list[Trajectory]:
    """Recorded airline runs."""
    return load(shared_data / "tau-bench" / "airline-gpt-4o.jsonl.gz")[0]
