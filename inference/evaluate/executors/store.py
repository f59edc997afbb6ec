"""Finished runs on disk, one a line, so that an interrupted comparison goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from graph_schema.errors import ConfigError
from inference.evaluate.executors.measure import Finished

_NAME = "finished.log"
"""No name of a trace file: the same runs stand in the results files, and a folder is mined whole."""


class EpisodeStore:
    """The finished runs of one comparison, kept in a folder.

    The first line holds what all runs have in common. A folder whose first line differs belongs to another comparison
    and is refused. A last line that was cut off by an interruption is dropped; its run is made again.

    Args:
        folder: Where the file is, or will be.
        common: What the runs have in common: model, settings, memory.

    Raises:
        ConfigError: The folder holds the runs of another comparison, or a line in the middle is damaged.
    """

    def __init__(self, folder: Path, common: Mapping[str, Any]) -> None:
        self.path = folder / _NAME
        self._common = json.loads(json.dumps(common, default=str))
        self.finished: dict[tuple[str, str, str, int], Finished] = {}
        folder.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and self.path.stat().st_size:
            self._read()
        else:
            self._append(self._common)

    def add(self, run: Finished) -> None:
        """Keeps a run."""
        self._append(run.model_dump(mode="json"))
        self.finished[run.key] = run

    def _append(self, value: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(value) + "\n")

    def _read(self) -> None:
        text = self.path.read_bytes().decode(errors="replace")
        whole, _, cut = text.rpartition("\n")
        if cut:
            self.path.write_text(f"{whole}\n" if whole else "", encoding="utf-8")
        lines = whole.split("\n")
        if not whole:
            self._append(self._common)
            return
        try:
            common = json.loads(lines[0])
        except ValueError:
            common = None
        if common != self._common:
            differ = (
                sorted(k for k in self._common | common if self._common.get(k) != common.get(k))
                if isinstance(common, dict)
                else []
            )
            raise ConfigError(
                f"{self.path} holds runs of another comparison (different: {', '.join(differ) or 'everything'}): "
                "name another folder, or remove this one"
            )
        for number, line in enumerate(lines[1:], 2):
            try:
                run = Finished.model_validate_json(line)
            except ValidationError:
                raise ConfigError(f"{self.path}, line {number}: not a finished run; remove the line") from None
            self.finished[run.key] = run
