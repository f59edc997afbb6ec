"""Evidence of uses, written by hand."""

from __future__ import annotations

from typing import Any

from fresh.mining.use import Use


def use(task: int, sign: int = 1, *, tool: str = "lend", **evidence: Any) -> Use:
    """One use of a write; everything that is not given is as harmless as can be."""
    plain: dict[str, Any] = {
        "run": f"r{task}{sign}",
        "task": f"t{task}",
        "tool": tool,
        "pattern": f"{tool}(book=<BOOK>)",
        "sign": sign,
        "arguments": {"book": True},
        "reads": frozenset({("look", "book", "book")}),
        "called": frozenset({"look"}),
        "confirmed": True,
        "grounded": {"book": True},
    }
    return Use(**(plain | evidence))
