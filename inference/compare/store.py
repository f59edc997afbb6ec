"""What each memory advised on each fold, kept on disk as soon as it is known."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from fresh.cli.files import write_json
from fresh.guidance import estimate_tokens
from graph_schema.errors import ConfigError

FORMAT = 2
"""Raised when what a result file holds changes."""


@dataclass(frozen=True, slots=True)
class Given:
    """One piece of advice, as it is kept.

    Attributes:
        text: What the executor reads, within the budget.
        seconds: How long it took.
        cut: The memory went over the budget, and the rest was cut off.
    """

    text: str
    seconds: float
    cut: bool

    @property
    def tokens(self) -> int:
        """Estimated length of the text."""
        return estimate_tokens(self.text)


@dataclass(frozen=True)
class FoldResult:
    """What one memory advised on one fold.

    Attributes:
        memory: Its name.
        fold: Number of the fold.
        build_seconds: Time to build it.
        bytes: What it takes on disk.
        advice: For each held-out run, by id, the advice at each of its decision points.
        versions: Of the libraries it was made with.
        code: Fingerprint of the code it was made with.
    """

    memory: str
    fold: int
    build_seconds: float
    bytes: int
    advice: Mapping[str, tuple[Given, ...]]
    versions: Mapping[str, str]
    code: str


class Store:
    """Results on disk.

    Args:
        folder: Where they lie; made when the first is written.
        fingerprint: Of what they depend on besides the memory.

    Raises:
        ConfigError: The folder is a file.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{folder} is a file: --work names a folder for results")
        self._folder = folder
        self._fingerprint = fingerprint

    def _path(self, memory: str, fold: int) -> Path:
        plain = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in memory)
        key = hashlib.sha256(f"{self._fingerprint}/{memory}".encode()).hexdigest()[:16]
        return self._folder / f"{plain}.{fold}.{key}.json"

    def get(self, memory: str, fold: int) -> FoldResult | None:
        """A kept result; None where there is none, or where the file is damaged."""
        path = self._path(memory, fold)
        try:
            value = orjson.loads(path.read_bytes())
            advice = {run: tuple(Given(**one) for one in given) for run, given in value.pop("advice").items()}
            return FoldResult(**value, advice=advice)
        except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def put(self, result: FoldResult) -> None:
        """Keeps a result; the old file or the new one, never a part."""
        write_json(self._path(result.memory, result.fold), result)
