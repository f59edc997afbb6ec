"""The usual shape of each tool's responses, learnt in a first pass over the traces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from fresh.traces.structure import parse_observation
from graph_schema.trajectory import CallStatus, Trajectory

MIN_SEEN = 5
"""Below this many answers nothing is called usual."""
USUAL_SHARE = 0.6
"""Share of answers a kind must have to be the usual one."""
EMPTY = "empty"
_NOTHING = frozenset({"", "null", "none", "{}", "[]", "()"})
_NUMBER = re.compile(r"[-+]?\$?\d[\d,]*(?:\.\d+)?%?")


def kind_of(text: str, value: Any) -> str:
    """Coarse kind of a response: ``empty``, ``object``, ``array``, ``number``, ``boolean`` or ``text``.

    Args:
        text: The response as recorded.
        value: The mapping or list it writes down, or None.
    """
    if isinstance(value, dict | list) and value:
        return "object" if isinstance(value, dict) else "array"
    bare = text.strip().strip("\"'").strip().lower()
    if bare in _NOTHING or value is not None:
        return EMPTY
    if bare in {"true", "false"}:
        return "boolean"
    return "number" if _NUMBER.fullmatch(bare) else "text"


class _ToolShapes:
    """Counts for one tool."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.keys: Counter[str] = Counter()

    def add(self, text: str, value: Any) -> None:
        kind = kind_of(text, value)
        self.kinds[kind] += 1
        if isinstance(value, dict) and kind == "object":
            self.keys.update(map(str, value))


class ResponseShapes:
    """What each tool's successful responses look like.

    Order of adding does not matter, and two instances merge into the same counts as one. Tools of one name in two
    domains are two tools: callers name them with :func:`shape_key`.
    """

    def __init__(self) -> None:
        self._tools: dict[str, _ToolShapes] = {}

    def __repr__(self) -> str:
        return f"ResponseShapes({len(self._tools)} tools)"

    def add(self, tool: str, text: str) -> None:
        """Counts one successful response."""
        self._tools.setdefault(tool, _ToolShapes()).add(text, parse_observation(text))

    def merge(self, other: ResponseShapes) -> None:
        """Adds the counts of another instance."""
        for tool, theirs in other._tools.items():
            mine = self._tools.setdefault(tool, _ToolShapes())
            mine.kinds.update(theirs.kinds)
            mine.keys.update(theirs.keys)

    def usual_kind(self, tool: str) -> str | None:
        """The kind most responses of the tool have; None when too few were seen or none prevails."""
        seen = self._tools.get(tool)
        if seen is None:
            return None
        total = seen.kinds.total()
        kind, count = max(seen.kinds.items(), key=lambda item: (item[1], item[0]))
        return kind if total >= MIN_SEEN and count >= USUAL_SHARE * total else None

    def usual_keys(self, tool: str) -> frozenset[str]:
        """Keys that at least half of the tool's object responses have."""
        seen = self._tools.get(tool)
        if seen is None:
            return frozenset()
        objects = seen.kinds["object"]
        return frozenset(key for key, count in seen.keys.items() if objects and 2 * count >= objects)

    def fits(self, tool: str, text: str, value: Any) -> bool | None:
        """Whether a response has the tool's usual shape; None when there is no usual one."""
        usual = self.usual_kind(tool)
        if usual is None:
            return None
        kind = kind_of(text, value)
        if kind != usual:
            # An empty result is of any list's or object's shape; whether it says anything is another question.
            return kind == EMPTY and usual in {"array", "object"}
        keys = self.usual_keys(tool)
        if kind != "object" or not keys:
            return True
        return 2 * len(keys & set(map(str, value))) >= len(keys)


def shape_key(trajectory: Trajectory, tool: str) -> str:
    """Name of a tool within its domain."""
    return f"{trajectory.domain}/{tool}"


def collect_shapes(trajectories: Iterable[Trajectory]) -> ResponseShapes:
    """Shapes of all answered, error-free calls of the agent."""
    shapes = ResponseShapes()
    for trajectory in trajectories:
        for _, call in trajectory.calls():
            if call.status is CallStatus.OK and call.observation is not None and not call.observation.truncated:
                shapes.add(shape_key(trajectory, call.tool), call.observation.text)
    return shapes
