"""Settings and fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

for _name, _value in {
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "WANDB_ERROR_REPORTING": "false",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}.items():
    os.environ.setdefault(_name, _value)

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real recorded runs; tests that need it skip where it is absent."""
    path = Path(os.environ.get("FRESH_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"the recorded runs are not on this machine: {path}")
    return path
