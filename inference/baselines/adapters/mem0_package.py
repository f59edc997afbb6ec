"""mem0 as a store of ready-made items: `mem0ai` with ``infer=False``, its local Qdrant files and our encoder.

With ``infer=True`` a model writes the facts, which is what Mem0's paper measures; that needs a model at hand and is no
part of a comparison without one. The keyword half of its search loads a model from a hub and stays off, as do its
telemetry, its notices and its entity index: nothing leaves this process.

Source: Chhikara et al., "Mem0: Building Production-Ready AI Agents with Scalable Long-Term Memory" (arXiv 2504.19413);
the package: https://github.com/mem0ai/mem0 (Apache-2.0).
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fresh.retrieval.encoder import Encoder
from graph_schema.errors import ConfigError, MissingExtraError
from inference.baselines.adapters.items import RECALLED, Item, Kind, PackageMemory
from inference.baselines.recall import Moment

_TELEMETRY = "MEM0_TELEMETRY"


class Mem0Package(PackageMemory):
    """One user a kind of items."""

    name: ClassVar[str] = "mem0ai"

    def _fill(self, items: Sequence[Item], vectors: NDArray[np.float32]) -> None:
        package = _import_quietly()
        place = {"path": str(self._folder / "vectors"), "on_disk": True, "embedding_model_dims": self._encoder.dim}
        unused = {"provider": "openai", "config": {"api_key": "unused"}}
        self._memory = package.Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": place},
                "embedder": unused,
                "llm": unused,
                "history_db_path": str(self._folder / "history.db"),
            }
        )
        self._memory.embedding_model = _Embedding(self._encoder, items, vectors)
        # What "tried and failed to load" looks like: the encoder would come from a model hub.
        self._memory.vector_store._bm25_encoder = False
        for item in items:
            message = [{"role": "user", "content": item.text}]
            self._memory.add(message, user_id=str(item.kind), metadata={"key": item.key}, infer=False)

    def _found(self, kind: Kind, moment: Moment) -> Sequence[str]:
        found = self._memory.search(moment.query.text, filters={"user_id": str(kind)}, top_k=RECALLED, threshold=0.0)
        return [entry["metadata"]["key"] for entry in found["results"]]


class _Embedding:
    """Our encoder as mem0 calls one."""

    def __init__(self, encoder: Encoder, items: Sequence[Item], vectors: NDArray[np.float32]) -> None:
        self._encoder = encoder
        self._known = {item.text: vector for item, vector in zip(items, vectors, strict=True)}

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        vector = self._known.get(text)
        return (self._encoder.encode_query(text) if vector is None else vector).tolist()

    def embed_batch(self, texts: Sequence[str], memory_action: str = "add") -> list[list[float]]:
        return [self.embed(text) for text in texts]


def _import_quietly() -> Any:
    """Imports mem0 so that it sends nothing, downloads nothing, and writes nothing into the home folder.

    Raises:
        MissingExtraError: `mem0ai` is not installed.
        ConfigError: It was imported before, with its telemetry on.
    """
    if "mem0" not in sys.modules:
        os.environ[_TELEMETRY] = "False"
        if "MEM0_DIR" not in os.environ:
            os.environ["MEM0_DIR"] = folder = tempfile.mkdtemp(prefix="fresh-mem0-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        import mem0
        from mem0.memory import telemetry
        from mem0.utils import spacy_models
    except ImportError as error:
        raise MissingExtraError("mem0ai", "bench") from error
    if telemetry.MEM0_TELEMETRY:
        raise ConfigError(f"mem0 was imported with its telemetry on: set {_TELEMETRY}=False before the program starts")
    # Its language model for entities and lemmas is downloaded where it is missing; without it search is by vectors.
    spacy_models._load_failed_full = spacy_models._load_failed_lemma = True
    logging.getLogger("mem0").setLevel(logging.ERROR)
    return mem0
