"""What the next step may use after the gate has held calls back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fresh.gate import Decision


def narrowed(tools: Sequence[Mapping[str, Any]], held: Sequence[Decision]) -> list[dict[str, Any]]:
    """The tools that the refusals leave, an argument that is to be corrected narrowed to its candidates.

    Args:
        tools: All tools, as OpenAI function schemas.
        held: Decisions on the calls of one message that were held back; with several, what any of them leaves stays.
    """
    names = {name for decision in held for name in decision.allowed_tools or ()}
    free = any(decision.allowed_tools is None for decision in held)
    kept = [dict(tool) for tool in tools if free or tool["function"]["name"] in names]
    for decision in held:
        for item in decision.todo:
            if item.kind == "correct_argument" and item.candidates:
                kept = [_limited(tool, item, decision.call.arguments or {}) for tool in kept]
    return kept


def _limited(tool: dict[str, Any], item: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the tool whose argument can only be one of the candidates; others stay as they are."""
    function = tool["function"]
    name = re.split(r"[.\[{]", item.argument)[0]
    properties = (function.get("parameters") or {}).get("properties") or {}
    if function["name"] != item.tool or name not in properties:
        return tool
    now, candidates = arguments.get(name), list(item.candidates)
    if isinstance(now, list):
        right = [value for value in now if value != item.value and not isinstance(value, list | dict)]
        limited = {**properties[name], "items": {"enum": list(dict.fromkeys([*right, *candidates]))}}
    elif any(isinstance(value, list | dict) for value in candidates):
        return tool
    else:
        limited = {**properties[name], "enum": candidates}
    parameters = {**function["parameters"], "properties": {**properties, name: limited}}
    return {**tool, "function": {**function, "parameters": parameters}}
