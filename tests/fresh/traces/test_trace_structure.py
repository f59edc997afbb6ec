"""Values and errors inside observation texts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fresh.traces.messages import content_text
from fresh.traces.structure import MAX_CHARACTERS, looks_like_error, looks_truncated, parse_observation


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"status": "open", "total": 4.5}', {"status": "open", "total": 4.5}),
        (' [1, {"a": null}] ', [1, {"a": None}]),
        ("{'a': True, 'b': (1, 2), 3: None}", {"a": True, "b": [1, 2], "3": None}),
        ("- name: roses\n  dry: true\n- name: herbs", [{"name": "roses", "dry": True}, {"name": "herbs"}]),
        ("- general\n- random", ["general", "random"]),
        ("id_: '27'\nnames:\n- Al", {"id_": "27", "names": ["Al"]}),
        (
            "day: 2024-05-19 17:00:00\nslot: 10:30\nok: yes",
            {"day": "2024-05-19 17:00:00", "slot": "10:30", "ok": "yes"},
        ),
        ("code: 0123", {"code": "0123"}),
        ("{}", {}),
        ("Your order is on its way.", None),
        ("Note: your order is on its way and will arrive soon.", None),
        ("Dear Al,\nid: 4\nBye", None),
        ("- one line only", None),
        ("42", None),
        ('"text"', None),
        ("", None),
        ("{broken", None),
        ("a: &x [1]\nb: *x", None),
        ("{'a': __import__('os')}", None),
        ("[" * 50_000, None),
    ],
)
def test_parse_observation(text: str, value: Any) -> None:
    assert parse_observation(text) == value


def test_an_enormous_text_is_not_parsed() -> None:
    assert parse_observation("[" + "1," * MAX_CHARACTERS + "1]") is None


KEYS = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(st.characters(codec="utf-8"), max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
CONTAINERS = PLAIN.filter(lambda value: isinstance(value, dict | list) and bool(value))


@given(CONTAINERS)
def test_json_and_python_texts_read_back(value: Any) -> None:
    assert parse_observation(json.dumps(value)) == value
    assert parse_observation(repr(value)) == value


@given(CONTAINERS)
def test_dumped_yaml_reads_back_or_is_left_alone(value: Any) -> None:
    read = parse_observation(yaml.safe_dump(value))
    assert read is None or read == value


@given(st.text())
def test_any_text_is_read_or_left_alone(text: str) -> None:
    assert parse_observation(text) is None or isinstance(parse_observation(text), dict | list)
    assert looks_like_error(text) in (True, False)


@pytest.mark.parametrize(
    "text",
    [
        "Error: payment amount does not add up",
        "error - no such bed",
        "[CALL ERROR] timed out",
        "ValidationError: 3 validation errors for Input schema",
        "ValueError('bad')",
        "Traceback (most recent call last):\n  File ...",
        "Invalid date.",
        "Failed to book.",
        "Unable to find the page",
        "Cannot cancel a shipped order",
        "Product ID not found.",
        "The channel does not exist!",
        "404 Not Found",
        "HTTP 500 Internal Server Error",
        "Unknown tool: fly",
        '{"error": "no such client"}',
        '{"success": false, "message": "full"}',
        "{'error': 'no such client'}",
        '{"status": "failed", "message": "x"}',
    ],
)
def test_errors_are_seen(text: str) -> None:
    assert looks_like_error(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Done.",
        '{"error": null, "result": 4}',
        '{"errors": [], "result": 4}',
        '{"status": "error_free"}',
        '{"error": 0.01, "mean": 3}',
        "- body: 'Error: my laptop is broken'\n  sender: Al",
        "Error-free run.",
        "Error rate over the last day is 0.1%",
        "No errors were found.",
        "Invoices: 3",
        "The article says that the treasure was not found. " * 10,
        "[]",
        "Cancelled the order.",
    ],
)
def test_texts_that_only_mention_errors_are_not_errors(text: str) -> None:
    assert not looks_like_error(text)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("abc... (truncated)", True),
        ("abc [output truncated]", True),
        ("the truncated cone", False),
        ("", False),
    ],
)
def test_truncation_is_what_the_recorder_says_at_the_end(text: str, cut: bool) -> None:
    assert looks_truncated(text) is cut


def test_errors_only_in_text_agree_with_recorded_flags(shared_data: Path) -> None:
    """Against the flag of every tool message in one file each of two benchmarks."""
    right = wrong_alarm = missed = 0
    for text, error in _flagged(shared_data):
        seen = looks_like_error(text)
        right += seen == error
        wrong_alarm += seen and not error
        missed += error and not seen
    assert right > 500
    assert wrong_alarm / right < 0.005 and missed / right < 0.005


def _flagged(folder: Path) -> list[tuple[str, bool]]:
    flagged = []
    with gzip.open(folder / "agentdojo" / "gpt-3.5-turbo-0125.jsonl.gz", "rt") as stream:
        for record in map(json.loads, stream):
            if record["attack_type"] is None:
                for message in record["messages"]:
                    if message["role"] == "tool":
                        text = content_text(message["content"])
                        flagged.append((text or message["error"] or "", bool(message["error"])))
    with gzip.open(folder / "tau2" / "airline-qwen2.5-7b.json.gz", "rt") as stream:
        for simulation in json.load(stream)["simulations"]:
            flagged += [(m["content"] or "", m["error"]) for m in simulation["messages"] if m["role"] == "tool"]
    return flagged
