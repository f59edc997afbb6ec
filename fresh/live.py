"""A run in progress, as the gate and the guidance see it: messages become a history, tool lists become specs.

Both are asked again and again about nearly the same messages, so what was parsed is kept by content.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import orjson

from fresh.history import History
from fresh.observations import text_leaves
from fresh.traces.messages import Conversation, parse_messages, parse_tool_call
from fresh.values import identifiers_in, normalise
from graph_schema.errors import ConfigError
from graph_schema.trajectory import ToolCall, ToolSpec

_Value = TypeVar("_Value")
_LOOKED_AT = 8
"""Histories that are compared with a new one; a running agent goes on from one of the last."""
_MAX_BYTES = 1 << 25
"""Of the messages of all histories that are kept."""


class Live:
    """What the gate and the guidance ask of a history, each answer worked out once.

    Args:
        history: The view from the moment of the decision.
    """

    def __init__(self, history: History) -> None:
        self.history = history

    @cached_property
    def places(self) -> dict[tuple[str, str], list[Any]]:
        """Distinct scalars at each ``(tool, path)`` of successful observations, newest observation first."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for _, call in reversed(self.history.calls):
            if call.observation is None or call.observation.is_error:
                continue
            for path, values in _values_by_path(call.observation.text).items():
                store = found.setdefault((call.tool, path), {})
                for key, value in values:
                    store.setdefault(key, value)
        return {place: list(values.values()) for place, values in found.items()}

    @cached_property
    def fields(self) -> dict[str, list[Any]]:
        """Distinct observed scalars by the last name on their path, newest first."""
        found: dict[str, dict[str, Any]] = {}
        for (_, path), values in self.places.items():
            store = found.setdefault(last_name(path), {})
            for value in values:
                store.setdefault(str(normalise(value)), value)
        return {name: list(values.values()) for name, values in found.items()}

    @cached_property
    def passed(self) -> dict[str, list[Any]]:
        """Distinct values that successful calls were given, by the parameter's name, newest first."""
        found: dict[str, dict[str, Any]] = {}
        for call in reversed(self.history.agent_calls):
            if call.observation is None or call.observation.is_error:
                continue
            for name, value in (call.arguments or {}).items():
                key = normalise(value)
                if key is not None:
                    found.setdefault(name, {}).setdefault(key, value)
        return {name: list(values.values()) for name, values in found.items()}

    @cached_property
    def told(self) -> list[tuple[str, str, str]]:
        """Identifiers in the user's words, newest turn first: ``(identifier, words before, words after)``."""
        found: dict[str, tuple[str, str, str]] = {}
        for text in reversed(self.history.user_texts()):
            for match in identifiers_in(text):
                token = match.group()
                around = (
                    text[max(0, match.start() - 40) : match.start()],
                    text[match.end() : match.end() + 25],
                )
                found.setdefault(token.lower(), (token, around[0].lower(), around[1].lower()))
        return list(found.values())


@lru_cache(maxsize=512)
def _values_by_path(text: str) -> dict[str, tuple[tuple[str, Any], ...]]:
    """``(comparable form, value)`` of the scalars at each path of an observation; kept for the next step."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for path, value in text_leaves(text):
        key = normalise(value)
        if key is not None:
            found.setdefault(path, []).append((key, value))
    return {path: tuple(values) for path, values in found.items()}


def last_name(path: str) -> str:
    """``items[].item_id`` as ``item_id``."""
    return path.replace("[]", "").replace("{}", "").rsplit(".", 1)[-1]


def plain(value: Any) -> Any:
    """A message or call as plain data: SDK objects are dumped, also those inside a message; the rest stays as it is."""
    if type(value) is dict:  # nearly every message
        calls = value.get("tool_calls")
        if type(calls) is not list or all(type(call) is dict for call in calls):
            return value
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", exclude_none=True)
    if isinstance(value, Mapping) and isinstance(value.get("tool_calls"), list):
        return {**value, "tool_calls": [plain(call) for call in value["tool_calls"]]}
    return value


class _Parsed(NamedTuple):
    """A history that was read, to go on from.

    Attributes:
        content: Its messages as one JSON list.
        size: How many they are.
    """

    content: bytes
    size: int
    conversation: Conversation
    live: Live

    @classmethod
    def of(cls, content: bytes, listed: list[Any], base: _Parsed | None) -> _Parsed:
        """Reads messages, the new ones only if those of the base come first."""
        if base is None:
            conversation, before = Conversation(listed), None
        else:
            conversation, before = base.conversation.continued(listed[base.size :]), base.live.history
        live = Live(History.live(conversation.turns("live"), before))
        return cls(content, len(listed), conversation, live)

    def begins(self, content: bytes) -> bool:
        """Whether a longer list of messages begins with these."""
        end = len(self.content) - 1
        return self.size > 0 and content[end : end + 1] == b"," and content.startswith(self.content[:-1])


class LiveParser:
    """Parses live messages and tool lists, and remembers the last few.

    Args:
        size: How many histories and tool lists are kept.
    """

    def __init__(self, size: int = 64) -> None:
        self._size = size
        self._lock = Lock()
        self._histories: OrderedDict[bytes, _Parsed] = OrderedDict()
        self._bytes = 0
        self._tools: OrderedDict[bytes, dict[str, ToolSpec]] = OrderedDict()

    def history(self, messages: Sequence[Any] | None) -> Live:
        """The view from the end of the messages.

        Raises:
            ConfigError: ``messages`` is not a sequence of messages.
        """
        if isinstance(messages, str | bytes | Mapping) or not isinstance(messages or [], Sequence):
            raise ConfigError("messages must be a list of chat messages, such as [{'role': 'user', 'content': '...'}]")
        listed = [plain(message) for message in messages or ()]
        try:
            content = orjson.dumps(listed, option=orjson.OPT_NON_STR_KEYS)
        except (TypeError, ValueError):  # surrogates, foreign objects: parsed each time
            return Live(History.live(parse_messages(listed)))
        with self._lock:
            parsed = self._histories.get(content)
            if parsed is None:
                parsed = self._histories[content] = _Parsed.of(content, listed, self._longest_start(content))
                self._bytes += len(content)
                while len(self._histories) > 1 and (len(self._histories) > self._size or self._bytes > _MAX_BYTES):
                    self._bytes -= len(self._histories.popitem(last=False)[0])
            self._histories.move_to_end(content)
        return parsed.live

    def _longest_start(self, content: bytes) -> _Parsed | None:
        """The longest of the newest histories that these messages go on from."""
        newest = islice(reversed(self._histories.values()), _LOOKED_AT)
        return next((h for h in sorted(newest, key=lambda h: -h.size) if h.begins(content)), None)

    def tools(self, tools: Sequence[Any] | None) -> dict[str, ToolSpec] | None:
        """The caller's tools by name; None when the caller gave no list.

        Raises:
            ConfigError: ``tools`` is not a list of tool descriptions.
        """
        if tools is None:
            return None
        if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Sequence):
            raise ConfigError("tools must be a list of tool descriptions, as OpenAI, MCP or Anthropic write them")
        from fresh.traces.tools import parse_tools

        listed = [plain(tool) for tool in tools]
        return self._kept(self._tools, listed, lambda: {spec.name: spec for spec in parse_tools(listed)})

    def _kept(self, store: OrderedDict[bytes, _Value], content: Any, make: Callable[[], _Value]) -> _Value:
        try:
            key = hashlib.blake2b(orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS), digest_size=16).digest()
        except (TypeError, ValueError):  # surrogates, foreign objects: parsed each time
            return make()
        with self._lock:
            if key in store:
                store.move_to_end(key)
                return store[key]
        value = make()
        with self._lock:
            store[key] = value
            while len(store) > self._size:
                store.popitem(last=False)
        return value


def live_call(call: Any, arguments: Any = None) -> ToolCall:
    """A live tool call from whatever the caller holds.

    Args:
        call: An OpenAI or Anthropic call object or dictionary, a ``(name, arguments)`` pair, a `ToolCall`, or the
            tool's name with ``arguments`` beside it.
        arguments: An object or JSON text, with a bare name only.

    Raises:
        ConfigError: No tool name can be found in it.
    """
    if isinstance(call, ToolCall):
        return call
    if isinstance(call, str):
        data: Any = {"name": call, "arguments": {} if arguments is None else arguments}
    elif isinstance(call, tuple | list) and len(call) == 2:
        data = {"name": call[0], "arguments": call[1]}
    else:
        data = plain(call)
    if not isinstance(data, Mapping):
        raise ConfigError(f"a tool call must be an object with a name and arguments, not {type(call).__name__}")
    parsed = parse_tool_call(data)
    if not parsed.tool:
        raise ConfigError("the tool call has no name: pass {'name': ..., 'arguments': ...} or an OpenAI tool call")
    return parsed
