"""A frozen memory on disk: a graph's folder with what answers queries beside it, all of it plain arrays and JSON.

Beside the graph's own files a frozen memory holds the BM25 index (``bm25.safetensors``), a trained reranker
(``reranker.safetensors``, its settings in the manifest), guidance for tool lists (``expg.json``) and a card for people
(``card.md``); the last three may be absent. A graph's folder alone can be read as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from graph_schema.errors import MemoryFileError
from graph_schema.graph import ExperienceGraph
from graph_schema.storage import (
    Writer,
    checked_files,
    graph_from_files,
    graph_manifest,
    graph_writers,
    read_manifest,
    write_folder,
)

if TYPE_CHECKING:
    from fresh.retrieval.bm25 import BM25Index
    from fresh.retrieval.reranker import Reranker

KIND = "memory"
BM25_FILE = "bm25.safetensors"
RERANKER_FILE = "reranker.safetensors"
GUIDANCE_FILE = "expg.json"
CARD_FILE = "card.md"


def freeze(
    graph: ExperienceGraph,
    path: Path | str,
    *,
    reranker: Reranker | None = None,
    bm25: BM25Index | None = None,
    tool_guidance: Mapping[str, Any] | None = None,
    card: str | None = None,
    manifest: Mapping[str, Any] | None = None,
) -> None:
    """Writes a frozen memory.

    Args:
        graph: The graph, with the features that the reranker reads.
        path: The folder.
        reranker: A trained reranker; without one the memory ranks by BM25 and success.
        bm25: Index over the graph's texts; built here when not given.
        tool_guidance: Guidance for tool lists by tool name, as plain JSON values.
        card: What a person should know of the memory, in Markdown.
        manifest: More plain values for the manifest, such as metrics and gate settings.

    Raises:
        MemoryFileError: The folder cannot be written (see `graph_schema.storage.write_folder`).
    """
    from safetensors.numpy import save_file

    from fresh.retrieval.bm25 import BM25Index

    index = bm25 or BM25Index.build(graph.texts)
    writers: dict[str, Writer] = graph_writers(graph)
    writers[BM25_FILE] = lambda file: save_file(index.to_arrays(), file)
    body = graph_manifest(graph) | dict(manifest or {}) | {"kind": KIND, "frozen": True}
    if reranker is not None:
        writers[RERANKER_FILE] = reranker.write_weights
        body["reranker"] = reranker.config.plain()
    if tool_guidance is not None:
        guidance = orjson.dumps(dict(tool_guidance), option=orjson.OPT_SORT_KEYS)
        writers[GUIDANCE_FILE] = lambda file: _write(file, guidance)
    if card is not None:
        text = card.encode()
        writers[CARD_FILE] = lambda file: _write(file, text)
    write_folder(Path(path), writers, body)


def _write(file: Path, data: bytes) -> None:
    file.write_bytes(data)


@dataclass(frozen=True)
class FrozenFiles:
    """A memory's folder, every file of it checked against its hash.

    Attributes:
        manifest: What the folder says of itself.
        graph: The graph.
        files: Where each file lies.
        kept: Contents of the files that are read late, so that a memory saved over this one does not take them away.
    """

    path: Path
    manifest: dict[str, Any]
    graph: ExperienceGraph
    files: dict[str, Path] = field(repr=False)
    kept: dict[str, bytes] = field(repr=False)

    def bm25(self) -> BM25Index:
        """The BM25 index: the stored one, or one built from the graph's texts.

        Raises:
            MemoryFileError: The stored index is of another graph or damaged.
        """
        from fresh.retrieval.bm25 import BM25Index

        if BM25_FILE not in self.kept:
            return BM25Index.build(self.graph.texts)
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            index = BM25Index.from_arrays(load(self.kept[BM25_FILE]))
        except SafetensorError as error:
            raise MemoryFileError(
                f"{self.path}: the BM25 index cannot be read ({error}): export the memory again"
            ) from None
        if len(index) != len(self.graph):
            raise MemoryFileError(
                f"{self.path}: the BM25 index has {len(index)} texts for {len(self.graph)} nodes: "
                "export the memory again"
            )
        return index

    def reranker(self, device: str = "cpu") -> Reranker | None:
        """The trained reranker; None if the memory has none. Imports PyTorch.

        Raises:
            MemoryFileError: Its settings or weights are missing or damaged.
        """
        if RERANKER_FILE not in self.files:
            return None
        config = self.manifest.get("reranker")
        if not isinstance(config, dict):
            raise MemoryFileError(f"{self.path}: the manifest lacks the reranker's settings: export the memory again")
        if not self.files[RERANKER_FILE].is_file():
            raise MemoryFileError(f"{self.path} was replaced by a newer memory since it was loaded: load it again")
        from fresh.retrieval.reranker import Reranker

        return Reranker.read(config, self.files[RERANKER_FILE], device)

    def tool_guidance(self) -> dict[str, Any]:
        """Guidance for tool lists by tool name, as plain values; empty if there is none.

        Raises:
            MemoryFileError: The file is no JSON object.
        """
        if GUIDANCE_FILE not in self.kept:
            return {}
        try:
            return dict(orjson.loads(self.kept[GUIDANCE_FILE]))
        except (ValueError, TypeError) as error:
            raise MemoryFileError(
                f"{self.path}: the guidance for tool lists cannot be read ({error}): export the memory again"
            ) from None

    def card(self) -> str:
        """What a person should know of the memory; empty if nobody wrote it."""
        return self.kept.get(CARD_FILE, b"").decode()


def read_frozen(path: Path | str) -> FrozenFiles:
    """Reads a frozen memory, or a graph's folder, and checks every hash.

    Raises:
        MemoryFileError: The folder is missing, damaged, or newer than this version.
        SchemaError: The graph breaks its own rules.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    files = checked_files(folder, manifest)
    kept = {name: files[name].read_bytes() for name in (BM25_FILE, GUIDANCE_FILE, CARD_FILE) if name in files}
    return FrozenFiles(folder, manifest, graph_from_files(manifest, files), files, kept)
