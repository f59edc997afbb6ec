"""`mimir-learn`: experiences as task, action and outcome; keyword and vector search fused, and a recommended action.

A run is an experience whose action is the chain of its calls, a lesson one that failed. The package groups equal
actions and recommends the one with the best track record on tasks like this (the lower bound of its success rate times
its relevance); its runs come first here, then what it recalls. Its vectors are our encoder's.

The package: https://pypi.org/project/mimir-learn (MIT).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fresh.retrieval.encoder import Encoder
from graph_schema.errors import MissingExtraError
from inference.baselines.adapters.items import RECALLED, Item, Kind, PackageMemory
from inference.baselines.recall import Moment


class MimirPackage(PackageMemory):
    """One SQLite file; kinds are told apart by context. Runs that failed count against their action."""

    name: ClassVar[str] = "mimir-learn"
    kinds: ClassVar[frozenset[Kind]] = frozenset(Kind)

    def _fill(self, items: Sequence[Item], vectors: NDArray[np.float32]) -> None:
        try:
            from mimir import Experience, Mimir, Outcome
        except ImportError as error:
            raise MissingExtraError("mimir-learn", "bench") from error
        self._mimir = Mimir(str(self._folder / "mimir.db"), embedder=_Embedder(self._encoder))
        self._runs = {item.key for item in items if item.kind is Kind.RUN}
        for item, vector in zip(items, vectors, strict=True):
            good = item.kind is Kind.RUN
            self._mimir.write(
                Experience(
                    id=item.key,
                    task=item.title,
                    action=item.text.rsplit("\n", 1)[-1],
                    outcome=Outcome.SUCCESS if good else Outcome.FAILURE,
                    score=float(good),
                    context={"kind": str(item.kind)},
                    embedding=vector.tolist(),
                )
            )
        self._mimir.storage.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # else its log counts as size

    def _found_runs(self, moment: Moment) -> Sequence[str]:
        best = self._mimir.recommend(moment.query.text)
        recommended = [key for key in best.supporting_ids if key in self._runs] if best else []
        return list(dict.fromkeys([*recommended, *self._found(Kind.RUN, moment)]))

    def _found(self, kind: Kind, moment: Moment) -> Sequence[str]:
        found = self._mimir.recall(moment.query.text, RECALLED, context={"kind": str(kind)})
        return [experience.id for experience in found]


class _Embedder:
    """Our encoder as the package calls one."""

    enabled = True

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def embed(self, text: str) -> list[float]:
        return self._encoder.encode_query(text).tolist()
