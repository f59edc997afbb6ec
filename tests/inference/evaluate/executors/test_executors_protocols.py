"""What a request holds and how an answer is read, in both protocols."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from inference.evaluate.executors.protocols import JsonAction, NativeTools, action_schema, signature, with_note
from inference.evaluate.executors.reply import proposed_call

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "close_ticket",
            "description": "Close a ticket. It cannot be opened again.",
            "annotations": {"readOnlyHint": False},
            "parameters": {
                "type": "object",
                "properties": {
                    "ticket": {"type": "string", "description": "Its number, e.g. T-1. Look it up."},
                    "how": {"enum": ["solved", "dropped"]},
                },
                "required": ["ticket"],
            },
        },
    },
    {"type": "function", "function": {"name": "list_tickets", "description": "All tickets.", "parameters": {}}},
]
HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "policy"},
    {"role": "user", "content": "Close T-7."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "close_ticket", "arguments": '{"ticket": "T-7"}'}},
            {"id": "b", "type": "function", "function": {"name": "list_tickets", "arguments": "{broken"}},
        ],
    },
    {"role": "tool", "tool_call_id": "a", "name": "close_ticket", "content": "closed"},
    {"role": "tool", "tool_call_id": "b", "name": "list_tickets", "content": "Error"},
]


def message(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


def native(name: str | None, arguments: Any, call_id: str | None = "x") -> Any:
    return SimpleNamespace(id=call_id, function=SimpleNamespace(name=name, arguments=arguments))


def test_native_requests_offer_the_tools_without_hints() -> None:
    asked = NativeTools().request(HISTORY, "", TOOLS)
    assert [tool["function"]["name"] for tool in asked["tools"]] == ["close_ticket", "list_tickets"]
    assert "annotations" not in json.dumps(asked)
    assert "tools" not in NativeTools().request(HISTORY, "", [])


def test_unreadable_arguments_are_sent_back_as_an_object_and_kept_as_they_came() -> None:
    asked = NativeTools().request(HISTORY, "", TOOLS)
    sent = [call["function"]["arguments"] for call in asked["messages"][2]["tool_calls"]]
    assert sent == ['{"ticket": "T-7"}', '{"unreadable": "{broken"}']
    assert HISTORY[2]["tool_calls"][1]["function"]["arguments"] == "{broken"


@pytest.mark.parametrize(
    ("arguments", "read", "problem"),
    [
        ('{"a": 1}', {"a": 1}, ""),
        ("", {}, ""),
        ("null", None, "a JSON NoneType, not an object"),
        ("[1]", None, "a JSON list, not an object"),
        ('"text"', None, "a JSON str, not an object"),
        ("{", None, "not JSON"),
        (None, None, "a JSON NoneType, not an object"),
        ("[" * 100_000, None, "not JSON"),
    ],
)
def test_arguments_are_read_or_said_to_be_unreadable(arguments: Any, read: Any, problem: str) -> None:
    call = proposed_call("x", "tool", arguments)
    assert call.arguments == read
    assert problem in call.problem
    assert bool(call.problem) == (read is None)


def test_equal_calls_have_equal_keys() -> None:
    assert proposed_call("x", "t", '{"a": 1, "b": 2}').key == proposed_call("y", "t", '{"b":2,"a":1}').key


def test_native_answers_without_any_field_of_calls_are_words() -> None:
    assert NativeTools().read(message(content=" Hello "), "c", cut=False).text == "Hello"


@pytest.mark.parametrize("empty", [message(content=None, tool_calls=None), message(content="  ", tool_calls=[])])
def test_native_answers_with_nothing_are_a_problem(empty: Any) -> None:
    assert "empty" in NativeTools().read(empty, "c", cut=False).problem


def test_native_calls_with_the_same_or_no_id_get_ids_of_their_own() -> None:
    given = [native("a", "{}", "x"), native("b", "{}", "x"), native("c", "{}", None)]
    reply = NativeTools().read(message(content=None, tool_calls=given), "fresh", cut=False)
    assert len({call.id for call in reply.calls}) == 3
    assert [call.tool for call in reply.calls] == ["a", "b", "c"]


def test_json_system_prompt_lists_the_tools_in_short() -> None:
    system = JsonAction().system("POLICY", TOOLS)
    assert system.startswith("POLICY")
    assert "- close_ticket: Close a ticket.\n  ticket (string): Its number, e.g. T-1." in system
    assert "how (solved | dropped, optional)" in system
    assert "It cannot be opened again" not in system
    assert signature(TOOLS[1]["function"]) == "- list_tickets: All tickets."


def test_json_requests_hold_plain_messages_alone() -> None:
    asked = JsonAction().request(HISTORY, "a note", TOOLS)
    assert {m["role"] for m in asked["messages"]} == {"system", "user", "assistant"}
    assert asked["messages"][2]["content"].startswith('{"tool": "close_ticket", "arguments": {"ticket": "T-7"}}')
    assert asked["messages"][-1]["content"] == "Result of list_tickets: Error\n\na note"
    assert asked["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        ({"say": "Hello"}, True),
        ({"tool": "close_ticket", "arguments": {"ticket": "T-7"}}, True),
        ({"tool": "list_tickets", "arguments": {}}, True),
        ({"tool": "close_ticket", "arguments": {}}, False),
        ({"tool": "list_tickets", "arguments": {"ticket": "T-7"}}, False),
        ({"tool": "unknown", "arguments": {}}, False),
        ({"say": "Hello", "tool": "list_tickets", "arguments": {}}, False),
    ],
)
def test_the_schema_takes_exactly_the_offered_actions(value: Any, valid: bool) -> None:
    assert jsonschema.Draft202012Validator(action_schema(TOOLS)).is_valid(value) is valid


def test_the_schema_without_tools_leaves_words_alone() -> None:
    assert len(action_schema([])["anyOf"]) == 1


@pytest.mark.parametrize(
    ("text", "tool", "said"),
    [
        ('{"tool": "list_tickets", "arguments": {}}', "list_tickets", ""),
        ('```json\n{"tool": "list_tickets", "arguments": {}}\n```', "list_tickets", ""),
        ('{"tool": "list_tickets"}', "list_tickets", ""),
        ('{"say": "Hello {you}"}', "", "Hello {you}"),
    ],
)
def test_json_answers_are_read(text: str, tool: str, said: str) -> None:
    reply = JsonAction().read(message(content=text), "c", cut=False)
    assert ("".join(call.tool for call in reply.calls), reply.text, reply.problem) == (tool, said, "")


@pytest.mark.parametrize("text", ["", "Hello", "{}", '{"say": ""}', '{"tool": ""}', '{"tool": 1}', '{"say": "Hel'])
def test_json_answers_that_say_nothing_are_a_problem(text: str) -> None:
    assert JsonAction().read(message(content=text), "c", cut=False).problem


def test_words_that_the_token_limit_cut_are_kept() -> None:
    reply = JsonAction().read(message(content='{"say": "I can \\"help\\" you with'), "c", cut=True)
    assert reply.text == 'I can "help" you with'
    assert JsonAction().read(message(content='{"tool": "close'), "c", cut=True).problem


def test_a_note_is_for_one_request() -> None:
    given = [{"role": "user", "content": "Hi"}]
    assert with_note(given, "NOTE") == [{"role": "user", "content": "Hi\n\nNOTE"}]
    assert given == [{"role": "user", "content": "Hi"}]
    assert with_note([{"role": "assistant", "content": "Hi"}], "NOTE")[-1] == {"role": "user", "content": "NOTE"}
    assert with_note([{"role": "system", "content": "P"}], "NOTE")[0]["content"] == "P"
