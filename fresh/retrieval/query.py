"""What an agent's situation asks of the memory: the query, made from the history so far and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fresh.history import History
from fresh.values import is_identifier
from graph_schema.trajectory import CallStatus, Role

_REQUEST_WORDS = 100
_ERROR_WORDS = 30
_RECENT_TURNS = 2
_EDGES = re.compile(r"^[^\w#$@<]+|[^\w>]+$")


@dataclass(frozen=True, slots=True)
class Query:
    """One decision point, as retrieval sees it.

    Attributes:
        parts: Request, latest user turns, last call and last error in words, identifiers left out.
        said: What the user has said so far, a text a turn; compared with the requests of recorded tasks.
        used: The agent's calls so far, ``(tool, status)``, oldest first.
        last_error: Text of the newest observation if it is an error, else empty.
        confirmed: The user's latest words agree to something.
        user_turns: How often the user has spoken.
        spoken: The user, not a tool, was the last to speak.
        offered: Names of the tools the agent may call now; None when nobody said.
    """

    parts: tuple[str, ...]
    said: tuple[str, ...] = ()
    used: tuple[tuple[str, CallStatus], ...] = ()
    last_error: str = ""
    confirmed: bool = False
    user_turns: int = 0
    spoken: bool = True
    offered: frozenset[str] | None = None

    @property
    def text(self) -> str:
        """All parts, for a search by words."""
        return "\n".join(self.parts)

    @property
    def request(self) -> str:
        """All that the user has said, for a search by words."""
        return "\n".join(self.said)

    @property
    def last_tool(self) -> str:
        """Tool of the newest call; empty before the first."""
        return self.used[-1][0] if self.used else ""


def make_query(history: History, offered: Iterable[str] | None = None) -> Query:
    """Builds the query of a moment.

    Args:
        history: The run so far.
        offered: Names of the tools the agent may call now, if known.
    """
    calls = history.agent_calls
    error = _last_error(history)
    said = history.user_texts()
    # Each turn in the same words in every query, so that it is embedded once in a run.
    parts = [_shorten(text, _REQUEST_WORDS) for text in (*said[:1], *said[1:][-_RECENT_TURNS:])]
    if calls:
        parts.append(" ".join((calls[-1].tool, *(calls[-1].arguments or {}))))
    if error:
        parts.append(_shorten(error, _ERROR_WORDS))
    return Query(
        parts=_clean(parts),
        said=_clean(_shorten(text, _REQUEST_WORDS) for text in said),
        used=tuple((call.tool, call.status) for call in calls),
        last_error=error,
        confirmed=history.confirmed(),
        user_turns=len(said),
        spoken=_user_spoke_last(history),
        offered=None if offered is None else frozenset(offered),
    )


def _clean(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(filter(None, (strip_identifiers(text) for text in texts)))


def strip_identifiers(text: str) -> str:
    """Leaves out words that name one particular object: a query is about the kind of request, not whose it is."""
    return " ".join(word for word in text.split() if not is_identifier(_EDGES.sub("", word)))


def _shorten(text: str, words: int) -> str:
    """At most so many words, two thirds from the start and the rest from the end."""
    found = text.split()
    if len(found) <= words:
        return " ".join(found)
    tail = words // 3
    return " ".join(found[: words - tail] + found[-tail:])


def _last_error(history: History) -> str:
    for call in reversed(history.agent_calls):
        if call.status is CallStatus.ERROR and call.observation is not None:
            return call.observation.text
        if call.status is CallStatus.OK:
            return ""
    return ""


def _user_spoke_last(history: History) -> bool:
    for turn in reversed(history.turns):
        if turn.role is Role.USER and turn.text:
            return True
        if turn.calls:
            return False
    return False
