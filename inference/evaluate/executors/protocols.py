"""Two ways for a model to say what it does: native tool calls, and one JSON object held to a schema.

A protocol makes the request from the conversation and reads the answer. Both keep what the server has cached: the
system prompt stays the same through all runs, the conversation only grows, and notes for a single step stand at the end
of the latest message of that request alone, never in the system's role.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from inference.evaluate.executors.reply import ProposedCall, Reply, proposed_call

Message = dict[str, Any]
Offered = Sequence[Mapping[str, Any]]


class ActionProtocol(Protocol):
    """Makes requests and reads answers."""

    def system(self, policy: str, tools: Offered) -> str:
        """The system prompt, the same for every run of a domain."""

    def request(self, history: Sequence[Message], note: str, offered: Offered) -> dict[str, Any]:
        """Parameters of the request.

        Args:
            history: The conversation as an OpenAI client would hold it, its first message the system's.
            note: Shown at the end of the latest message, in this request alone.
            offered: Tools this step may use.
        """

    def read(self, message: Any, call_id: str, *, cut: bool) -> Reply:
        """What an answer says.

        Args:
            message: The message of the completion.
            call_id: Id for a call that came without one; further ones get a suffix.
            cut: The answer ended at the token limit.
        """


class NativeTools:
    """Tool calls as the chat-completions protocol has them."""

    def system(self, policy: str, tools: Offered) -> str:
        """The policy alone: the tools are a parameter of the request."""
        return policy

    def request(self, history: Sequence[Message], note: str, offered: Offered) -> dict[str, Any]:
        """The conversation, and the offered tools as function schemas."""
        messages = with_note([_sendable(message) for message in history], note)
        tools = [{"type": "function", "function": _function(tool)} for tool in offered]
        return {"messages": messages} | ({"tools": tools} if tools else {})

    def read(self, message: Any, call_id: str, *, cut: bool) -> Reply:
        """The tool calls, or the text where there are none."""
        text = _text(message)
        calls: list[ProposedCall] = []
        for position, call in enumerate(getattr(message, "tool_calls", None) or ()):
            function = getattr(call, "function", None)
            name = getattr(function, "name", None)
            if not isinstance(name, str) or not name:
                return Reply(text, problem="a tool call has no name")
            given = getattr(call, "id", None) or call_id
            taken = {other.id for other in calls}
            arguments = getattr(function, "arguments", None)
            calls.append(proposed_call(f"{given}_{position}" if given in taken else given, name, arguments))
        if calls or text:
            return Reply(text, tuple(calls))
        return Reply(problem="the answer is empty: call a tool or say something to the user")


_FORMAT = """
# How to answer
Answer with one JSON object and nothing else, either a tool call or a message to the user:
{"tool": "<name>", "arguments": {...}}
{"say": "<message to the user>"}
Results of tools come back to you. Take every value from what the user said or a result shows; never make one up."""


class JsonAction:
    """One JSON object an answer: ``{"tool": ..., "arguments": {...}}`` or ``{"say": ...}``, held to a schema."""

    def system(self, policy: str, tools: Offered) -> str:
        """Policy, tools in short, and the form of an answer."""
        listed = "\n".join(signature(_function(tool)) for tool in tools)
        return f"{policy.strip()}\n\n# Tools\n{listed}\n{_FORMAT}"

    def request(self, history: Sequence[Message], note: str, offered: Offered) -> dict[str, Any]:
        """The conversation in plain messages, and the schema of the next action."""
        messages = with_note([plain for message in history for plain in self._plain(message)], note)
        schema = {"name": "action", "schema": action_schema(offered)}
        return {"messages": messages, "response_format": {"type": "json_schema", "json_schema": schema}}

    def _plain(self, message: Message) -> list[Message]:
        if message["role"] == "tool":
            return [{"role": "user", "content": f"Result of {message['name']}: {_compact(message['content'])}"}]
        if message["role"] != "assistant":
            return [{"role": message["role"], "content": message["content"]}]
        calls = message.get("tool_calls") or ()
        if not calls:
            return [{"role": "assistant", "content": json.dumps({"say": message["content"]}, ensure_ascii=False)}]
        written = [f'{{"tool": "{c["function"]["name"]}", "arguments": {c["function"]["arguments"]}}}' for c in calls]
        return [{"role": "assistant", "content": "\n".join(written)}]

    def read(self, message: Any, call_id: str, *, cut: bool) -> Reply:
        """The first JSON object of the text."""
        text = _text(message)
        if not text:
            return Reply(problem="the answer is empty: answer with one JSON object")
        start = text.find("{")
        try:
            value, _ = json.JSONDecoder().raw_decode(text, max(start, 0))
        except (ValueError, RecursionError) as error:
            said = _cut_off_words(text) if cut else ""
            return Reply(said) if said else Reply(problem=f"the answer is no JSON object ({error})")
        if isinstance(value, dict) and isinstance(value.get("tool"), str) and value["tool"]:
            return Reply(calls=(proposed_call(call_id, value["tool"], value.get("arguments", {})),))
        if isinstance(value, dict) and isinstance(value.get("say"), str) and value["say"].strip():
            return Reply(value["say"].strip())
        return Reply(problem="the answer holds neither a tool nor something to say")


def _compact(result: str) -> str:
    """JSON without its blanks, a fifth fewer tokens; any other text as it is."""
    try:
        return json.dumps(json.loads(result), separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):
        return result


def action_schema(offered: Offered) -> dict[str, Any]:
    """What the next action may be: a call of one of the offered tools, by that tool's own parameters, or words."""
    forms = [
        _closed({"tool": {"const": function["name"]}, "arguments": _parameters(function)})
        for function in map(_function, offered)
    ]
    return {"anyOf": [*forms, _closed({"say": {"type": "string"}})]}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _parameters(function: Mapping[str, Any]) -> dict[str, Any]:
    given = function.get("parameters") or {}
    properties = {name: _bare(schema) for name, schema in (given.get("properties") or {}).items()}
    kept = {key: value for key, value in given.items() if key == "$defs"}
    closed = {"type": "object", "properties": properties, "additionalProperties": False}
    return kept | closed | {"required": list(given.get("required") or ())}


def _bare(schema: Any) -> Any:
    """A schema without the words that are for people."""
    if isinstance(schema, list):
        return [_bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _bare(value) for key, value in schema.items() if key not in ("description", "title", "default")}


def signature(function: Mapping[str, Any]) -> str:
    """A tool in a few lines: name, first sentence of its purpose, parameters with the first sentence of theirs."""
    parameters = function.get("parameters") or {}
    required = set(parameters.get("required") or ())
    described = []
    for name, schema in (parameters.get("properties") or {}).items():
        optional = "" if name in required else ", optional"
        kind = schema.get("type", "value")
        if schema.get("enum"):
            kind = " | ".join(map(str, schema["enum"]))
        what = _first_sentence(schema.get("description", ""))
        described.append(f"  {name} ({kind}{optional})" + (f": {what}" if what else ""))
    return "\n".join([f"- {function['name']}: {_first_sentence(function.get('description', ''))}", *described])


def _first_sentence(text: str) -> str:
    return re.split(r"(?<!e\.g\.)(?<!i\.e\.)(?<=[.!?])\s+(?=[A-Z])", " ".join(text.split()), maxsplit=1)[0]


def with_note(messages: Sequence[Message], note: str) -> list[Message]:
    """A copy of the messages with a note at the end of the latest one, or after it where that is the assistant's."""
    copied = [dict(message) for message in messages]
    if not note:
        return copied
    if not copied or copied[-1]["role"] not in ("user", "tool"):
        return [*copied, {"role": "user", "content": note}]
    copied[-1]["content"] = f"{copied[-1]['content']}\n\n{note}"
    return copied


def _sendable(message: Message) -> Message:
    """A message that a server can render: some refuse a conversation with arguments that are no JSON object."""
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        function = call["function"]
        read = proposed_call(call["id"], function["name"], function["arguments"])
        if read.arguments is None:
            function = {**function, "arguments": json.dumps({"unreadable": read.raw})}
        calls.append({**call, "function": function})
    return {**message, "tool_calls": calls}


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    """The function of a tool, without hints that are not part of the protocol."""
    return {key: value for key, value in tool["function"].items() if key != "annotations"}


def _text(message: Any) -> str:
    text = getattr(message, "content", None)
    return text.strip() if isinstance(text, str) else ""


def _cut_off_words(text: str) -> str:
    """What was said in an object that the token limit cut."""
    found = re.match(r'\{\s*"say"\s*:\s*"(.*)', text, re.DOTALL)
    if found is None:
        return ""
    try:
        return str(json.loads(f'"{found[1].rstrip(chr(92))}"', strict=False)).strip()
    except ValueError:
        return ""
