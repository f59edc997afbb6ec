"""LangGraph's `InMemoryStore`, with its vector search over our encoder.

The store comes with the package `langgraph-checkpoint`, which LangGraph itself is built on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import orjson
from numpy.typing import NDArray

from graph_schema.errors import MissingExtraError
from inference.baselines.adapters.items import RECALLED, Item, Kind, PackageMemory
from inference.baselines.recall import Moment


class LangGraphStore(PackageMemory):
    """One namespace a kind of items; the text is the indexed field."""

    name: ClassVar[str] = "langgraph-store"

    def _fill(self, items: Sequence[Item], vectors: NDArray[np.float32]) -> None:
        try:
            from langgraph.store.base import PutOp
            from langgraph.store.memory import InMemoryStore
        except ImportError as error:
            raise MissingExtraError("langgraph-checkpoint", "bench") from error
        known = {item.text: vector for item, vector in zip(items, vectors, strict=True)}
        self._bytes = len(orjson.dumps([[item.kind, item.key, item.text] for item in items])) + vectors.nbytes

        def embed(texts: Sequence[str]) -> list[list[float]]:
            made = [known[text] if text in known else self._encoder.encode_query(text) for text in texts]
            return [vector.tolist() for vector in made]

        self._store = InMemoryStore(index={"dims": self._encoder.dim, "embed": embed, "fields": ["text"]})
        self._store.batch([PutOp((str(item.kind),), item.key, {"text": item.text}) for item in items])

    def _found(self, kind: Kind, moment: Moment) -> Sequence[str]:
        found = self._store.search((str(kind),), query=moment.query.text, limit=RECALLED)
        return [entry.key for entry in found]

    def size(self) -> int:
        """Bytes of texts and vectors: the store has no form on disk."""
        return self._bytes
