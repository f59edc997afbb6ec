"""A loopback server that speaks chat completions with scripted answers, and llama-server's slots if wanted."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fresh.expg.endpoint import EndpointSettings
from inference.evaluate.executors import ChatModel

ORDER = {"order_id": "#W8835847", "reason": "ordered by mistake"}
"""The one gold write of the task: cancel_pending_order."""

Answer = dict[str, Any] | int | bytes
"""A message of the assistant, an HTTP status, or a raw body."""


def say(text: str | None) -> Answer:
    """Words; no field of tool calls at all."""
    return {"role": "assistant", "content": text}


def calls(*wanted: tuple[str, Any]) -> Answer:
    """Native tool calls; arguments that are text go out as they are."""
    made = [
        {
            "id": f"id{number}",
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for number, (name, given) in enumerate(wanted)
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def action(tool: str, **arguments: Any) -> Answer:
    """A call in the protocol of JSON actions."""
    return say(json.dumps({"tool": tool, "arguments": arguments}))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ChatServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if self.path.startswith("/slots/"):
            self.server.slots.append((self.path.partition("action=")[2], body.get("filename", "")))
            self.reply(200 if self.server.has_slots else 501, b"{}")
            return
        self.server.requests.append(body)
        if body["model"] != "m":
            self.reply(404, json.dumps({"error": {"message": f"no model {body['model']}"}}).encode())
            return
        answer = self.server.next_answer(body)
        if isinstance(answer, int):
            self.reply(answer, b'{"error": {"message": "later"}}')
        elif isinstance(answer, bytes):
            self.reply(200, answer)
        else:
            self.reply(200, json.dumps(completion(answer)).encode())

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def completion(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": message.pop("_finish", "stop"), "message": message}],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 60},
        },
    }


class ChatServer(ThreadingHTTPServer):
    """Gives its answers in order; the last one again and again."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        self.slots: list[tuple[str, str]] = []
        self.has_slots = True
        self.answers: list[Answer] = [say("Hello.")]
        self.choose: Callable[[dict[str, Any]], Answer] | None = None
        self._given = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def script(self, answers: Sequence[Answer]) -> None:
        self.answers, self._given = list(answers), 0

    def next_answer(self, body: dict[str, Any]) -> Answer:
        if self.choose is not None:
            return self.choose(body)
        answer = self.answers[min(self._given, len(self.answers) - 1)]
        self._given += 1
        return json.loads(json.dumps(answer)) if isinstance(answer, dict) else answer

    def __enter__(self) -> ChatServer:
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


def chat_model(server: ChatServer, **more: Any) -> ChatModel:
    base = {"model": "m", "base_url": server.base_url, "api_key": "secret-key", "wait": 0.01, "deadline": 10.0}
    return ChatModel(EndpointSettings(**{**base, **more}))
