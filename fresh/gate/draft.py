"""Rules drafted from a policy document by a language model, for a person to review.

The gate itself never asks a model. What is drafted here is marked ``reviewed: false`` whatever the model says, and
counts for nothing until a person has changed that.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from fresh.conditions import Condition
from fresh.gate.policy import PolicyRule, first_problem
from graph_schema.errors import ConfigError, EvaluatorError
from graph_schema.trajectory import ToolSpec

if TYPE_CHECKING:
    from fresh.expg.endpoint import EndpointSettings

_PART = 12_000
"""Characters of the document that one question shows."""
_HEADER = """\
# Drafted by {model}. A rule counts for nothing until a person has read it and set reviewed: true.
# Compare each text and condition with its quote; where there is none, the model's own was not in the document.
"""


class _Reply(BaseModel):
    model_config = ConfigDict(title="rules")

    rules: list[dict[str, Any]]


class Draft(BaseModel):
    """What a model made of a document.

    Attributes:
        rules: Rules that can be read, none of them reviewed.
        dropped: One line for each that cannot be used, and for each part of the document without a usable answer.
        unquoted: One line for each rule whose quote does not stand in the document.
    """

    rules: tuple[PolicyRule, ...] = ()
    dropped: tuple[str, ...] = ()
    unquoted: tuple[str, ...] = ()


def draft_policy(document: str, settings: EndpointSettings, tools: Sequence[ToolSpec] = ()) -> Draft:
    """Asks a model for the rules in a document, part by part.

    Args:
        document: Text of the policy.
        settings: The model's endpoint.
        tools: The agent's tools; a rule on any other is dropped. Without them nothing is known of names.

    Raises:
        ConfigError: The document is empty.
        EvaluatorError: No part of the document got a usable answer.
        MissingExtraError: The openai package is not installed.
    """
    from fresh.expg.endpoint import run

    if not document.strip():
        raise ConfigError("the policy document is empty: there is nothing to draft rules from")
    return run(_draft(document, settings, tools))


async def _draft(document: str, settings: EndpointSettings, tools: Sequence[ToolSpec]) -> Draft:
    from fresh.expg.endpoint import ChatEndpoint
    from fresh.expg.prompts import fill

    endpoint = ChatEndpoint(settings)
    listed = "\n".join(map(_tool_line, tools)) or "(not known: use the names in the document)"
    parts = split_document(document)
    kept: dict[tuple[str, str], PolicyRule] = {}
    dropped, unquoted, failures = [], [], []
    async with endpoint.client() as client:
        for number, part in enumerate(parts, 1):
            place = f"part {number} of {len(parts)}"
            prompt = fill(
                "policy_draft",
                tools=listed,
                conditions=condition_language(),
                document=part,
                part=str(number),
                parts=str(len(parts)),
            )
            try:
                reply = await endpoint.ask(client, prompt, _Reply)
            except EvaluatorError as error:
                failures.append(error)
                dropped.append(f"{place}: {error}")
                continue
            for position, raw in enumerate(reply.rules, 1):
                try:
                    rule = _read(raw, tools)
                except ValueError as error:
                    dropped.append(f"{place}, rule {position} ({raw.get('tool', 'no tool')}): {error}")
                    continue
                if rule.quote and not _stands_in(rule.quote, document):
                    unquoted.append(f"{rule.tool}: {rule.text}")
                    rule = rule.model_copy(update={"quote": ""})
                kept.setdefault((rule.tool, rule.condition.model_dump_json()), rule)
    if len(failures) == len(parts):
        raise failures[0]
    return Draft(rules=tuple(kept.values()), dropped=tuple(dropped), unquoted=tuple(unquoted))


def save_draft(draft: Draft, path: Path, model: str) -> None:
    """Writes a draft as a policy file.

    Raises:
        ConfigError: The file is there already, which may hold a person's review, or cannot be written.
    """
    import yaml

    rules = [rule.plain() | {"reviewed": False} for rule in draft.rules]
    text = yaml.safe_dump({"rules": rules}, sort_keys=False, allow_unicode=True, width=100)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(_HEADER.format(model=" ".join(model.split())) + text)
    except FileExistsError:
        raise ConfigError(f"{path} is there already and may have been reviewed: name another file") from None
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None


def split_document(text: str, size: int = _PART) -> list[str]:
    """A document in parts of at most so many characters, cut between paragraphs where that can be."""
    parts: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        for start in range(0, len(paragraph), size):
            piece = paragraph[start : start + size]
            if parts and len(parts[-1]) + len(piece) + 2 <= size:
                parts[-1] += f"\n\n{piece}"
            else:
                parts.append(piece)
    return parts


def condition_language() -> str:
    """Every kind of condition with its fields and its meaning, for a model to read."""
    return "\n".join(map(_condition_line, get_args(get_args(Condition)[0])))


def _condition_line(kind: type[BaseModel]) -> str:
    schema = kind.model_json_schema()
    meaning = " ".join(inspect.cleandoc(kind.__doc__ or "").split())
    return f"- {_object(schema, schema.get('$defs', {}))}: {meaning}"


def _object(schema: dict[str, Any], parts: dict[str, Any]) -> str:
    """An object's fields with their types, as a model may write it."""
    required = set(schema.get("required", ()))
    fields = [
        f'"{name}": "{spec["const"]}"'
        if "const" in spec
        else f'"{name}": {_type(spec, parts)}{"" if name in required else " (may be left out)"}'
        for name, spec in schema["properties"].items()
    ]
    return "{" + ", ".join(fields) + "}"


def _type(spec: dict[str, Any], parts: dict[str, Any]) -> str:
    if "enum" in spec:
        return "one of " + ", ".join(map(str, spec["enum"]))
    if "$ref" in spec:
        return _object(parts[spec["$ref"].rsplit("/", 1)[1]], parts)
    options = spec.get("anyOf") or spec.get("oneOf")
    if options:
        return " or ".join(dict.fromkeys(_type(option, parts) for option in options))
    inner = spec.get("items")
    return f"list of {_type(inner, parts)}" if isinstance(inner, dict) else str(spec.get("type", "value"))


def _tool_line(tool: ToolSpec) -> str:
    parameters = ", ".join((tool.parameters.get("properties") or {}) if tool.parameters else ())
    return f"- {tool.name}({parameters}): {' '.join(tool.description.split())[:300]}"


def _read(raw: dict[str, Any], tools: Iterable[ToolSpec]) -> PolicyRule:
    """A drafted rule.

    Raises:
        ValueError: It cannot be used; the message says why, on one line.
    """
    try:
        rule = PolicyRule.model_validate(raw | {"reviewed": False})
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None
    names = [tool.name for tool in tools]
    if names and not any(fnmatchcase(name, rule.tool) for name in names):
        raise ValueError("there is no such tool")
    needed = getattr(rule.condition, "tool", None)
    if names and isinstance(needed, str) and needed not in names:
        raise ValueError(f"its condition names {needed}, and there is no such tool")
    return rule


def _stands_in(quote: str, document: str) -> bool:
    return " ".join(quote.lower().split()) in " ".join(document.lower().split())
