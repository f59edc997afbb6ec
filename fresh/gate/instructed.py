"""A write that some result asks for and the user does not: an order planted in what the agent reads.

Who may read a text is not who may give orders. A mail, a page or a message that names a value and, beside it, the very
act that the call would do with that value is no request of the user, as long as the user has neither spoken of such an
act nor sent the agent to that text.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from fresh.conditions.words import forms_of, speaks_of
from fresh.gate.context import Context
from fresh.gate.decision import Finding, Verdict
from fresh.gate.remedies import agreed, question
from fresh.history import History, stands_in
from fresh.traces.tools import verb_of
from fresh.values import argument_leaves, normalise
from graph_schema.trajectory import ToolCall

_REACH = 200
"""Characters on either side of the act in which a value counts as meant by it."""
_SHORTEST = 3
"""Characters of a value that is looked for; shorter ones stand anywhere."""


def check_instructed(context: Context) -> Finding | None:
    """The result that asks for this write, where no word of the user does."""
    history, verb = context.live.history, verb_of(context.call.tool)
    spoken = history.user_texts()
    if not spoken or any(speaks_of(text, verb) for text in spoken) or _agreed(context, verb):
        return None
    for path, call in _orders(context.arguments, verb, history):
        words = context.call.tool.replace("_", " ")
        return Finding(
            check="instructed",
            verdict=Verdict.REVISE,
            reason=f"the user has not asked to {words}: a text in the result of {call.tool} does, with this {path}",
            todo=(question(context),),
        )
    return None


def _agreed(context: Context, verb: str) -> bool:
    """Whether the user said yes to this very call: to a question that names the act and the call's values."""
    return agreed(context) and speaks_of(context.live.history.put_to_user, verb)


def _orders(arguments: dict[str, Any], verb: str, history: History) -> Iterator[tuple[str, ToolCall]]:
    """Arguments whose value a text names beside the act, with the call that showed the text, unbidden."""
    values: dict[str, str] = {}
    for path, value in argument_leaves(arguments):
        key = None if isinstance(value, bool) else normalise(value)
        if key is not None and len(key) >= _SHORTEST and key not in values and not history.said(value):
            values[key] = path
    for call, prose in history.prose if values else ():
        passages = _passages(prose, verb)
        for key, path in values.items() if passages else ():
            if any(_is_ordered(key, passage, verb) for passage in passages) and not history.named_by_user(call):
                yield path, call


@lru_cache(maxsize=2_048)
def _passages(prose: str, verb: str) -> tuple[str, ...]:
    """The parts of a text around each place where it names an act, joined where they overlap."""
    found: list[tuple[int, int]] = []
    for place in forms_of(verb).finditer(prose):
        start, end = max(0, place.start() - _REACH), place.end() + _REACH
        if found and start <= found[-1][1]:
            start = found.pop()[0]
        found.append((start, end))
    return tuple(prose[start:end] for start, end in found)


def _is_ordered(key: str, passage: str, verb: str) -> bool:
    """Whether a passage holds a value, and the act outside it: *create the slides* as a title orders nothing."""
    return stands_in(key, passage) and forms_of(verb).search(passage.replace(key, " ")) is not None
