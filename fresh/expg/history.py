"""Where every word of a run was first seen and last used: the ground that judgements of one call stand on.

Built once per run, in one pass; each question about a value afterwards is a few dictionary look-ups.
"""

from __future__ import annotations

import re
from typing import Any

from fresh.expg.experience import canonical
from fresh.expg.observed import is_identifier, leaves, number_text, value_words, vocabulary
from graph_schema.trajectory import Role, ToolSpec, Trajectory

_JOINT = re.compile(r"[_/-]+")
_ORDER = ("request", "user", "result", "policy", "schema")


class History:
    """First sight and last use of words in one run.

    A word is seen at turn t when somebody other than the agent wrote it there: in the request or the policy
    (turn -1), in a message of the user, or in a result. It is used at turn t when the agent wrote it, in a message
    or in arguments.
    """

    def __init__(self, trajectory: Trajectory) -> None:
        self._first: dict[str, tuple[int, str]] = {}
        self._used: dict[str, int] = {}
        self._raw: list[tuple[int, str]] = []
        self._last_message = -1
        self._see(-1, "request", trajectory.request)
        self._see(-1, "policy", trajectory.policy)
        for index, turn in enumerate(trajectory.turns):
            if turn.role is Role.ASSISTANT:
                self._use_turn(index, turn.text)
                self._last_message = index if turn.text.strip() else self._last_message
            elif turn.role is Role.USER:
                self._see(index, "user", turn.text)
            else:
                self._see(index, "policy", turn.text)
            for call in turn.calls:
                if call.by_user:
                    self._see(index, "user", call.raw_arguments)
                elif call.arguments is not None:
                    self._use_turn(index, call.raw_arguments)
                if call.observation is not None:
                    self._see(index + 1, "result", call.observation.text)

    def _see(self, turn: int, source: str, text: str) -> None:
        if not text:
            return
        self._raw.append((turn, text.lower()))
        first = self._first
        mark = (turn, source)
        for word in vocabulary(text):
            first.setdefault(word, mark)

    def _use_turn(self, turn: int, text: str) -> None:
        for word in vocabulary(text):
            self._used[word] = turn

    def origin(self, value: Any, turn: int) -> str | None:
        """Where a scalar stood before the agent's message at ``turn``; None when it did not.

        A result belongs to the turn after its call, so that calls made side by side do not inform each other.
        """
        parts = value_words(value)
        if not parts:
            return None
        found: str | None = None
        for part in parts:
            seen = self._first.get(part)
            if seen is None or seen[0] > turn:
                return self._verbatim(value, turn)
            if found is None or _ORDER.index(seen[1]) > _ORDER.index(found):
                found = seen[1]
        return found

    def _verbatim(self, value: Any, turn: int) -> str | None:
        """An identifier that stands inside a longer word, such as the account of an e-mail address."""
        if not is_identifier(value):
            return None
        text = str(value).strip().lower()
        for seen, chunk in self._raw:
            if seen <= turn and _stands_in(text, chunk):
                return "user" if seen >= 0 else "request"
        return None

    def is_new(self, word: str, turn: int) -> bool:
        """Nobody but the agent had written the word before the results of ``turn`` came."""
        seen = self._first.get(word)
        return seen is None or seen[0] > turn

    def used_after(self, word: str, turn: int) -> bool:
        """The agent wrote the word in a later message or call, ``basic_economy`` also as two words."""
        if self._used.get(word, -1) > turn:
            return True
        parts = _JOINT.split(word)
        return len(parts) > 1 and all(len(part) > 2 and self._used.get(part, -1) > turn for part in parts)

    def speaks_after(self, turn: int) -> bool:
        """The agent writes a message after ``turn``: one that only calls tools uses much without saying so."""
        return self._last_message > turn


def _stands_in(needle: str, text: str) -> bool:
    """``needle`` occurs with no letter or digit right before or after it."""
    start = text.find(needle)
    while start >= 0:
        end = start + len(needle)
        before_ok = start == 0 or not text[start - 1].isalnum()
        if before_ok and (end == len(text) or not text[end].isalnum()):
            return True
        start = text.find(needle, start + 1)
    return False


def schema_words(spec: ToolSpec) -> frozenset[str]:
    """Words that a tool's own description and schema offer: enum members, defaults, examples."""
    text = f"{spec.description} {canonical(spec.parameters)}"
    found = set(vocabulary(text))
    found.update(number_text(leaf) for _, leaf in leaves(spec.parameters) if _is_number(leaf))
    return frozenset(found)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
