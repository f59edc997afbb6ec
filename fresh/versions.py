"""Versions that a result depends on, to be written beside it."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

_LIBRARIES = ("fresh-memory", "torch", "lightning", "sentence-transformers", "numpy")


def versions(libraries: tuple[str, ...] = _LIBRARIES) -> dict[str, str]:
    """Versions of Python and of those of the libraries that are installed."""
    found = {"python": platform.python_version()}
    for name in libraries:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
