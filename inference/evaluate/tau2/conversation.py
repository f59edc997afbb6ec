"""One run's messages, kept in the package's own form and in OpenAI's at once."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from inference.evaluate.tau2.plan import Call

if TYPE_CHECKING:
    from tau2.data_model.message import Message
    from tau2.environment.environment import Environment

START = datetime(2025, 1, 1)
"""Every recording starts here, so that the same run is the same file."""
TICK = timedelta(seconds=1)


@dataclass
class Conversation:
    """The messages of a run so far.

    Attributes:
        policy: The system prompt; part of the OpenAI messages only, as in the package's own recordings.
        messages: In the package's form, for recording and scoring.
        history: As an OpenAI client would hold them, for the gate.
    """

    policy: str
    messages: list[Message] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.history.append({"role": "system", "content": self.policy})

    def now(self) -> str:
        """The simulated time: a second for each message."""
        return (START + len(self.messages) * TICK).isoformat()

    def assistant(self, text: str) -> None:
        """The agent speaks."""
        from tau2.data_model.message import AssistantMessage

        self.messages.append(AssistantMessage(role="assistant", content=text, **self._stamp()))
        self.history.append({"role": "assistant", "content": text})

    def user(self, text: str) -> None:
        """The user speaks."""
        from tau2.data_model.message import UserMessage

        self.messages.append(UserMessage(role="user", content=text, **self._stamp()))
        self.history.append({"role": "user", "content": text})

    def call(self, call: Call, environment: Environment) -> tuple[str, bool]:
        """The agent calls a tool and the environment answers.

        Returns:
            The result's text, and whether the call was refused.
        """
        from tau2.data_model.message import AssistantMessage, ToolCall

        recorded = ToolCall(id=self.next_id(), name=call.tool, arguments=call.arguments)
        self.messages.append(AssistantMessage(role="assistant", tool_calls=[recorded], **self._stamp()))
        self.history.append({"role": "assistant", "content": None, "tool_calls": [self.openai_call(call)]})
        answer = environment.get_response(recorded)
        answer = answer.model_copy(update=self._stamp())
        self.messages.append(answer)
        text = answer.content or ""
        self.history.append({"role": "tool", "tool_call_id": recorded.id, "name": call.tool, "content": text})
        return text, answer.error

    def user_call(self, call: Call, environment: Environment) -> str:
        """The user calls a tool of their own, which the agent does not see.

        Returns:
            The result's text.
        """
        from tau2.data_model.message import ToolCall, UserMessage

        recorded = ToolCall(id=f"user_{len(self.messages)}", name=call.tool, arguments=call.arguments, requestor="user")
        self.messages.append(UserMessage(role="user", tool_calls=[recorded], **self._stamp()))
        answer = environment.get_response(recorded).model_copy(update=self._stamp())
        self.messages.append(answer)
        return answer.content or ""

    def openai_call(self, call: Call) -> dict[str, Any]:
        """A call as OpenAI's API writes it, with the id it has or would have."""
        return {
            "id": self.next_id(),
            "type": "function",
            "function": {"name": call.tool, "arguments": json.dumps(call.arguments)},
        }

    def next_id(self) -> str:
        """The id of the call that is made next; unique within the run."""
        made = sum(1 for message in self.history if message["role"] == "tool")
        return f"call_{made}"

    def _stamp(self) -> dict[str, Any]:
        return {"turn_idx": len(self.messages), "timestamp": self.now()}
