"""What guidance is: lines in sections, and the block of text made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

HEADER = "Notes from earlier runs, for the next step only:"


class Section(StrEnum):
    """The parts of a block, in the order they are shown."""

    DONE = "Done"
    """What the history already holds; one line."""
    DO = "Do"
    """The next action or two."""
    THEN = "Then"
    """Tools that are likely to be needed after that; one line."""
    AVOID = "Avoid"
    """What has failed, here or before."""
    CHECK = "Check"
    """Conditions of the likely next write that are not met yet."""
    REPAIR = "Repair"
    """What has resolved the error that just came."""


class Line(BaseModel):
    """One line of guidance."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    section: Section
    text: str
    confidence: float
    """0 to 1: for Do the smoothed success rate of the action, for Check the smoothed share of verified uses in which
    the condition held, for Avoid and Repair how often memory saw it so; 1 for what the live history itself shows."""
    node: int | None = None
    """The node it was made from; None for what the live history itself shows."""
    runs: tuple[str, ...] = ()
    """Runs behind the node, if asked for."""


class Guidance(BaseModel):
    """Guidance for one step."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lines: tuple[Line, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lines)

    @property
    def text(self) -> str:
        """The block for the executor; empty if there is nothing to say."""
        return self.render()

    def section(self, section: Section) -> tuple[Line, ...]:
        """The lines of one section."""
        return tuple(line for line in self.lines if line.section is section)

    def render(self, *, confidence: bool = False, provenance: bool = False) -> str:
        """The block, for people with confidence and the runs behind each line if wanted."""
        if not self.lines:
            return ""
        rows = [HEADER]
        for section in Section:
            for line in self.section(section):
                extra = f" [{line.confidence:.2f}]" if confidence else ""
                extra += f" (runs {', '.join(line.runs)})" if provenance and line.runs else ""
                rows.append(f"{section}: {line.text}{extra}")
        return "\n".join(rows)

    @property
    def tokens(self) -> int:
        """Estimated length of `text`."""
        return estimate_tokens(self.text)

    def as_message(self) -> dict[str, Any]:
        """The block as a message of its own, never of the system's role."""
        return {"role": "user", "content": self.text}

    def append_to(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """A copy of the messages with the block at the end of the latest one.

        The messages given stay as they are: the block is for one step and does not belong into the history, so that
        the prompt before it stays in the server's prefix cache. After a message of the assistant, or none, it is a
        message of its own.
        """
        copied = [dict(message) for message in messages]
        if not self.lines:
            return copied
        if not copied or copied[-1].get("role") not in ("user", "tool", "function"):
            return [*copied, self.as_message()]
        content = copied[-1].get("content")
        if isinstance(content, list):
            copied[-1]["content"] = [*content, {"type": "text", "text": self.text}]
        else:
            copied[-1]["content"] = f"{content}\n\n{self.text}" if content else self.text
        return copied


def estimate_tokens(text: str) -> int:
    """A conservative guess: one token per three bytes of UTF-8. Tool names and identifiers split into many."""
    return -(-len(text.encode()) // 3)
