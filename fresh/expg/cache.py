"""Answers already paid for, on disk, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from graph_schema.errors import MemoryFileError

Reply = TypeVar("Reply", bound=BaseModel)

_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT NOT NULL, asker TEXT NOT NULL, answer TEXT NOT NULL, PRIMARY KEY (key, asker)
) WITHOUT ROWID
"""


class AnswerCache:
    """Validated answers as JSON text in SQLite, each committed as it comes.

    Keyed by ``key`` (an experience's h) and ``asker`` (a hash of model and prompt): the same question to another model
    is another answer. Several processes may share one file.
    """

    def __init__(self, path: Path | str | None) -> None:
        """Opens or makes the file.

        Args:
            path: The file; None keeps answers in memory only.

        Raises:
            MemoryFileError: The file cannot be used.
        """
        self.path = path
        try:
            if path is not None:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            # One thread at a time uses it, but not always the one that opened it.
            self._base = sqlite3.connect(path or ":memory:", timeout=30.0, check_same_thread=False)
            self._base.execute(_TABLE)
        except (sqlite3.Error, OSError) as error:
            raise MemoryFileError(f"{path} is no usable answer cache ({error}): delete it or name another") from None

    def __repr__(self) -> str:
        return f"AnswerCache({str(self.path)!r}, {len(self)} answers)"

    def __len__(self) -> int:
        return int(self._base.execute("SELECT COUNT(*) FROM answers").fetchone()[0])

    def get(self, key: str, asker: str, shape: type[Reply]) -> Reply | None:
        """The answer kept, or None; one that no longer fits its shape counts as none."""
        query = "SELECT answer FROM answers WHERE key = ? AND asker = ?"
        row = self._base.execute(query, (key, asker)).fetchone()
        if row is None:
            return None
        try:
            return shape.model_validate_json(row[0])
        except ValidationError:
            return None

    def put(self, key: str, asker: str, answer: BaseModel) -> None:
        """Keeps an answer, safely on disk when this returns."""
        query = "INSERT OR REPLACE INTO answers VALUES (?, ?, ?)"
        with self._base:
            self._base.execute(query, (key, asker, answer.model_dump_json()))

    def close(self) -> None:
        """Closes the file."""
        self._base.close()
