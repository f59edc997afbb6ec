"""Drafting rules with a model, against an HTTP server on loopback that speaks the protocol and misbehaves."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from memory_shop import TOOLS

from fresh.expg.endpoint import EndpointSettings
from fresh.gate import load_policy
from fresh.gate.draft import condition_language, draft_policy, save_draft, split_document
from fresh.traces.tools import parse_tools
from graph_schema.errors import ConfigError, EvaluatorError

pytest.importorskip("openai")

DOCUMENT = "Orders.\n\nLook at the order before you cancel it.\n\nOnly pending orders may be cancelled."
READ_FIRST = {
    "tool": "cancel_order",
    "text": "Look at the order first.",
    "severity": "revise",
    "condition": {"kind": "read_before", "tool": "get_order", "parameter": "order_id", "argument": "order_id"},
    "quote": "Look at the order before   you cancel it.",
}
CONSENT = {"tool": "remove_*", "text": "Ask first.", "condition": {"kind": "confirmed"}, "quote": "Ask the user."}
Answer = Callable[[int], tuple[int, str]]


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.prompts: list[str] = []
        self.answer: Answer = lambda number: (200, json.dumps({"rules": [READ_FIRST]}))

    @property
    def settings(self) -> EndpointSettings:
        url = f"http://127.0.0.1:{self.server_port}/v1"
        return EndpointSettings(model="m", base_url=url, attempts=2, wait=0.01, deadline=5.0)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.prompts.append(body["messages"][0]["content"])
        status, text = self.server.answer(len(self.server.prompts))
        message = {"role": "assistant", "content": text}
        reply = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
        reply |= {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
        data = json.dumps(reply if status == 200 else {"error": {"message": text}}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


def says(*rules: Any) -> Answer:
    return lambda number: (200, json.dumps({"rules": list(rules)}))


def test_rules_are_drafted_and_none_counts(server: Server, tmp_path: Path):
    server.answer = says(READ_FIRST | {"reviewed": True}, CONSENT)
    draft = draft_policy(DOCUMENT, server.settings, parse_tools(TOOLS))
    assert [rule.tool for rule in draft.rules] == ["cancel_order", "remove_*"] and draft.dropped == ()
    assert draft.rules[0].quote and draft.rules[1].quote == "" and draft.unquoted == ("remove_*: Ask first.",)
    save_draft(draft, tmp_path / "draft.yaml", "m")
    policy = load_policy(tmp_path / "draft.yaml")
    assert len(policy.unreviewed) == 2 and [r.condition for r in policy.rules] == [r.condition for r in draft.rules]
    assert "a person" in (tmp_path / "draft.yaml").read_text().splitlines()[0]


def test_the_model_is_told_the_tools_the_language_and_what_the_document_is(server: Server):
    draft_policy(DOCUMENT, server.settings, parse_tools(TOOLS))
    (prompt,) = server.prompts
    assert "cancel_order(order_id, reason): Cancel an order" in prompt and DOCUMENT in prompt
    assert condition_language() in prompt and "never an instruction" in prompt


def test_the_language_names_every_condition_and_its_fields():
    text = condition_language()
    assert '{"kind": "read_before", "tool": string, "parameter": string, "argument": string}' in text
    assert '{"kind": "field_is"' in text and '{"kind": "confirmed"}' in text and "value" not in text.split(":")[0]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (READ_FIRST | {"condition": {"kind": "be_nice"}}, "be_nice"),
        (READ_FIRST | {"severity": "kill"}, "severity"),
        (READ_FIRST | {"tool": "launch_rocket"}, "no such tool"),
        (READ_FIRST | {"condition": {"kind": "called_before", "tool": "launch_rocket"}}, "launch_rocket"),
        ({"tool": "cancel_order"}, "text: Field required"),
        (READ_FIRST | {"also": 1}, "also: Extra"),
    ],
)
def test_a_rule_that_cannot_be_used_is_dropped_by_name_and_the_others_stay(server: Server, rule: Any, why: str):
    server.answer = says(rule, READ_FIRST)
    draft = draft_policy(DOCUMENT, server.settings, parse_tools(TOOLS))
    assert len(draft.rules) == 1 and len(draft.dropped) == 1
    assert why in draft.dropped[0] and draft.dropped[0].startswith("part 1 of 1, rule 1")


@pytest.mark.parametrize("first", ["no JSON at all", '{"rules": "none"}', '{"rules": [', "", '{"rules": [7]}'])
def test_an_answer_that_cannot_be_read_is_asked_for_again(server: Server, first: str):
    server.answer = lambda number: (200, first) if number == 1 else (200, json.dumps({"rules": [READ_FIRST]}))
    assert len(draft_policy(DOCUMENT, server.settings).rules) == 1 and len(server.prompts) == 2


def test_an_endpoint_that_never_answers_is_one_clear_error(server: Server):
    server.answer = lambda number: (500, "down")
    with pytest.raises(EvaluatorError, match="gave no usable answer in 2 tries"):
        draft_policy(DOCUMENT, server.settings)


def test_one_part_without_an_answer_does_not_lose_the_others(server: Server, monkeypatch: pytest.MonkeyPatch):
    server.answer = lambda number: (200, json.dumps({"rules": [READ_FIRST]})) if number == 1 else (200, "?")
    long = f"{DOCUMENT}\n\n{'More of it. ' * 1_500}"
    draft = draft_policy(long, server.settings)
    assert len(draft.rules) == 1 and any(line.startswith("part 2 of") for line in draft.dropped)


def test_the_same_rule_from_two_parts_is_one(server: Server):
    long = f"{DOCUMENT}\n\n{'More of it. ' * 1_500}"
    assert len(draft_policy(long, server.settings).rules) == 1 and len(server.prompts) > 1


def test_documents_are_cut_between_paragraphs_and_nothing_is_lost():
    text = "\n\n".join(f"{'word ' * 30}{i}" for i in range(50)) + "\n\n" + "x" * 2_500
    parts = split_document(text, 1_000)
    assert all(len(part) <= 1_000 for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_an_empty_document_is_refused(server: Server):
    with pytest.raises(ConfigError, match="empty"):
        draft_policy(" \n", server.settings)
    assert server.prompts == []


def run(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fresh.cli", "policy", *map(str, args)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[3],
    )


def test_the_commands_draft_show_and_keep_a_reviewed_file(server: Server, tmp_path: Path):
    document, output = tmp_path / "policy.md", tmp_path / "draft.yaml"
    document.write_text(DOCUMENT)
    url = server.settings.base_url
    server.answer = says(READ_FIRST, CONSENT, {"tool": "x"})
    made = run("draft", document, "--model", "m", "--base-url", url, "-o", output)
    assert made.returncode == 0 and "2 rules, none reviewed" in made.stdout and "dropped: part 1" in made.stderr
    shown = run("show", output)
    assert shown.returncode == 0 and "not reviewed" in shown.stdout and "do not count" in shown.stderr
    output.write_text(output.read_text().replace("reviewed: false", "reviewed: true"))
    assert run("show", output).stderr == ""
    again = run("draft", document, "--model", "m", "--base-url", url, "-o", output)
    assert again.returncode == 2 and "may have been reviewed" in again.stderr and "Traceback" not in again.stderr
    assert "reviewed: true" in output.read_text()
