"""Messages to turns: pairing, arguments, content shapes. Each test is named after the symptom it prevents."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.traces import parse_messages, parse_messages_with_notes, parse_tool_call
from fresh.traces.clean import dumps, loads, scrub
from graph_schema.trajectory import CallStatus, Role, ToolCall, Turn

ANY_TEXT = st.text(alphabet=st.characters(min_codepoint=0, max_codepoint=0x10FFFF, exclude_categories=()))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


def _call(call_id: str | None, name: str, arguments: Any = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _assistant(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def _result(call_id: str | None, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


def _calls(turns: tuple[Turn, ...]) -> list[ToolCall]:
    return [call for turn in turns for call in turn.calls]


def _answers(turns: tuple[Turn, ...]) -> list[str | None]:
    return [call.observation.text if call.observation else None for call in _calls(turns)]


@pytest.mark.parametrize(
    ("recorded", "kind"),
    [
        ('{"id": "H-1", ', "arguments_not_json"),
        ("{'id': 'H-1'}", "arguments_not_json"),
        ("", "arguments_not_json"),
        ('{"id": 1} and more', "arguments_not_json"),
        ("null", "arguments_not_object"),
        ("[1, 2]", "arguments_not_object"),
        ('"{}"', "arguments_not_object"),
        ("7", "arguments_not_object"),
        (None, "arguments_not_object"),
        ([1], "arguments_not_object"),
    ],
)
def test_arguments_that_are_no_object_stay_text_and_never_become_an_empty_object(recorded: Any, kind: str) -> None:
    turns, notes = parse_messages_with_notes([_assistant(_call("a", "end_hire", recorded))])
    (call,) = _calls(turns)
    assert call.arguments is None
    assert call.parse_error
    assert call.raw_arguments == (recorded if isinstance(recorded, str) else json.dumps(recorded))
    assert notes[kind] == 1


def test_object_arguments_keep_the_recorded_text() -> None:
    raw = '{"b": 1,   "a": "x"}'
    (call,) = _calls(parse_messages([_assistant(_call("a", "f", raw))]))
    assert call.arguments == {"b": 1, "a": "x"}
    assert call.raw_arguments == raw
    assert call.parse_error is None


def test_deeply_nested_arguments_do_not_raise() -> None:
    (call,) = _calls(parse_messages([_assistant(_call("a", "f", '{"a":' * 100_000))]))
    assert call.arguments is None and call.parse_error


def test_an_id_used_again_in_a_later_round_joins_the_later_call() -> None:
    turns, notes = parse_messages_with_notes(
        [
            _assistant(_call("same", "read_a")),
            _result("same", "first"),
            _assistant(_call("same", "read_b")),
            _result("same", "second"),
        ]
    )
    assert _answers(turns) == ["first", "second"]
    assert notes["reused_call_id"] == 1
    assert len({call.id for call in _calls(turns)}) == 2


def test_an_id_used_again_where_the_first_call_was_never_answered() -> None:
    turns = parse_messages([_assistant(_call("x", "f")), _assistant(_call("x", "g")), _result("x", "of g")])
    assert _answers(turns) == [None, "of g"]


def test_one_id_for_all_calls_of_one_reply_pairs_by_position() -> None:
    turns = parse_messages(
        [
            _assistant(_call("x", "f"), _call("x", "f"), _call("x", "f")),
            *(_result("x", str(i)) for i in range(3)),
        ]
    )
    assert _answers(turns) == ["0", "1", "2"]


def test_parallel_calls_are_all_kept_in_order_and_answered_by_id() -> None:
    turns = parse_messages([_assistant(_call("a", "f"), _call("b", "g")), _result("b", "B"), _result("a", "A")])
    assert [call.tool for call in _calls(turns)] == ["f", "g"]
    assert _answers(turns) == ["A", "B"]


def test_parallel_calls_written_as_several_messages_are_answered_by_id() -> None:
    turns, notes = parse_messages_with_notes(
        [_assistant(_call("a", "f")), _assistant(_call("b", "g")), _result("a", "A"), _result("b", "B")]
    )
    assert _answers(turns) == ["A", "B"]
    assert not notes


@pytest.mark.parametrize("missing", [None, ""])
def test_results_without_ids_pair_by_name_then_by_position(missing: str | None) -> None:
    turns, notes = parse_messages_with_notes(
        [
            _assistant(_call(missing, "f"), _call(missing, "g"), _call(missing, "f")),
            _result(missing, "G", name="g"),
            _result(missing, "F1", name="f"),
            _result(missing, "F2"),
        ]
    )
    assert _answers(turns) == ["F1", "G", "F2"]
    assert notes["missing_call_id"] == 3


def test_a_result_of_another_tool_is_not_forced_onto_a_waiting_call() -> None:
    turns, notes = parse_messages_with_notes([_assistant(_call("a", "f")), _result(None, "of g", name="g")])
    assert _answers(turns) == [None]
    assert notes["result_without_call"] == 1


def test_a_result_without_any_call_is_kept_outside_speech() -> None:
    turns, notes = parse_messages_with_notes([_result("z", "left over"), {"role": "user", "content": "hi"}])
    assert [turn.role for turn in turns] == [Role.OTHER, Role.USER]
    assert turns[0].text == "left over"
    assert notes["result_without_call"] == 1


def test_a_second_result_for_an_answered_call_does_not_replace_the_first() -> None:
    turns, notes = parse_messages_with_notes([_assistant(_call("a", "f")), _result("a", "one"), _result("a", "two")])
    assert _answers(turns) == ["one"]
    assert notes["result_without_call"] == 1


def test_a_call_without_a_result_is_neither_success_nor_failure() -> None:
    turns, notes = parse_messages_with_notes([_assistant(_call("a", "f"), _call("b", "f")), _result("b", "ok")])
    assert [call.status for call in _calls(turns)] == [CallStatus.UNANSWERED, CallStatus.OK]
    assert notes["call_without_result"] == 1


def test_content_of_every_shape_is_read() -> None:
    turns = parse_messages(
        [
            {"role": "user", "content": None},
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "content": "b"}, "c"],
            },
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:..."}}]},
            {"role": "user", "content": {"type": "text", "text": "d"}},
            {"role": "assistant"},
            {"role": "critic", "content": 5},
        ]
    )
    assert [turn.text for turn in turns] == ["", "a\nb\nc", "[image_url]", "d", "", "5"]
    assert turns[-1].role is Role.OTHER


def test_anthropic_blocks_and_openai_messages_in_one_history() -> None:
    turns, notes = parse_messages_with_notes(
        [
            {"role": "user", "content": "end it"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hidden"},
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "t1", "name": "get_hire", "input": {"id": 1}},
                    {"type": "tool_use", "id": "t2", "name": "end_hire", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t2", "content": "no", "is_error": True},
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [{"type": "text", "text": "running"}],
                    },
                    {"type": "text", "text": "please hurry"},
                ],
            },
            _assistant(_call("t1", "end_hire", '{"id": 1}')),
            _result("t1", "ended"),
        ]
    )
    assert [(turn.role.value, turn.text) for turn in turns] == [
        ("user", "end it"),
        ("assistant", "Looking."),
        ("user", "please hurry"),
        ("assistant", ""),
    ]
    assert _answers(turns) == ["running", "no", "ended"]
    assert [call.status.value for call in _calls(turns)] == ["ok", "error", "ok"]
    assert set(notes) == {"reused_call_id"}


def test_the_older_function_call_shape() -> None:
    turns = parse_messages(
        [
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}},
            {"role": "function", "name": "f", "content": "done"},
        ]
    )
    assert _answers(turns) == ["done"]
    assert _calls(turns)[0].arguments == {"a": 1}


def test_a_recorded_error_stands_in_for_an_empty_result() -> None:
    turns = parse_messages([_assistant(_call("a", "f")), _result("a", "", error="ValueError: no such bed")])
    (call,) = _calls(turns)
    assert call.status is CallStatus.ERROR
    assert call.observation is not None and call.observation.text == "ValueError: no such bed"


def test_an_error_that_stands_only_in_the_text_is_seen_and_noted() -> None:
    turns, notes = parse_messages_with_notes([_assistant(_call("a", "f")), _result("a", "Error: no such bed")])
    assert _calls(turns)[0].status is CallStatus.ERROR
    assert notes["error_only_in_text"] == 1


def test_a_result_that_the_recorder_cut_is_marked() -> None:
    turns = parse_messages([_assistant(_call("a", "f")), _result("a", "x" * 500 + "\n... [output truncated]")])
    observation = _calls(turns)[0].observation
    assert observation is not None and observation.truncated


def test_messages_and_calls_that_are_not_objects_do_not_stop_the_rest() -> None:
    history: list[Any] = [
        "text",
        {"role": "assistant", "tool_calls": ["f()", _call("a", "f")]},
        _result("a", "ok"),
    ]
    turns, notes = parse_messages_with_notes(history)
    assert _answers(turns) == [None, "ok"]
    assert notes["message_not_object"] == 1 and notes["call_not_object"] == 1


@pytest.mark.parametrize(
    "call",
    [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"name": "f", "arguments": '{"a": 1}'},
        {"name": "f", "arguments": {"a": 1}},
        {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}},
    ],
)
def test_a_live_call_in_every_shape(call: dict[str, Any]) -> None:
    parsed = parse_tool_call(call)
    assert (parsed.tool, parsed.arguments, parsed.status) == ("f", {"a": 1}, CallStatus.UNANSWERED)


def test_a_live_call_with_bad_arguments_carries_the_parsers_message() -> None:
    parsed = parse_tool_call({"name": "f", "arguments": '{"a": '})
    assert parsed.arguments is None and parsed.parse_error is not None and "not JSON" in parsed.parse_error


def test_times_and_tokens_are_kept_where_recorded() -> None:
    turns = parse_messages(
        [
            {
                **_assistant(_call("a", "f")),
                "timestamp": "2025-03-01T10:00:01Z",
                "usage": {"total_tokens": 9},
            },
            _result("a", "ok", timestamp="2025-03-01T10:00:03.5Z"),
        ]
    )
    (call,) = _calls(turns)
    assert call.seconds == 2.5 and call.tokens == 9


def test_call_ids_are_namespaced_by_run() -> None:
    history = [_assistant(_call("a", "f"), _call("a", "f"))]
    ids = [call.id for run in ("r1", "r2") for call in _calls(parse_messages(history, run_id=run))]
    assert ids == ["r1/0/0", "r1/0/1", "r2/0/0", "r2/0/1"]


@given(ANY_TEXT)
def test_no_surrogate_survives_in_any_text(text: str) -> None:
    history = [
        {"role": "user", "content": text},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": text}],
            "tool_calls": [_call(text, text, text)],
        },
        _assistant(_call("a", "f", {"k" + text: [text]})),
        _result("a", text, error=text or None),
    ]
    for turn in parse_messages(history):
        texts = [turn.model_dump_json()]
        for call in turn.calls:
            texts += [call.tool, call.raw_arguments, call.recorded_id or "", dumps(call.arguments)]
        assert not any("\ud800" <= character <= "\udfff" for text in texts for character in text)


def test_every_code_point_is_kept_or_replaced() -> None:
    for point in range(0x110000):
        character = chr(point)
        lone = 0xD800 <= point <= 0xDFFF
        assert scrub(character) == ("\ufffd" if lone else character)


def test_a_split_pair_becomes_its_character() -> None:
    assert scrub("a\ud83d\ude00\ud800b") == "a\U0001f600\ufffdb"


@given(JSON_VALUES)
def test_lenient_json_reads_back_what_any_writer_wrote(value: Any) -> None:
    text = json.dumps(value)  # writes NaN and surrogates, as many recorders do
    read = loads(text)
    assert dumps(read).encode("utf-8")
    assert loads(dumps(read)) == read
    if "NaN" not in text and "Infinity" not in text and "\\ud" not in text:
        assert read == json.loads(text)


@given(st.lists(st.dictionaries(st.sampled_from(["role", "content", "tool_calls", "id", "error"]), JSON_VALUES)))
def test_no_history_raises(messages: list[dict[str, Any]]) -> None:
    turns = parse_messages(messages)
    assert len(turns) <= 2 * len(messages)
