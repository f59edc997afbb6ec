"""Conditions on what came before a call: reads made, the user's yes."""

from __future__ import annotations

from typing import Any, Literal

from fresh.conditions.parts import BaseCondition, references
from fresh.conditions.words import stems
from fresh.history import History


class ReadBefore(BaseCondition):
    """A successful call of ``tool`` has been made with each identifier that ``argument`` has now.

    Another call that showed the whole object does as well.

    Attributes:
        parameter: The parameter of ``tool`` that took the value.
        argument: Path of the argument of the guarded action, such as ``order_id`` or ``items[].id``.
    """

    kind: Literal["read_before"] = "read_before"
    tool: str
    parameter: str
    argument: str

    def holds(self, arguments: dict[str, Any], history: History) -> bool | None:
        """True, False, or None where the argument holds no identifier."""
        values = references(arguments, self.argument)
        if not values:
            return None
        return all(
            history.answered(self.tool, {self.parameter: value}) is not None or history.seen_whole(value)
            for value in values
        )

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        return f"before {action}: {self.tool} has been called with the same {self.argument}"


class CalledBefore(BaseCondition):
    """A successful call of ``tool`` has been made, whatever its arguments."""

    kind: Literal["called_before"] = "called_before"
    tool: str

    def holds(self, arguments: dict[str, Any], history: History) -> bool | None:
        """True or False."""
        return history.answered(self.tool) is not None

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        return f"before {action}: {self.tool} has been called"


class Confirmed(BaseCondition):
    """The user has agreed in their latest words."""

    kind: Literal["confirmed"] = "confirmed"

    def holds(self, arguments: dict[str, Any], history: History) -> bool | None:
        """True or False."""
        return history.confirmed()

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        return f"before {action}: the user has been told what will be done and has said yes"


class Asked(BaseCondition):
    """The user's own words speak of what the call does, or a text does that the user sent the agent to.

    Attributes:
        words: Stems, as `fresh.conditions.words.stems` makes them, one of which the users of verified calls said.
        by_name: The words are those of the tool's own name.
    """

    kind: Literal["asked"] = "asked"
    words: tuple[str, ...]
    by_name: bool = False

    def holds(self, arguments: dict[str, Any], history: History) -> bool | None:
        """True, False, or None where the user has said nothing."""
        texts = history.user_texts()
        if not texts:
            return None
        wanted = set(self.words)
        if any(wanted & stems(text) for text in texts):
            return True
        return any(wanted & stems(text) and history.named_by_user(call) for call, text in history.prose)

    def text(self, action: str) -> str:
        """One line for a person or a model."""
        return f"before {action}: the user has asked for it, in words such as {', '.join(self.words)}"
