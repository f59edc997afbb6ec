"""What an executor answered: words, calls, or nothing that can be used."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ProposedCall:
    """A tool call as the executor wrote it.

    Attributes:
        id: Its id in the conversation.
        raw: The arguments as text, as they came.
        arguments: The arguments; None if the text is no JSON object.
        problem: Why they cannot be read; empty if they can.
    """

    id: str
    tool: str
    raw: str
    arguments: dict[str, Any] | None
    problem: str = ""

    def openai(self) -> dict[str, Any]:
        """As OpenAI's API writes it, unreadable arguments unchanged."""
        return {"id": self.id, "type": "function", "function": {"name": self.tool, "arguments": self.raw}}

    @property
    def key(self) -> str:
        """Equal for equal calls, whatever the order of their arguments."""
        written = self.raw if self.arguments is None else json.dumps(self.arguments, sort_keys=True)
        return f"{self.tool} {written}"


def proposed_call(call_id: str, tool: str, arguments: Any) -> ProposedCall:
    """A call from its name and its arguments, given as JSON text or as a value."""
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            return ProposedCall(call_id, tool, raw, None, f"not JSON: {error}")
    if not isinstance(arguments, dict):
        return ProposedCall(call_id, tool, raw, None, f"a JSON {type(arguments).__name__}, not an object")
    return ProposedCall(call_id, tool, raw or "{}", arguments)


@dataclass(frozen=True)
class Reply:
    """One answer of the executor.

    Attributes:
        text: What it says to the user.
        calls: What it calls, in order.
        problem: Why the answer cannot be used; empty if it can.
        prompt_tokens: Tokens of the request, as the server counted them.
        cached_tokens: Of these, those the server had at hand.
        completion_tokens: Tokens of the answer.
    """

    text: str = ""
    calls: tuple[ProposedCall, ...] = ()
    problem: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    @property
    def key(self) -> str:
        """Equal for answers that do the same."""
        return "\n".join(call.key for call in self.calls) or f"say {self.text or self.problem}"
