"""What SEER compares of a history and of a stored run, taken from both in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fresh.history import History
from fresh.mining.patterns import error_message, in_words
from fresh.retrieval.query import strip_identifiers
from graph_schema.trajectory import CallStatus, Role, ToolCall, Trajectory, Turn

_REQUEST_WORDS = 60
_TURN_WORDS = 15
_OPENING_TURNS = 3


@dataclass(frozen=True, slots=True)
class Situation:
    """A history H_t, or a whole run: what E_tau, E_q, I and U are made of.

    Attributes:
        request: The initial request without identifiers; E_q embeds it.
        text: The request and the steps so far (`trajectory_text`); E_tau embeds it.
        tools: The tools that the agent has called so far, in order, with repetitions; U is their set.
        said: The initial request in the user's own words, for the intent I, and what they said in the two turns after
            it, for where the request has none ("Hello!").
    """

    request: str
    text: str
    tools: tuple[str, ...] = ()
    said: tuple[str, ...] = ()

    @classmethod
    def of(cls, history: History) -> Situation:
        """The situation of a run in progress."""
        return cls._of(history.request, history.turns)

    @classmethod
    def of_run(cls, run: Trajectory) -> Situation:
        """A whole recorded run."""
        return cls._of(run.request, run.turns)

    @classmethod
    def _of(cls, request: str, turns: Sequence[Turn]) -> Situation:
        return cls(
            request=strip_identifiers(request),
            text=trajectory_text(request, turns),
            tools=tuple(call.tool for turn in turns for call in turn.calls if not call.by_user),
            said=(request, *_later_words(request, turns)[: _OPENING_TURNS - 1]),
        )


def trajectory_text(request: str, turns: Sequence[Turn]) -> str:
    """The text of a run, whole or so far: the request, then step by step what was said and done since.

    A line each: the request, what the user added, each call of the agent as the words of its tool and the names of its
    arguments, and the kind of error where it failed. Words and names rather than values, because a run is to be found
    again for another customer's order; what the agent said and what its calls returned is left out for the same reason.
    A step that repeats an earlier one is not said again. Long speech is shortened: text encoders read some 250 words
    and drop the rest, which would be the latest steps.
    """
    lines = [_shorten(strip_identifiers(request), _REQUEST_WORDS)]
    awaited = request
    for turn in turns:
        if turn.role is Role.USER and turn.text == awaited:
            awaited = ""
        elif turn.role is Role.USER:
            lines.append(_shorten(strip_identifiers(turn.text), _TURN_WORDS))
        lines += [line for call in turn.calls if not call.by_user for line in _call_lines(call)]
    return "\n".join(dict.fromkeys(filter(None, lines)))


def _call_lines(call: ToolCall) -> list[str]:
    arguments = ", ".join(in_words(name) for name in sorted(call.arguments or {}))
    lines = [f"{in_words(call.tool)}: {arguments}" if arguments else in_words(call.tool)]
    if call.status is CallStatus.ERROR and call.observation is not None:
        lines.append(f"failed: {error_message(call.observation.text, call.arguments)}")
    return lines


def _later_words(request: str, turns: Sequence[Turn]) -> list[str]:
    said = [turn.text for turn in turns if turn.role is Role.USER and turn.text]
    return said[1:] if said[:1] == [request] else said


def _shorten(text: str, words: int) -> str:
    return " ".join(text.split()[:words])
