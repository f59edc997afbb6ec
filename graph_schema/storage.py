"""A memory on disk: a folder of Parquet, safetensors and JSON, named by a manifest. Nothing in it is pickled.

Files carry part of their hash in their name, and the manifest is replaced last and at once, so that a reader sees
the old memory or the new one, never a mixture. Files of the memory before are kept until the next save, for readers
that had opened its manifest.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from graph_schema.errors import MemoryFileError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow.parquet

    from graph_schema.graph import ExperienceGraph

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
LOCK = ".lock"
_OBJECTS = ("settings", "feature_names", "gate_settings", "guidance_settings")
"""Parts of a manifest that are objects where present."""

Writer = Callable[[Path], None]


def write_folder(path: Path, writers: Mapping[str, Writer], manifest: Mapping[str, Any]) -> None:
    """Writes files and then the manifest that names them.

    Args:
        path: The folder; made if absent.
        writers: For each file name, such as ``nodes.parquet``, what writes it to a given path.
        manifest: Plain JSON values to store beside the file hashes.

    Raises:
        MemoryFileError: ``path`` is a file, holds something that is no memory, cannot be written, or another process is
            writing it.
    """
    if path.exists() and not path.is_dir():
        raise MemoryFileError(f"{path} is a file; name a folder for the memory")
    if path.is_dir() and any(path.iterdir()) and not (path / MANIFEST).exists() and not (path / LOCK).exists():
        raise MemoryFileError(f"{path} is not empty and not a memory; name another folder")
    made = not path.exists()
    try:
        path.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            _publish(path, writers, manifest)
    except OSError as error:
        raise MemoryFileError(f"cannot write a memory at {path}: {error}") from None
    finally:
        if made:
            with suppress(OSError):  # not empty: the memory is there, or another process is writing one
                path.rmdir()


def _publish(path: Path, writers: Mapping[str, Writer], manifest: Mapping[str, Any]) -> None:
    before = _named_files(path / MANIFEST)
    new_manifest = path / f".{secrets.token_hex(6)}.{MANIFEST}"
    staged: dict[str, Path] = {MANIFEST: new_manifest}
    try:
        new_manifest.touch()
        for name, write in writers.items():
            staged[name] = path / f".{secrets.token_hex(6)}.{name}"
            write(staged[name])
            staged[name].chmod(new_manifest.stat().st_mode)  # some writers make files for their owner alone
        files = {name: _describe(name, staged[name]) for name in writers}
        body = {"format_version": FORMAT_VERSION, **manifest, "files": files}
        for name, entry in files.items():
            staged[name].replace(path / entry["path"])
        new_manifest.write_bytes(orjson.dumps(body, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")
        new_manifest.replace(path / MANIFEST)
    finally:
        for leftover in staged.values():
            leftover.unlink(missing_ok=True)
        keep = _named_files(path / MANIFEST) | before | {MANIFEST, LOCK}
        _remove_others(path, keep, writers)


def _describe(name: str, staged: Path) -> dict[str, Any]:
    digest = file_hash(staged)
    stem, suffix = name.rsplit(".", 1)
    return {"path": f"{stem}.{digest[:12]}.{suffix}", "sha256": digest, "bytes": staged.stat().st_size}


def _named_files(manifest: Path) -> set[str]:
    try:
        return {entry["path"] for entry in orjson.loads(manifest.read_bytes())["files"].values()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return set()


def _remove_others(path: Path, keep: set[str], names: Iterable[str]) -> None:
    """Removes files of older saves and of writers that died; only names this module could have written."""
    for name in (*names, MANIFEST):
        stem, suffix = name.rsplit(".", 1)
        for file in (*path.glob(f"{stem}.????????????.{suffix}"), *path.glob(f".????????????.{name}")):
            if file.name not in keep:
                file.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One writer at a time. The lock goes with the process that holds it, so a dead writer blocks nobody."""
    import fcntl

    lock = path / LOCK
    while True:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            owner = _owner(lock)
            raise MemoryFileError(f"{owner} is writing {path}; wait for it, or name another folder") from None
        if _is_file(lock, descriptor):
            break
        os.close(descriptor)  # the last writer removed the file between our opening and our locking it
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _is_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _owner(lock: Path) -> str:
    """Who holds a lock, for a message."""
    try:
        return f"process {int(lock.read_text())}"
    except (OSError, ValueError):
        return "another process"


def file_hash(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(path: Path) -> dict[str, Any]:
    """Reads and checks a memory's manifest.

    Raises:
        MemoryFileError: No memory there, a damaged manifest, or a newer format.
    """
    file = path / MANIFEST
    try:
        if not path.is_dir() or not file.is_file():
            raise MemoryFileError(f"no memory at {path}: make one with 'fresh mine PATH... -o {path}'")
        manifest = orjson.loads(file.read_bytes())
        version = int(manifest["format_version"])
    except OSError as error:
        raise MemoryFileError(f"cannot read {file}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise MemoryFileError(f"{file} is damaged ({error}); mine the memory again or restore a copy") from None
    if version > FORMAT_VERSION:
        raise MemoryFileError(
            f"{path} has format {version}, this version reads up to {FORMAT_VERSION}: upgrade fresh-memory"
        )
    if not _names_files(manifest.get("files")):
        raise MemoryFileError(f"{file} is damaged (it names no files); mine the memory again or restore a copy")
    for part in _OBJECTS:
        if not isinstance(manifest.get(part, {}), dict):
            raise MemoryFileError(f"{file} is damaged ({part} is no object); mine the memory again or restore a copy")
    return dict(manifest)


def _names_files(files: Any) -> bool:
    """Whether a manifest's ``files`` is what `write_folder` writes; a path never leads out of the folder."""
    if not isinstance(files, dict):
        return False
    return all(
        isinstance(entry, dict)
        and isinstance(entry.get("sha256"), str)
        and isinstance(entry.get("path"), str)
        and Path(entry["path"]).name == entry["path"]
        for entry in files.values()
    )


def checked_files(path: Path, manifest: Mapping[str, Any], names: Iterable[str] | None = None) -> dict[str, Path]:
    """Paths of a memory's files, each checked against its hash.

    Raises:
        MemoryFileError: A file is missing, was cut short or was changed.
    """
    entries = {name: manifest["files"].get(name) for name in (names or manifest["files"])}
    try:
        for name, entry in entries.items():
            if entry is None or not (path / entry["path"]).is_file():
                raise MemoryFileError(f"{path}: {name} is missing; mine the memory again or restore a copy")
        files = {name: path / entry["path"] for name, entry in entries.items() if entry}
        with ThreadPoolExecutor(max_workers=4) as pool:
            digests = dict(zip(files, pool.map(file_hash, files.values()), strict=True))
    except OSError as error:
        raise MemoryFileError(f"cannot read the memory at {path}: {error.strerror}") from None
    for name, file in files.items():
        if digests[name] != manifest["files"][name]["sha256"]:
            raise MemoryFileError(f"{file} does not match its hash in {MANIFEST}: the memory is damaged")
    return files


def graph_writers(graph: ExperienceGraph) -> dict[str, Writer]:
    """What writes each file of a graph, for `write_folder`."""
    import pyarrow.parquet
    from safetensors.numpy import save_file

    from graph_schema.graph import TABLE_SCHEMAS

    def table_writer(name: str) -> Writer:
        table = getattr(graph.tables, name)
        return lambda path: pyarrow.parquet.write_table(table, path, compression="zstd")

    writers = {f"{name}.parquet": table_writer(name) for name in TABLE_SCHEMAS}
    if graph.features:
        writers["features.safetensors"] = lambda path: save_file(dict(graph.features), path)
    return writers


def graph_manifest(graph: ExperienceGraph) -> dict[str, Any]:
    """What a manifest says of a graph."""
    return {
        "kind": "graph",
        "counts": graph.counts(),
        "settings": graph.settings,
        "feature_names": graph.feature_names,
    }


def save_graph(graph: ExperienceGraph, path: Path) -> None:
    """Writes a graph as a folder."""
    write_folder(path, graph_writers(graph), graph_manifest(graph))


def load_graph(path: Path) -> ExperienceGraph:
    """Reads a graph's folder.

    Raises:
        MemoryFileError: The folder is missing, damaged or newer than this version.
    """
    manifest = read_manifest(path)
    return graph_from_files(manifest, checked_files(path, manifest))


def graph_from_files(manifest: Mapping[str, Any], files: Mapping[str, Path]) -> ExperienceGraph:
    """Reads a graph from files that were already checked; which runs showed what is read when first asked for."""
    import pyarrow
    import pyarrow.parquet
    from safetensors import SafetensorError

    from graph_schema.graph import TABLE_SCHEMAS, ExperienceGraph, StoredTables

    try:
        opened = {n: pyarrow.parquet.ParquetFile(files[f"{n}.parquet"], memory_map=True) for n in TABLE_SCHEMAS}
        tables = StoredTables({name: _reader(name, file) for name, file in opened.items()})
        features = _mapped(files["features.safetensors"]) if "features.safetensors" in files else {}
        return ExperienceGraph(
            tables,
            settings=manifest.get("settings"),
            features=features,
            feature_names=manifest.get("feature_names"),
        )
    except (pyarrow.ArrowException, SafetensorError, KeyError, OSError, ValueError) as error:
        raise MemoryFileError(f"the memory cannot be read ({error}); mine it again") from None


def _mapped(file: Path) -> dict[str, np.ndarray]:
    """Arrays of a safetensors file as read-only views of the file: nothing is copied, and only what is used is read.

    The package itself copies every array, which for the embeddings of 100k nodes takes longer than all else in loading.
    It still opens the file, and so checks it.
    """
    import numpy as np
    from safetensors import safe_open

    with safe_open(file, framework="np"):
        pass
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        header = orjson.loads(opened.read(size))
    data = np.memmap(file, dtype=np.uint8, mode="r")
    arrays: dict[str, np.ndarray] = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = (8 + size + offset for offset in entry["data_offsets"])
            arrays[name] = np.asarray(data[start:end]).view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "|u1", "BOOL": "|b1"}


def _reader(name: str, file: pyarrow.parquet.ParquetFile) -> Callable[[], pyarrow.Table]:
    """Reads an open file when called; the open file stays readable although a later save removes its name."""
    import pyarrow

    from graph_schema.graph import TABLE_SCHEMAS

    def read() -> pyarrow.Table:
        try:
            table = file.read().combine_chunks()
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise MemoryFileError(f"the {name} of the memory cannot be read ({error}); mine it again") from None
        if not table.schema.equals(TABLE_SCHEMAS[name]):
            raise MemoryFileError(f"the {name} of the memory have other columns than this version's; mine it again")
        return table

    return read
