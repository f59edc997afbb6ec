"""Reuse: guidance in an agent's own tool list (arXiv 2608.03403, "experience reuse").

Dynamic guidance stands at the end of a tool's description; stable guidance goes into its parameter schema as a
constraint. Tool lists of OpenAI chat completions (``function`` inside), of OpenAI Responses and of Anthropic
(``input_schema``) are understood; anything else is passed through as it is.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from fresh.expg.guidance import Constraint, ToolGuidance

_HEADING = "Experience with this tool"
_BLOCK = re.compile(rf"\n*{_HEADING} \(\d+ earlier calls\):.*\Z", re.DOTALL)
_MARK = "Constraint from experience"
_NOTE = re.compile(rf"\n*{_MARK} ?(?:\(\d+ earlier calls\))?:.*\Z", re.DOTALL)


def apply_guidance(tools: list[dict[str, Any]], guidance: Mapping[str, ToolGuidance]) -> list[dict[str, Any]]:
    """Puts guidance into a tool list.

    Applying it again replaces the texts that an earlier application wrote; apply it to the original list to be rid of
    its schema keywords too.

    Args:
        tools: The caller's tools; neither the list nor anything in it is changed.
        guidance: Guidance by tool name; tools without an entry come back as equal copies.

    Returns:
        A deep copy of the list, in the same order, with guidance in place.
    """
    copies = copy.deepcopy(tools)
    for tool in copies:
        body = _body(tool)
        found = guidance.get(body["name"]) if body is not None else None
        if body is None or found is None:
            continue
        _forget(body)
        if found.stable and found.constraint is not None:
            _constrain(body, found.constraint, found.experiences)
        else:
            body["description"] = f"{body.get('description') or ''}\n\n{describe(found)}".lstrip()
    return copies


def describe(guidance: ToolGuidance) -> str:
    """Dynamic guidance as the block of text that closes a description."""
    advice = guidance.advice
    lines = [f"{_HEADING} ({guidance.experiences} earlier calls):", f"- Does: {advice.core_function}"]
    lines.extend(f"- Worked: {pattern}" for pattern in advice.success_patterns)
    lines.extend(f"- Failed: {issue}" for issue in advice.common_issues)
    if advice.best_practices:
        lines.append(f"- Best: {advice.best_practices}")
    lines.append(f"- Numbers: {numbers(guidance)}")
    return "\n".join(lines)


def numbers(guidance: ToolGuidance) -> str:
    """``success 92%, mean score 0.97, 1.2 s a call, 310 tokens a call``, without what is unknown or next to nothing."""
    parts = [f"success {guidance.success_rate:.0%}", f"mean score {guidance.mean_score:.2f}"]
    if guidance.mean_seconds is not None and guidance.mean_seconds >= 0.01:
        parts.append(f"{guidance.mean_seconds:.2g} s a call")
    if guidance.mean_tokens is not None:
        parts.append(f"{guidance.mean_tokens:.0f} tokens a call")
    return ", ".join(parts)


def _body(tool: Any) -> dict[str, Any] | None:
    """The object that holds name and description."""
    if not isinstance(tool, dict):
        return None
    body = tool.get("function") if isinstance(tool.get("function"), dict) else tool
    return body if isinstance(body, dict) and isinstance(body.get("name"), str) else None


def _schema(body: dict[str, Any]) -> dict[str, Any]:
    """The parameter schema inside a body, made if it is absent."""
    key = "input_schema" if "input_schema" in body else "parameters"
    if not isinstance(body.get(key), dict):
        body[key] = {"type": "object", "properties": {}}
    schema: dict[str, Any] = body[key]
    return schema


def _forget(body: dict[str, Any]) -> None:
    """Removes what an earlier application wrote into the texts."""
    if isinstance(body.get("description"), str):
        body["description"] = _BLOCK.sub("", body["description"])
    for key in ("parameters", "input_schema"):
        schema = body.get(key)
        if not isinstance(schema, dict):
            continue
        properties = schema.get("properties")
        inner = properties.values() if isinstance(properties, dict) else ()
        for holder in (schema, *inner):
            if isinstance(holder, dict) and isinstance(holder.get("description"), str):
                _strip_note(holder)


def _strip_note(holder: dict[str, Any]) -> None:
    left = _NOTE.sub("", holder["description"])
    if left == holder["description"]:
        return
    if left:
        holder["description"] = left
    else:
        del holder["description"]


def _constrain(body: dict[str, Any], constraint: Constraint, experiences: int) -> None:
    schema = _schema(body)
    _note(schema, f"{_MARK} ({experiences} earlier calls): {constraint.text}")
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return
    for name, holder in properties.items():
        if not isinstance(holder, dict):
            continue
        if name in constraint.parameters:
            _note(holder, f"{_MARK}: {constraint.parameters[name]}")
        if name in constraint.patterns and holder.get("type") == "string":
            holder.setdefault("pattern", constraint.patterns[name])
    given = schema.get("required")
    missing = [name for name in constraint.required if name in properties and name not in (given or [])]
    if missing:
        schema["required"] = [*(given or []), *missing]


def _note(holder: dict[str, Any], text: str) -> None:
    described = holder.get("description")
    holder["description"] = f"{described}\n\n{text}" if isinstance(described, str) and described else text
