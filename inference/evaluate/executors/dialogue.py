"""One run's messages: what the executor sees, and the part of it that really happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inference.evaluate.executors.reply import ProposedCall
from inference.evaluate.tau2.conversation import Conversation

if TYPE_CHECKING:
    from tau2.environment.environment import Environment


@dataclass
class Dialogue(Conversation):
    """The conversation of a run with several calls in a message, and with calls that were never made.

    A call that was held back, or could not be read, stands in the history with its refusal: the executor must see what
    became of it. It does not stand among the messages, since tau2's evaluator makes again every call it finds there;
    those hold each call that was made, with its result, as a message of its own.
    """

    def propose(self, calls: Sequence[ProposedCall], text: str = "") -> None:
        """The executor's message with these calls; each must be answered."""
        written = [call.openai() for call in calls]
        self.history.append({"role": "assistant", "content": text or None, "tool_calls": written})

    def answer(self, call: ProposedCall, text: str) -> None:
        """The answer to a call of the latest message."""
        self.history.append({"role": "tool", "tool_call_id": call.id, "name": call.tool, "content": text})

    def execute(self, tool: str, arguments: Mapping[str, Any], environment: Environment) -> tuple[str, bool]:
        """Makes a call; the history is left to whoever proposed it.

        Returns:
            The result's text, and whether the environment refused the call.
        """
        from tau2.data_model.message import AssistantMessage, ToolCall

        recorded = ToolCall(id=f"call_{len(self.messages)}", name=tool, arguments=dict(arguments))
        self.messages.append(AssistantMessage(role="assistant", tool_calls=[recorded], **self._stamp()))
        answer = environment.get_response(recorded)
        self.messages.append(answer.model_copy(update=self._stamp()))
        return answer.content or "", answer.error
