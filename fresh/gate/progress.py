"""What a run has spent and whether it gets on: fruitless refusals, loops, repeats, writes and steps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

import orjson

from fresh.gate.context import Context
from fresh.gate.decision import REFUSAL, Finding, Verdict
from graph_schema.trajectory import CallStatus, Effect, Role, ToolCall

_MAX_PERIOD = 6
_VOLATILE = frozenset(
    ("wait", "poll", "watch", "monitor", "status", "progress", "time", "date", "now", "clock", "random", "next")
)
"""Words in the name of a read whose answer may change by itself: it is always executed."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def call_key(call: ToolCall) -> str:
    """A call to the letter: an id in other capitals, or a number written as text, is another try."""
    if call.arguments is None:
        return f"{call.tool}|{call.raw_arguments}"
    try:
        return f"{call.tool}|{orjson.dumps(call.arguments, option=orjson.OPT_SORT_KEYS).decode()}"
    except (TypeError, ValueError):  # integers beyond 64 bits
        return f"{call.tool}|{call.raw_arguments}"


def is_refusal(call: ToolCall) -> bool:
    """Whether the gate, and not the tool, answered a call."""
    return call.observation is not None and call.observation.text.startswith(REFUSAL)


def last_user_turn(context: Context) -> int:
    """Index of the last turn in which the user said something; -1 if there is none."""
    turns = context.live.history.turns
    return next((i for i in range(len(turns) - 1, -1, -1) if turns[i].role is Role.USER and turns[i].text), -1)


def fruitless_refusals(context: Context) -> int:
    """Refusals of the call's tool since the last progress.

    Progress is a word of the user, a successful call of the tool itself, or a successful call that the refusal asked
    for and that had not been made before.
    """
    calls = context.live.history.calls
    since = last_user_turn(context)
    if not any(turn > since and call.tool == context.call.tool and is_refusal(call) for turn, call in reversed(calls)):
        return 0
    count, asked = 0, ""
    made: set[str] = set()
    for turn, call in calls:
        if call.by_user or call.observation is None:
            continue
        if is_refusal(call):
            if turn > since and call.tool == context.call.tool:
                count, asked = count + 1, call.observation.text
            continue
        if call.status is not CallStatus.OK:
            continue
        key = call_key(call)
        if call.tool == context.call.tool or (key not in made and _names(asked, call.tool)):
            count, asked = 0, ""
        made.add(key)
    return count


def _names(text: str, tool: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(tool)}(?!\w)", text) is not None


def recorded_answer(context: Context) -> str | None:
    """The result of the same read, if nothing can have changed it since; None where it should be executed.

    A write, a call of unknown effect, anything the user said or did may have changed it, and so may time: a read that
    gave two answers before, or whose name says that it watches something, is executed again.
    """
    if not context.settings.answer_repeats or context.effect is not Effect.READ or context.call.arguments is None:
        return None
    if _VOLATILE & {word.lower() for word in _WORD.findall(context.call.tool)}:
        return None
    since, key = last_user_turn(context), call_key(context.call)
    answer: str | None = None
    for turn, call in reversed(context.live.history.calls):
        if turn <= since or call.by_user:
            break
        if call.observation is None or is_refusal(call):
            continue
        if context.effect_of(call.tool) is not Effect.READ:
            break
        if call.tool != context.call.tool or call_key(call) != key:
            continue
        if call.status is not CallStatus.OK or call.observation.truncated:
            return None
        if answer is not None and answer != call.observation.text:
            return None
        answer = call.observation.text
    return answer


def check_loop(context: Context) -> Finding | None:
    """The same calls in the same order, with the same results, since the user's last word and the last write."""
    limit = context.settings.max_loops
    if limit is None:
        return None
    proposed = call_key(context.call)
    recent = list(islice(_since_news(context), limit * _MAX_PERIOD))  # newest first
    for period in range(1, min(_MAX_PERIOD, len(recent) // limit) + 1):
        pattern = recent[:period]
        if pattern[-1][0] != proposed or recent[: limit * period] != pattern * limit:
            continue
        tools = " and ".join(dict.fromkeys(key.partition("|")[0] for key, _ in reversed(pattern)))
        return Finding(
            check="loop",
            verdict=Verdict.BLOCK,
            reason=f"{tools} went round {limit} times with the same results: go on with something else",
        )
    return None


def _since_news(context: Context) -> Iterable[tuple[str, str]]:
    """``(call, result)`` of the agent's answered calls, newest first, back to the last write or word of the user."""
    since = last_user_turn(context)
    for turn, call in reversed(context.live.history.calls):
        if turn <= since or call.by_user:
            return
        if call.observation is None:
            continue
        if call.status is CallStatus.OK and context.effect_of(call.tool) is Effect.WRITE:
            return
        yield call_key(call), REFUSAL if is_refusal(call) else call.observation.text


def check_budget(context: Context) -> Finding | None:
    """Writes, steps or repeats of the run are spent."""
    settings = context.settings
    if settings.max_writes is None and settings.max_steps is None and settings.max_repeats is None:
        return None
    calls = [c for c in context.live.history.agent_calls if c.observation is not None]
    writes = context.effect is Effect.WRITE
    if writes and settings.max_writes is not None and _writes(context, calls) >= settings.max_writes:
        return _spent(context, "writes", settings.max_writes)
    if settings.max_steps is not None and len(calls) >= settings.max_steps:
        return _spent(context, "steps", settings.max_steps)
    if settings.max_repeats is not None:
        keys = [call_key(call) for call in calls]
        if call_key(context.call) in keys and len(keys) - len(set(keys)) >= settings.max_repeats:
            return _spent(context, "repeats", settings.max_repeats)
    return None


def _writes(context: Context, calls: list[ToolCall]) -> int:
    return sum(c.status is CallStatus.OK and context.effect_of(c.tool) is Effect.WRITE for c in calls)


def _spent(context: Context, what: str, limit: int) -> Finding:
    return Finding(
        check=what,
        verdict=Verdict.TRANSFER if context.handover else Verdict.BLOCK,
        reason=f"the {what} of this run are spent ({limit} of {limit})",
    )
