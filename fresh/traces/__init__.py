"""Recorded runs of every known format, read into trajectories.

>>> from fresh.traces import TraceReader
>>> reader = TraceReader(["runs/"])
>>> for run in reader: ...
>>> reader.report.skipped
"""

from fresh.traces.messages import parse_messages, parse_messages_with_notes, parse_tool_call
from fresh.traces.reader import TraceReader, load
from fresh.traces.report import ReadReport, Skipped
from fresh.traces.structure import looks_like_error, parse_observation
from fresh.traces.tools import load_effects, load_tools_file, parse_tools, resolve_effects, save_effects

__all__ = [
    "ReadReport",
    "Skipped",
    "TraceReader",
    "load",
    "load_effects",
    "load_tools_file",
    "looks_like_error",
    "parse_messages",
    "parse_messages_with_notes",
    "parse_observation",
    "parse_tool_call",
    "parse_tools",
    "resolve_effects",
    "save_effects",
]
