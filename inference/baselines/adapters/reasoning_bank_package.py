"""`reasoning-bank` as a store of ready-made items: its store and its retrieval, our encoder.

In the package a model judges a run, distils items from it and merges those that are alike; without one the items are
ours and none is merged. What is the package's own here is how items are kept and found: by the cosine with title,
description and content, times an item's confidence.

Source: Ouyang et al., "ReasoningBank: Scaling Agent Self-Evolving with Reasoning Memory" (arXiv 2509.25140); the
package, by others: https://pypi.org/project/reasoning-bank (Apache-2.0).
"""

from __future__ import annotations

import asyncio
import sqlite3
import warnings
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fresh.retrieval.encoder import Encoder
from graph_schema.errors import ConfigError, MissingExtraError
from inference.baselines.adapters.items import RECALLED, Item, Kind, PackageMemory
from inference.baselines.recall import Moment


class ReasoningBankPackage(PackageMemory):
    """One scope a kind of items; lessons have failures as their source."""

    name: ClassVar[str] = "reasoning-bank"

    def _fill(self, items: Sequence[Item], vectors: NDArray[np.float32]) -> None:
        try:
            from reasoning_bank import InMemoryStore, MemoryItem, ReasoningBank, SQLiteVecStore
        except ImportError as error:
            raise MissingExtraError("reasoning-bank", "bench") from error
        # Where Python's SQLite loads no extensions, the package itself falls back to the store in memory.
        loads = hasattr(sqlite3.Connection, "enable_load_extension")
        store = SQLiteVecStore(self._folder / "bank.db", dim=self._encoder.dim) if loads else InMemoryStore()
        self._bank = ReasoningBank(_no_model, store=store, embedder=_Embedder(self._encoder))
        signatures = [f"{item.title}\n{item.kind}\n{item.text}" for item in items]
        del vectors  # the package embeds an item as title, description and content together
        for item, vector in zip(items, self._encoder.encode(signatures), strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # its clock
                stored = MemoryItem(
                    id=item.key,
                    title=item.title,
                    description=str(item.kind),
                    content=item.text,
                    source="failure" if item.kind is Kind.LESSON else "success",
                    task_signature=item.title,
                    scope=str(item.kind),
                    embedding=vector.tolist(),
                )
            store.add(stored)
        if not loads:
            asyncio.run(self._bank.export(self._folder / "bank.jsonl"))

    def _found(self, kind: Kind, moment: Moment) -> Sequence[str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            found = asyncio.run(self._bank.retrieve(moment.query.text, RECALLED, scope=str(kind)))
        return [item.id for item in found]


class _Embedder:
    """Our encoder as the package calls one."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    @property
    def dim(self) -> int:
        return self._encoder.dim

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [self._encoder.encode_query(text).tolist() for text in texts]


async def _no_model(prompt: str, *, system: str | None = None) -> str:
    raise ConfigError("reasoning-bank asked for a model: this adapter keeps and finds items, it distils none")
