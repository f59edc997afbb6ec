"""A write that some result asks for and the user does not: an order planted in what the agent reads.

Who may read a text is not who may give orders. A mail, a page or a message that names a value and, beside it, the very
act that the call would do with that value is no request of the user, as long as the user has neither spoken of such an
act nor sent the agent to that text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from fresh.conditions.words import stems
from fresh.gate.context import Context
from fresh.gate.decision import Finding, Verdict
from fresh.gate.remedies import agreed, question
from fresh.history import History
from fresh.traces.tools import verb_of
from fresh.values import argument_leaves
from graph_schema.trajectory import ToolCall

_REACH = 200
"""Characters on either side of a value in which the act must be named."""
_MAX_PLACES = 1_000
"""Places of one value in one text that are looked at."""
_SHORTEST = 3
"""Characters of a value that is looked for; shorter ones stand anywhere."""


def check_instructed(context: Context) -> Finding | None:
    """The result that asks for this write, where no word of the user does."""
    history = context.live.history
    spoken = history.user_texts()
    act = stems(verb_of(context.call.tool))
    if not spoken or any(act & stems(text) for text in spoken) or agreed(context):
        return None
    for path, call in _orders(context.arguments, act, history):
        words = context.call.tool.replace("_", " ")
        return Finding(
            check="instructed",
            verdict=Verdict.REVISE,
            reason=f"the user has not asked to {words}: a text in the result of {call.tool} does, with this {path}",
            todo=(question(context),),
        )
    return None


def _orders(arguments: dict[str, Any], act: frozenset[str], history: History) -> Iterator[tuple[str, ToolCall]]:
    """Arguments whose value a text names beside the act, with the call that showed the text, unbidden."""
    for path, value in argument_leaves(arguments):
        text = str(value).lower()
        if isinstance(value, bool) or len(text) < _SHORTEST or history.said(value):
            continue
        for call, prose in history.prose:
            if text in prose and _names_act(text, prose, act) and not history.named_by_user(call):
                yield path, call


def _names_act(value: str, prose: str, act: frozenset[str]) -> bool:
    places = itertools.islice(re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", prose), _MAX_PLACES)
    return any(act & stems(prose[max(0, at.start() - _REACH) : at.end() + _REACH]) for at in places)
