"""Tool descriptions, and which tools write.

Who says so, in this order: a correction file, the caller's tool file, the trace, and last the verb of the tool's name.
A name whose verb nobody knows counts as a write: that is the side on which a gate should err.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fresh.traces.clean import loads, scrub
from graph_schema.errors import ConfigError
from graph_schema.trajectory import Effect, ToolSpec

_EFFECT_WORDS = {
    "read": Effect.READ,
    "write": Effect.WRITE,
    "other": Effect.OTHER,
    "terminate": Effect.OTHER,
    "none": Effect.OTHER,
}


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


READ_VERBS = _word_set(
    """
    get list search find read check look lookup show view fetch query retrieve inspect count
    describe detect browse filter compare consult is has can are does did verify validate preview
    monitor watch scan see examine load peek select head tail cat ls grep ping lint track
    locate identify know display wc du pwd diff stat estimate suggest recommend available
    availability status
    """
)
WRITE_VERBS = _word_set(
    """
    create update delete cancel send add remove set modify change edit write insert post put patch
    book reserve schedule reschedule pay buy purchase order exchange return refund transfer move
    copy rename upload share invite approve reject accept decline submit publish enable disable
    toggle turn start stop restart reboot reset activate deactivate suspend resume grant revoke
    assign unassign register unregister enroll subscribe unsubscribe open close lock unlock apply
    execute run deploy install uninstall commit push merge archive restore replace append save store
    mark flag withdraw deposit charge issue make place confirm sign login logout connect disconnect
    attach detach upgrade downgrade refuel fill block unblock follow unfollow retweet tweet comment
    reply forward notify authenticate adjust clear drop mkdir touch rm mv cp sort release allocate
    complete finish resolve join leave kill
    """
)
OTHER_VERBS = _word_set(
    """
    calculate compute think plan reason summarize summarise translate convert format respond
    escalate handoff handover wait sleep done answer echo multiply divide subtract round sum mean
    max min average
    """
)
_PEOPLE = _word_set(
    """
    human humans agent agents person people operator representative support supervisor staff specialist specialists
    """
)
_HANDING = _word_set(
    """
    transfer transfers transferring escalate escalates handoff handover hand hands route routes connect connects
    forward forwards redirect redirects refer refers pass passes
    """
)
_HANDOVERS = _word_set("escalate handover handoff")
"""Words that say by themselves to whom."""
_ENDINGS = _word_set("finish done end exit answer respond")
"""Names that, alone, end a run rather than act on anything."""
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def parse_tools(tools: Iterable[Mapping[str, Any]]) -> tuple[ToolSpec, ...]:
    """Reads tool descriptions as an agent or a server lists them.

    Args:
        tools: OpenAI function schemas (``{"type": "function", "function": {...}}`` or flat), MCP tools
            (``inputSchema``), Anthropic tools (``input_schema``). The effect is taken from ``kind`` or ``effect``
            (``read``, ``write``, ``other``) or from the annotations ``readOnlyHint`` and ``destructiveHint``, which may
            stand beside or inside the function. Items without a name are passed over.
    """
    return tuple(spec for tool in tools if isinstance(tool, Mapping) and (spec := _parse_tool(tool)) is not None)


def load_tools_file(path: Path | str) -> tuple[ToolSpec, ...]:
    """Reads tool descriptions from a JSON file: a list, ``{"tools": [...]}``, or lists nested by suite; gzip is fine.

    Raises:
        ConfigError: The file is missing, is not JSON, or holds no tool.
    """
    specs: list[ToolSpec] = []
    for group in _tool_lists(_load_json(Path(path), "tools file")):
        specs.extend(parse_tools(group))
    if not specs:
        raise ConfigError(
            f"no tools in {path}: expected a list of OpenAI function schemas, or an object with it under 'tools'"
        )
    return tuple(specs)


def load_effects(path: Path | str) -> dict[str, Effect]:
    """Reads a correction file, ``{"tool name": "read" | "write" | "other"}``.

    Raises:
        ConfigError: The file is missing, is not such an object, or names another effect.
    """
    value = _load_json(Path(path), "effects file")
    if not isinstance(value, dict):
        raise ConfigError(f'{path} is not an object: expected {{"tool name": "read" | "write" | "other"}}')
    effects: dict[str, Effect] = {}
    for name, word in value.items():
        effect = _EFFECT_WORDS.get(str(word).lower())
        if effect is None:
            raise ConfigError(f"{path}: {name} is {word!r}; write 'read', 'write' or 'other'")
        effects[name] = effect
    return effects


def save_effects(path: Path | str, effects: Mapping[str, Effect]) -> None:
    """Writes a correction file, sorted by name, for a person to edit; the old file stays until the new one is whole."""
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    text = json.dumps({name: effects[name].value for name in sorted(effects)}, indent=2, ensure_ascii=False)
    try:
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def resolve_effects(
    specs_from_caller: Iterable[ToolSpec],
    specs_from_trace: Iterable[ToolSpec],
    tool_names: Iterable[str],
    corrections: Mapping[str, Effect] | None = None,
) -> dict[str, tuple[Effect, str]]:
    """Decides for every tool whether it reads or writes.

    Args:
        specs_from_caller: What the user's tool file says.
        specs_from_trace: What the traces say.
        tool_names: Names seen in calls or elsewhere.
        corrections: A person's word, above all else.

    Returns:
        ``{name: (effect, source)}``, sorted by name, for every name in any argument; the source is ``correction``,
        ``caller``, ``trace`` or ``inferred``. Where one source disagrees with itself, writing wins.
    """
    caller, trace = list(specs_from_caller), list(specs_from_trace)
    sources = [
        ("correction", dict(corrections or {})),
        ("caller", _said(caller)),
        ("trace", _said(trace)),
    ]
    names = {spec.name for spec in (*caller, *trace)} | set(tool_names) | set(sources[0][1])
    return {name: _resolve(name, sources) for name in sorted(names)}


def infer_effect(name: str) -> Effect:
    """Guesses from a tool's name what it does.

    The first word decides when it is a known verb, unless an ``and`` brings a writing verb in after it; else any known
    verb in the name does, writing verbs first; a name without one is taken for a write.
    """
    words = _words(name)
    if not words:
        return Effect.WRITE
    if len(words) == 1 and words[0] in _ENDINGS:
        return Effect.OTHER
    if is_handover(name):
        return Effect.OTHER
    first = words[0]
    if first in READ_VERBS:
        after_and = words[words.index("and") + 1 :] if "and" in words else []
        return Effect.WRITE if WRITE_VERBS & set(after_and) else Effect.READ
    if first in OTHER_VERBS:
        return Effect.OTHER
    if first in WRITE_VERBS or WRITE_VERBS & set(words):
        return Effect.WRITE
    if READ_VERBS & set(words):
        return Effect.READ
    return Effect.OTHER if OTHER_VERBS & set(words) else Effect.WRITE


def verb_of(name: str) -> str:
    """The word of a tool's name that says what it does: the first known verb, writing ones first, else the first word.

    Empty for a name without a word.
    """
    words = _words(name)
    for verbs in (WRITE_VERBS, OTHER_VERBS, READ_VERBS):
        found = next((word for word in words if word in verbs), "")
        if found:
            return found
    return words[0] if words else ""


def is_handover(name: str, description: str = "") -> bool:
    """Whether a tool hands the case to a person, by the words of its name and its description."""
    words = set(_words(name))
    if words & _HANDOVERS:
        return True
    words.update(_words(description))
    return bool(words & _HANDING and words & _PEOPLE)


def _resolve(name: str, sources: Iterable[tuple[str, Mapping[str, Effect]]]) -> tuple[Effect, str]:
    for source, said in sources:
        if name in said:
            return said[name], source
    return infer_effect(name), "inferred"


def _said(specs: Iterable[ToolSpec]) -> dict[str, Effect]:
    said: dict[str, Effect] = {}
    for spec in specs:
        if spec.effect is not None and said.get(spec.name) is not Effect.WRITE:
            said[spec.name] = spec.effect
    return said


def _words(name: str) -> list[str]:
    """The words of a name in any case style, after a namespace such as ``mcp__server__`` or ``server.``."""
    bare = re.split(r"__|[./:]", name)[-1] or name
    return [word.lower() for word in _WORD.findall(bare)]


def _parse_tool(tool: Mapping[str, Any]) -> ToolSpec | None:
    inner = tool.get("function")
    function: Mapping[str, Any] = inner if isinstance(inner, Mapping) else tool
    name = function.get("name")
    if not isinstance(name, str) or not name:
        return None
    parameters = next((function[key] for key in ("parameters", "inputSchema", "input_schema") if key in function), None)
    return ToolSpec.model_construct(
        name=scrub(name),
        description=scrub(str(function.get("description") or "")),
        parameters=parameters if isinstance(parameters, dict) else {},
        effect=_stated_effect(tool) or _stated_effect(function),
    )


def _stated_effect(tool: Mapping[str, Any]) -> Effect | None:
    for key in ("effect", "kind"):
        word = tool.get(key)
        if isinstance(word, str) and word.lower() in _EFFECT_WORDS:
            return _EFFECT_WORDS[word.lower()]
    hints = tool.get("annotations")
    if not isinstance(hints, Mapping):
        return None
    if hints.get("readOnlyHint") is True:
        return Effect.READ
    # The protocol gives destructiveHint a meaning only for tools that are not read-only.
    if hints.get("readOnlyHint") is False or isinstance(hints.get("destructiveHint"), bool):
        return Effect.WRITE
    return None


def _tool_lists(value: Any) -> Iterable[list[Any]]:
    if isinstance(value, list):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            if isinstance(inner, list | dict):
                yield from _tool_lists(inner)


def _load_json(path: Path, what: str) -> Any:
    try:
        data = path.read_bytes()
        return loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except OSError as error:
        raise ConfigError(f"cannot read the {what} {path}: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        raise ConfigError(f"the {what} {path} is not JSON: {error}") from error
