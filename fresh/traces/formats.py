"""The trace formats, and which of them a file is in."""

from __future__ import annotations

from types import ModuleType
from typing import Any, cast

from fresh.traces import agentdojo, chat, reflexion, tau2, tau_bench, who_and_when
from fresh.traces.record import Format
from graph_schema.errors import ConfigError

_MODULES: tuple[ModuleType, ...] = (tau_bench, tau2, agentdojo, who_and_when, reflexion, chat)

FORMATS: dict[str, Format] = {module.NAME: cast("Format", module) for module in _MODULES}
"""Readers by name, the more particular first: plain messages are recognised last."""


def get_format(name: str) -> Format:
    """The reader of a named format.

    Raises:
        ConfigError: There is none of that name.
    """
    if name not in FORMATS:
        raise ConfigError(f"unknown trace format {name!r}; one of: {', '.join(FORMATS)}")
    return FORMATS[name]


def recognise(record: Any) -> Format | None:
    """The format a record is in by its keys, or None."""
    return next((reader for reader in FORMATS.values() if reader.recognises(record)), None)
