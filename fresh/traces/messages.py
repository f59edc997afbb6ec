"""Chat messages to turns: the part every trace format and every live agent shares.

Understands, also mixed within one history: OpenAI chat completions (``tool_calls`` and role ``tool``, or the older
``function_call`` and role ``function``), Anthropic content blocks (``tool_use``, ``tool_result``), and the flat call
objects of agent benchmarks (``{name, arguments}``, ``{function, args}``).

A result is paired with its call *round by round*: it belongs to the latest message that made calls. Providers use the
same id again for another call, leave ids out, or send them empty, so an id means something within its round only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from typing import Any, NamedTuple

from fresh.traces.clean import UNWRITABLE, Note, dumps, ignore, loads, scrub, scrub_value
from fresh.traces.structure import looks_like_error, looks_truncated
from graph_schema.trajectory import Observation, Role, ToolCall, Turn

_ROLES: dict[str, Role] = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "human": Role.USER,
    "assistant": Role.ASSISTANT,
    "ai": Role.ASSISTANT,
    "model": Role.ASSISTANT,
}
_END_OF_TIME = 1e15
"""Seconds or milliseconds beyond which a number is no time."""
_RESULT_ROLES = frozenset({"tool", "function"})
_HIDDEN_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning"})


class Arguments(NamedTuple):
    """The arguments of a call, as recorded and as understood."""

    value: dict[str, Any] | None
    raw: str
    error: str | None


class _Call:
    """A call still waiting for its result."""

    __slots__ = ("arguments", "by_user", "observation", "recorded_id", "result_time", "tool")

    def __init__(self, tool: str, arguments: Arguments, recorded_id: str | None, by_user: bool) -> None:
        self.tool = tool
        self.arguments = arguments
        self.recorded_id = recorded_id
        self.by_user = by_user
        self.observation: Observation | None = None
        self.result_time: float | None = None


class _Turn:
    """A turn under construction."""

    __slots__ = ("built", "calls", "role", "text", "time", "tokens")

    def __init__(self, role: Role, text: str, calls: list[_Call], time: float | None, tokens: int | None) -> None:
        self.role = role
        self.text = text
        self.calls = calls
        self.time = time
        self.tokens = tokens
        self.built: tuple[str, Turn] | None = None

    @property
    def settled(self) -> bool:
        """Whether no result can be added any more."""
        return self.built is not None or all(call.observation is not None for call in self.calls)

    def copy(self) -> _Turn:
        """The turn with its calls, to which results may still be added."""
        return _Turn(self.role, self.text, [copy(call) for call in self.calls], self.time, self.tokens)

    def build(self, name: str) -> Turn:
        """The record, its call ids prefixed by a name; built once for a turn that is settled."""
        if self.built is not None and self.built[0] == name:
            return self.built[1]
        turn = Turn.model_construct(
            role=self.role,
            text=self.text,
            calls=tuple(
                _finish_call(call, f"{name}/{position}", self.time, self.tokens)
                for position, call in enumerate(self.calls)
            ),
            timestamp=self.time,
        )
        if self.settled:
            self.built = name, turn
        return turn


def parse_messages(messages: Sequence[Mapping[str, Any]], *, run_id: str = "live") -> tuple[Turn, ...]:
    """Reads a chat history, as an agent holds it, into turns.

    Args:
        messages: OpenAI-style messages; Anthropic content blocks are understood too.
        run_id: Prefix of the call ids.

    Returns:
        One turn per message that is not a tool result; results sit in their calls.
    """
    return Conversation(messages).turns(run_id)


def parse_messages_with_notes(
    messages: Sequence[Mapping[str, Any]], *, run_id: str = "live"
) -> tuple[tuple[Turn, ...], Counter[str]]:
    """As :func:`parse_messages`, with a count of each kind of repair that was needed."""
    conversation = Conversation(messages)
    return conversation.turns(run_id), conversation.notes


def parse_tool_call(call: Mapping[str, Any], *, call_id: str = "live") -> ToolCall:
    """Reads one live tool call.

    Args:
        call: ``{"function": {"name", "arguments"}}``, ``{"name", "arguments"}`` or an Anthropic ``tool_use`` block;
            arguments as JSON text or as an object.
        call_id: The id of the result.

    Returns:
        The call, unanswered. Arguments that are not a JSON object are kept as text and explained in ``parse_error``.
    """
    made = _read_call(call, by_user=False, note=ignore)
    return _finish_call(made, call_id, None, None)


def parse_arguments(recorded: Any, note: Note = ignore) -> Arguments:
    """Understands the arguments of a call without ever inventing any: what is not a JSON object stays text."""
    if isinstance(recorded, str):
        raw = scrub(recorded, note)
        try:
            value = loads(raw, note)
        except ValueError as error:
            note("arguments_not_json")
            return Arguments(None, raw, f"not JSON: {error}")
    elif isinstance(recorded, Mapping):
        cleaned, raw = _clean_object(recorded, note)
        if cleaned is None:
            note("arguments_not_json")
        return Arguments(cleaned, raw, raw.strip('"') if cleaned is None else None)
    else:
        value, raw = recorded, dumps(recorded)
    if not isinstance(value, dict):
        note("arguments_not_object")
        return Arguments(None, raw, f"{_kind(value)}, not an object")
    return Arguments(value, raw, None)


def content_text(content: Any) -> str:
    """The text of a message's ``content``: a string, null, a list of parts, or any JSON value."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return _part_text(content)
    if isinstance(content, Sequence):
        parts = [part if isinstance(part, str) else _part_text(part) for part in content]
        return "\n".join(part for part in parts if part)
    return dumps(content)


class Conversation:
    """A history read once; :meth:`turns` builds the records.

    Attributes:
        notes: How often each kind of repair was needed.
    """

    def __init__(self, messages: Iterable[Mapping[str, Any]]) -> None:
        self.notes: Counter[str] = Counter()
        self._turns: list[_Turn] = []
        self._rounds: list[_Turn] = []
        self._seen_ids: set[str] = set()
        self._read(messages)

    def _read(self, messages: Iterable[Mapping[str, Any]]) -> None:
        for message in messages:
            if isinstance(message, Mapping):
                self._add(message)
            else:
                self._note("message_not_object")
        if not all(turn.settled for turn in self._rounds):
            self._note("call_without_result")

    def continued(self, messages: Iterable[Mapping[str, Any]]) -> Conversation:
        """The conversation with more messages; this one stays as it is, and what is settled is shared."""
        other = Conversation(())
        other.notes = Counter(self.notes)
        del other.notes["call_without_result"]
        copies = {id(turn): turn.copy() for turn in self._rounds if not turn.settled}
        other._turns = [copies.get(id(turn), turn) for turn in self._turns]
        other._rounds = [copies.get(id(turn), turn) for turn in self._rounds]
        other._seen_ids = set(self._seen_ids)
        other._read(messages)
        return other

    def fingerprint(self) -> list[Any]:
        """What was said and done, as plain values: the part of a run that its content hash covers."""
        return [
            [
                turn.role.value,
                turn.text,
                [
                    [call.tool, call.arguments.raw, call.by_user, call.observation and call.observation.text]
                    for call in turn.calls
                ],
            ]
            for turn in self._turns
        ]

    def first_text(self, role: Role) -> str:
        """What the first turn of a role with any text says; empty without one."""
        return next((turn.text for turn in self._turns if turn.role is role and turn.text), "")

    def turns(self, run_id: str) -> tuple[Turn, ...]:
        """Builds the turns, their call ids prefixed by ``run_id``."""
        return tuple(turn.build(f"{run_id}/{index}") for index, turn in enumerate(self._turns))

    def _note(self, kind: str) -> None:
        self.notes[kind] += 1

    def _add(self, message: Mapping[str, Any]) -> None:
        name = str(message.get("role", message.get("type", "")))
        if name in _RESULT_ROLES:
            self._add_result(message, content_text(message.get("content")))
            return
        role = _ROLES.get(name, Role.OTHER)
        content = message.get("content")
        made: list[Any] = list(_recorded_calls(message))
        if isinstance(content, list):
            made += [part for part in content if _part_type(part) == "tool_use"]
            results = [part for part in content if _part_type(part) == "tool_result"]
            for block in results:
                self._add_result(block, content_text(block.get("content")))
            if results and len(results) == len(content):
                return
        calls = [_read_call(call, role is Role.USER, self._note) for call in made]
        for call in calls:
            self._check_id(call.recorded_id)
        text = scrub(content_text(content), self._note)
        turn = _Turn(role, text, calls, parse_time(message.get("timestamp")), _tokens(message.get("usage")))
        self._turns.append(turn)
        if calls:
            self._rounds.append(turn)

    def _check_id(self, recorded_id: str | None) -> None:
        if not recorded_id:
            self._note("missing_call_id")
        elif recorded_id in self._seen_ids:
            self._note("reused_call_id")
        else:
            self._seen_ids.add(recorded_id)

    def _add_result(self, message: Mapping[str, Any], text: str) -> None:
        error = message.get("error", message.get("is_error"))
        if isinstance(error, str) and error:
            text = f"{text}\n{error}" if text.strip() and error not in text else (text if text.strip() else error)
        elif isinstance(error, Mapping):
            text = text if text.strip() else content_text(error.get("message", dumps(error)))
        text = scrub(text, self._note)
        is_error = bool(error)
        if not is_error and looks_like_error(text):
            self._note("error_only_in_text")
            is_error = True
        call = self._call_answered_by(message)
        if call is None:
            self._note("result_without_call")
            self._turns.append(_Turn(Role.OTHER, text, [], parse_time(message.get("timestamp")), None))
            return
        call.observation = Observation.model_construct(text=text, is_error=is_error, truncated=looks_truncated(text))
        call.result_time = parse_time(message.get("timestamp"))

    def _call_answered_by(self, message: Mapping[str, Any]) -> _Call | None:
        if not self._rounds:
            return None
        recorded_id = _text_or_none(message.get("tool_call_id") or message.get("tool_use_id") or message.get("id"))
        latest = self._rounds[-1].calls
        waiting = [call for call in latest if call.observation is None]
        if recorded_id:
            for call in waiting:
                if call.recorded_id == recorded_id:
                    return call
            # Parallel calls written as several messages before the first result.
            for turn in reversed(self._rounds[:-1]):
                for call in turn.calls:
                    if call.observation is None and call.recorded_id == recorded_id:
                        return call
            if any(call.recorded_id == recorded_id for call in latest):
                return None  # a second result for a call that has one
        name = _result_name(message)
        if name:
            waiting = [call for call in waiting if call.tool == name]
        if waiting and recorded_id:
            self._note("paired_without_id")
        return waiting[0] if waiting else None


def parse_time(value: Any) -> float | None:
    """Seconds since the epoch of a number or ISO text; a time without a zone is read as UTC on every machine."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < _END_OF_TIME else None  # NaN is not below it either
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _recorded_calls(message: Mapping[str, Any]) -> list[Any]:
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        return calls
    if isinstance(calls, Mapping):
        return [calls]
    legacy = message.get("function_call")
    return [legacy] if isinstance(legacy, Mapping) else []


def _read_call(call: Any, by_user: bool, note: Note) -> _Call:
    if not isinstance(call, Mapping):
        note("call_not_object")
        return _Call("", Arguments(None, dumps(call), "the call is not an object"), None, by_user)
    function = call.get("function")
    if isinstance(function, Mapping):
        name, recorded = function.get("name"), _first(function, ("arguments", "parameters", "args"))
    else:
        name = function if isinstance(function, str) else call.get("name")
        recorded = _first(call, ("arguments", "args", "input", "kwargs"))
    requestor = call.get("requestor")
    return _Call(
        tool=scrub(str(name or ""), note),
        arguments=parse_arguments(recorded, note),
        recorded_id=_text_or_none(call.get("id") or call.get("tool_call_id")),
        by_user=by_user if requestor is None else requestor == "user",
    )


def _finish_call(call: _Call, call_id: str, started: float | None, tokens: int | None) -> ToolCall:
    seconds = None
    if started is not None and call.result_time is not None and call.result_time >= started:
        seconds = round(call.result_time - started, 6)
    return ToolCall.model_construct(
        id=call_id,
        tool=call.tool,
        arguments=call.arguments.value,
        raw_arguments=call.arguments.raw,
        parse_error=call.arguments.error,
        by_user=call.by_user,
        recorded_id=call.recorded_id,
        observation=call.observation,
        seconds=seconds,
        tokens=tokens,
    )


def _clean_object(recorded: Mapping[str, Any], note: Note) -> tuple[dict[str, Any] | None, str]:
    """An arguments object, None where it cannot be written, and its text.

    Cleaning is tried only where writing the text fails: it rarely does.
    """
    raw = dumps(recorded if isinstance(recorded, dict) else dict(recorded))
    if raw is UNWRITABLE:
        return None, raw
    if raw.isascii() or "\ufffd" not in raw:
        return dict(recorded), raw
    return scrub_value(dict(recorded), note), raw


def _result_name(message: Mapping[str, Any]) -> str | None:
    call = message.get("tool_call")
    if isinstance(call, Mapping):
        function = call.get("function", call.get("name"))
        return _text_or_none(function.get("name") if isinstance(function, Mapping) else function)
    return _text_or_none(message.get("name"))


def _part_type(part: Any) -> str | None:
    return part.get("type") if isinstance(part, Mapping) else None


def _part_text(part: Any) -> str:
    if not isinstance(part, Mapping):
        return dumps(part)
    kind = part.get("type")
    if kind in ("tool_use", "tool_result") or kind in _HIDDEN_PARTS:
        return ""
    for key in ("text", "content", "refusal"):
        if isinstance(part.get(key), str):
            return str(part[key])
    return f"[{kind}]" if isinstance(kind, str) and kind != "text" else ("" if kind == "text" else dumps(part))


def _tokens(usage: Any) -> int | None:
    if not isinstance(usage, Mapping):
        return None
    total = usage.get("total_tokens")
    if isinstance(total, int):
        return total
    parts = [usage.get(key) for key in ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")]
    numbers = [part for part in parts if isinstance(part, int)]
    return sum(numbers) if numbers else None


def _first(mapping: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((mapping[key] for key in keys if key in mapping), None)


def _text_or_none(value: Any) -> str | None:
    return None if value is None or value == "" else scrub(str(value))


def _kind(value: Any) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "a list" if isinstance(value, list | tuple) else type(value).__name__)
