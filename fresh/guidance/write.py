"""The words of guidance: templates filled with names of tools and arguments, and with values of the live history."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fresh.conditions import CalledBefore, Condition, Confirmed, FieldIs, Grounded, ReadBefore, Within
from fresh.fill import OWN_WORDS, Filled
from fresh.knowledge import KnownRepair
from fresh.values import is_reference

_MAX_VALUE = 60
_MAX_MESSAGE = 60
_MAX_CHOICES = 6
_LONGEST_WORD = 40
_PLACEHOLDER = re.compile(r"<([A-Z][A-Z_0-9]*)>")
"""Left out of messages: a small model would copy it into an argument."""


def call_line(
    tool: str,
    filled: Mapping[str, Filled],
    arguments: Mapping[str, Any],
    titled: Callable[[Any], str] = str,
) -> str:
    """A call with each argument's value, or where the value comes from.

    Args:
        tool: Its name.
        filled: What is known of each argument.
        arguments: Those with a value.
        titled: How a value to choose from is written, with what it stands for, say.
    """
    names = [*arguments, *(name for name in filled if name not in arguments)]
    parts = [argument_words(name, filled.get(name), arguments, titled) for name in names]
    return f"call {tool}" + (f" with {', '.join(parts)}" if parts else "")


def call_forms(
    tool: str, filled: Mapping[str, Filled], arguments: Mapping[str, Any], titled: Callable[[Any], str] = str
) -> list[str]:
    """A call in ever fewer words.

    With every value's place and what it stands for; without the places; without both; without values to choose from.
    """
    titles = (titled, str)
    return [
        call_line(tool, filled, arguments, titled),
        *(_brief_line(tool, filled, arguments, _all_choices(filled, arguments, title)) for title in titles),
        _brief_line(tool, filled, arguments, {}),
    ]


def _all_choices(
    filled: Mapping[str, Filled], arguments: Mapping[str, Any], titled: Callable[[Any], str]
) -> dict[str, str]:
    found = {name: _choices(name, item, titled) for name, item in filled.items() if name not in arguments}
    return {name: words for name, words in found.items() if words}


def _brief_line(
    tool: str, filled: Mapping[str, Filled], arguments: Mapping[str, Any], choices: Mapping[str, str]
) -> str:
    """A call with the values that are known or to choose from, and the names of the arguments that have none."""
    shown = [(name, value_words(name, arguments[name])) for name in arguments]
    given = [f"{_plain(name)}={value}" for name, value in shown if value is not None]
    given += [f"{_plain(name)} {words}" for name, words in choices.items()]
    other = [name for name, value in shown if value is None]
    other += [name for name in filled if name not in arguments and name not in choices]
    text = f"call {tool}" + (f" with {', '.join(given)}" if given else "")
    return text + (f"; still to be found: {', '.join(map(_plain, other))}" if other else "")


def _choices(name: str, filled: Filled, titled: Callable[[Any], str]) -> str:
    """The values to choose from, if they are few: ``one of 9001 (pot), 9002 (fern)``."""
    choices = [titled(shown) for value in filled.candidates if (shown := value_words(name, value))]
    if not 0 < len(choices) <= _MAX_CHOICES:
        return ""
    return f"{'one of ' if len(choices) > 1 else ''}{', '.join(choices)}"


def argument_words(
    name: str, filled: Filled | None, arguments: Mapping[str, Any], titled: Callable[[Any], str] = str
) -> str:
    """``order_id=#W12 (from the request)``, or ``reason from the request``."""
    plain = name.replace("[]", "")
    source = filled.source if filled else ""
    if name in arguments:
        shown = value_words(name, arguments[name])
        if shown is not None:
            return f"{plain}={shown}" + (f" (from {source})" if source else "")
    words = f"{plain} in {source}" if source == OWN_WORDS else f"{plain} from {source or 'the user (ask)'}"
    choices = _choices(name, filled, titled) if filled else ""
    return f"{words} ({choices})" if choices else words


def value_words(name: str, value: Any) -> str | None:
    """A value short and plain enough to be shown; None for prose, which may hold anybody's instructions."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple):
        shown = [value_words(name, item) for item in value]
        return None if None in shown or len(shown) > 8 else f"[{', '.join(str(item) for item in shown)}]"
    if not isinstance(value, str):
        return None
    text = " ".join(value.split())
    plain = is_reference(name, text) or len(text.split()) <= 3
    return text if plain and len(text) <= _MAX_VALUE else None


def check_line(tool: str, condition: Condition, now: str = "") -> str:
    """What must be so before a write, and what is missing."""
    match condition:
        case ReadBefore():
            what = f"call {condition.tool} for this {_plain(condition.argument)}"
        case CalledBefore():
            what = f"call {condition.tool}"
        case Confirmed():
            what = "tell the user exactly what you will do and get a yes"
        case Grounded():
            what = f"{_plain(condition.argument)} must come from the user or from a result"
        case Within():
            owner = f"the {condition.via} of {condition.anchor}" if condition.via else condition.anchor
            what = f"{_plain(condition.argument)} must belong to the object that {_plain(owner)} names"
        case FieldIs():
            what = f"{condition.path} of the object that {_plain(condition.argument)} names must be " + " or ".join(
                condition.values
            )
        case _:
            return condition.text(tool) + (f"; {now}" if now else "")
    return f"before {tool}: {what}" + (f"; {now}" if now else "")


def errors_line(tool: str, messages: Sequence[str]) -> str:
    """Known errors of a tool, as quoted data, each cut short."""
    said = dict.fromkeys(quoted(_PLACEHOLDER.sub(_in_words, message)) for message in messages)
    return f"{tool} can fail with " + " or ".join(f'"{message}"' for message in said)


def _in_words(found: re.Match[str]) -> str:
    """``of <ITEM_IDS>`` as ``of item ids``; ``order <ORDER_ID>`` as ``order``, which says it already."""
    words = found[1].lower().replace("_", " ")
    before = found.string[max(0, found.start() - _LONGEST_WORD) : found.start()].split()
    return "" if before and before[-1].lower() in words.split() else words


def quoted(message: str) -> str:
    """A message as data: one line, no quotes inside, cut short."""
    text = " ".join(message.replace('"', "'").split())
    return text if len(text) <= _MAX_MESSAGE else text[: _MAX_MESSAGE - 1] + "…"


def repair_words(tool: str, repair: KnownRepair, sources: str = "") -> str:
    """What has resolved an error, as an order."""
    names = ", ".join(_plain(name) for name in repair.arguments)
    match repair.kind:
        case "change_arguments":
            first = f"call {repair.tool}, then " if repair.tool else ""
            return f"{first}change {names or 'the arguments'}{sources} and call {tool} again"
        case "add_read":
            return f"call {repair.tool} first, then {tool} again"
        case "retry":
            return f"call {tool} once more"
        case "fallback_tool":
            return f"use {repair.tool} instead"
        case "handover":
            return f"hand over with {repair.tool}"
        case _:
            return f"do not call {tool} again unchanged"


def rewrite_words(tool: str, path: str, value: str) -> str:
    """A value as it should be written."""
    return f"write {_plain(path)} as {value} and call {tool} again"


def change_words(tool: str, names: Sequence[str], sources: str = "") -> str:
    """What an error's own words ask for."""
    return f"the error speaks of {', '.join(map(_plain, names))}: change that{sources} and call {tool} again"


def _plain(path: str) -> str:
    return path.replace("[]", "").replace("{}", "")
