"""The same gate without one of its checks, for measuring what that check is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from fresh.gate import Decision, Gate
from fresh.live import LiveParser, live_call


class HasJudge(Protocol):
    """A frozen memory, or anything else that holds a gate."""

    @property
    def judge(self) -> Gate:
        """The gate."""


class PartialGate:
    """Judges calls as a memory does, some checks left out.

    Args:
        judge: The whole gate; its memory is shared.
        without: Names of the checks left out, as findings bear them.
    """

    def __init__(self, judge: Gate, *without: str) -> None:
        settings = judge.settings.model_copy(update={"without": judge.settings.without | set(without)})
        self._judge = Gate(judge.index, settings, policy=judge.policy)
        self._parser = LiveParser()

    def gate(
        self,
        tool_call: Any,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        revisions: int = 0,
    ) -> Decision:
        """Judges one call in the light of the messages so far."""
        live, specs = self._parser.history(messages), self._parser.tools(tools)
        return self._judge.decide(live_call(tool_call), live, specs, revisions=revisions)


def without_check(memory: HasJudge) -> Callable[[str], PartialGate]:
    """Makes a memory's gate without one check, by its name."""
    return lambda check: PartialGate(memory.judge, check)
