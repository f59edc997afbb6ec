"""Recorded runs and what a command left behind, for the tests of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).resolve().parents[2] / "data"
GARDEN, LIBRARY = DATA / "desks" / "garden.jsonl", DATA / "desks" / "library.jsonl"
DIRTY = DATA / "dirty" / "desks.jsonl"


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def one_line(self) -> str:
        """The single line on standard error that a failed command may print."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        assert len(lines) == 1, self.err
        assert lines[0].startswith("fresh: ")
        assert "Traceback" not in self.err
        return lines[0]


Fresh = Callable[..., Result]


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def write_runs(path: Path, *runs: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(run) + "\n" for run in runs), encoding="utf-8")
    return path


def simple_run(**extra: Any) -> dict[str, Any]:
    call = {"id": "1", "type": "function", "function": {"name": "open_gate", "arguments": '{"gate": 4}'}}
    messages = [
        {"role": "user", "content": "Open gate 4."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": '{"open": true}'},
    ]
    return {"messages": messages, **extra}
