"""A pool on disk: a folder with a manifest, its runs as JSON and their embeddings as safetensors."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from fresh.seer.eviction import Eviction
from fresh.seer.experience import Contents, Counters, Experience, Step
from fresh.seer.intent import Intents
from fresh.seer.pool import ExperiencePool, Judge, PoolSettings, succeeded
from fresh.seer.weights import Weights
from graph_schema.errors import ConfigError, MemoryFileError
from graph_schema.storage import checked_files, read_manifest, write_folder

if TYPE_CHECKING:
    from fresh.retrieval.encoder import Encoder

KIND = "seer-pool"
RUNS_FILE = "runs.json"
VECTORS_FILE = "embeddings.safetensors"


def save_pool(pool: ExperiencePool, path: Path | str) -> None:
    """Writes a pool as a folder; one that was there is replaced at once.

    Its judge and its classifier of intents are the caller's and are not written.

    Raises:
        MemoryFileError: The folder cannot be written (see `graph_schema.storage.write_folder`).
    """
    from safetensors.numpy import save_file

    kept = pool.contents
    runs = [
        asdict(experience) | {"tools": sorted(experience.tools), "counters": asdict(counters)}
        for experience, counters in zip(kept.experiences, kept.counters, strict=True)
    ]
    vectors = {"runs": np.ascontiguousarray(kept.runs), "requests": np.ascontiguousarray(kept.requests)}
    body = orjson.dumps(runs)
    write_folder(
        Path(path),
        {
            RUNS_FILE: lambda file: _write(file, body),
            VECTORS_FILE: lambda file: save_file(vectors, file),
        },
        {
            "kind": KIND,
            "encoder": {"name": pool.encoder.name, "dim": pool.encoder.dim},
            "settings": asdict(pool.settings),
            "recalls": kept.recalls,
        },
    )


def load_pool(
    path: Path | str,
    encoder: Encoder | None = None,
    *,
    intents: Intents | None = None,
    judge: Judge = succeeded,
) -> ExperiencePool:
    """Reads a pool.

    Args:
        path: Its folder.
        encoder: The text encoder that it was built with; loaded by its name if left out.
        intents: See `ExperiencePool`; give what the pool was built with.
        judge: See `ExperiencePool`.

    Raises:
        MemoryFileError: The folder is missing, damaged, newer than this version, or no SEER pool.
        ConfigError: The encoder is another one than the pool's, or cannot be loaded.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    folder = Path(path)
    manifest = read_manifest(folder)
    if manifest.get("kind") != KIND:
        raise MemoryFileError(f"{folder} is no SEER pool but {manifest.get('kind')!r}: name the folder of a pool")
    files = checked_files(folder, manifest, (RUNS_FILE, VECTORS_FILE))
    try:
        runs = orjson.loads(files[RUNS_FILE].read_bytes())
        vectors = load_file(files[VECTORS_FILE])
        settings = _settings(manifest["settings"])
        name, dim = str(manifest["encoder"]["name"]), int(manifest["encoder"]["dim"])
        contents = Contents(
            experiences=[_experience(run) for run in runs],
            counters=[Counters(**run["counters"]) for run in runs],
            runs=vectors["runs"],
            requests=vectors["requests"],
            recalls=int(manifest["recalls"]),
        )
        contents.check(dim, settings.capacity)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        raise MemoryFileError(
            f"the SEER pool at {folder} is damaged ({error}): build it again or restore a copy"
        ) from None
    return ExperiencePool(_fitting(encoder, name, dim), settings, intents=intents, judge=judge, contents=contents)


def _settings(stored: dict[str, Any]) -> PoolSettings:
    values = stored | {"weights": Weights(**stored["weights"]), "eviction": Eviction(stored["eviction"])}
    return PoolSettings(**values)


def _experience(stored: dict[str, Any]) -> Experience:
    steps = tuple(Step(step["tool"], tuple(step["arguments"])) for step in stored["steps"])
    return Experience(
        run_id=stored["run_id"],
        task_key=stored["task_key"],
        request=stored["request"],
        steps=steps,
        tools=frozenset(stored["tools"]),
        intent=stored["intent"],
    )


def _fitting(encoder: Encoder | None, name: str, dim: int) -> Encoder:
    from fresh.retrieval.encoder import load_encoder

    own = load_encoder(name) if encoder is None else encoder
    if (own.name, own.dim) != (name, dim):
        raise ConfigError(
            f"the SEER pool was built with the text encoder {name!r} ({dim} wide), not {own.name!r} ({own.dim} wide): "
            "load it with that one"
        )
    return own


def _write(file: Path, data: bytes) -> None:
    file.write_bytes(data)
