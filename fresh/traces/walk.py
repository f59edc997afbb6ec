"""Paths to trace files, in an order that does not depend on the machine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from fresh.traces.files import SUFFIXES
from graph_schema.errors import TraceError


class Found(NamedTuple):
    """A file to read.

    Attributes:
        path: The file.
        named: The caller named it; otherwise it was met in a folder, where files without runs are to be expected.
    """

    path: Path
    named: bool


def find_files(paths: Iterable[Path | str]) -> list[Found]:
    """Lists the files to read: named ones as given, folders walked in sorted order, each file once.

    Raises:
        TraceError: A path is missing or no file, or a folder holds no JSON file.
    """
    found: dict[Path, Found] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            inside = [item for item in sorted(path.rglob("*")) if _is_candidate(item, path)]
            if not inside:
                raise TraceError(f"no {' or '.join(SUFFIXES[:4])} file in the folder {path}")
            for item in inside:
                found.setdefault(item.resolve(), Found(item, named=False))
        elif path.exists() and not path.is_file():
            raise TraceError(f"{path} is a pipe or a device, which can be read once only: write it to a file first")
        elif path.exists():
            found[path.resolve()] = Found(path, named=True)
        else:
            raise TraceError(f"no such file or folder: {path}")
    if not found:
        raise TraceError("no path to read traces from was given")
    return list(found.values())


def _is_candidate(path: Path, root: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
    return not hidden and path.name.lower().endswith(SUFFIXES) and path.is_file()
