"""What the commands read and write besides traces: JSON files, and folders that memories go into."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import orjson

from graph_schema.errors import ConfigError, FrozenMemoryError, MemoryFileError
from graph_schema.storage import MANIFEST, read_manifest


def check_output(path: Path) -> None:
    """Refuses, before any work is done, what saving would refuse in the end, and a frozen memory."""
    if path.exists() and not path.is_dir():
        raise MemoryFileError(f"{path} is a file; name a folder for the memory")
    if not path.is_dir():
        _check_parent(path)
        return
    if not any(path.iterdir()):
        return
    if not (path / MANIFEST).is_file():
        raise MemoryFileError(f"{path} is not empty and not a memory; name another folder")
    if read_manifest(path).get("kind") != "graph":
        raise FrozenMemoryError(f"{path} holds a frozen memory, which is not written over; name another folder")


def _check_parent(path: Path) -> None:
    """Refuses a folder that cannot be made."""
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not parent.is_dir():
        raise MemoryFileError(f"{parent} is a file, so {path} cannot be made; name another folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise MemoryFileError(f"{parent} cannot be written to, so {path} cannot be made; name another folder")


def conversation(messages: Path, tools: Path | None) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
    """Messages and tools from their files; an object may hold both as ``messages`` and ``tools``."""
    value = read_json(messages, "messages")
    listed = read_json(tools, "tools") if tools is not None else None
    if isinstance(value, dict):
        listed = value.get("tools") if listed is None else listed
        value = value.get("messages")
    if isinstance(listed, dict):
        listed = listed.get("tools")
    if not isinstance(value, list) or not all(isinstance(item, dict) and "role" in item for item in value):
        raise ConfigError(f"{messages}: expected a JSON list of messages with 'role', or an object with 'messages'")
    if listed is not None and not isinstance(listed, list):
        raise ConfigError(f"{tools or messages}: expected a list of tools, or an object with it under 'tools'")
    if tools is not None and listed is None:
        raise ConfigError(f"no tools in {tools}: expected a list of tools, or an object with it under 'tools'")
    return value, listed


def read_json(path: Path, what: str) -> Any:
    """The JSON value in a file, or on standard input for ``-``; ``what`` names it in an error message."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        return orjson.loads(data)
    except OSError as error:
        raise ConfigError(f"cannot read the {what} file {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ConfigError(f"the {what} file {path} is not JSON: {error}") from None


def print_json(value: Any) -> None:
    """Prints a value for a program to read."""
    print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def write_json(path: Path, value: Any) -> None:
    """Writes a value; the old file stays until the new one is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)
