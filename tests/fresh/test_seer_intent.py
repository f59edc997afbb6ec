from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seer_builders import run

from fresh.expg.endpoint import EndpointSettings
from fresh.retrieval.encoder import HashedEncoder
from fresh.seer import ExperiencePool, LLMIntents, RuleIntents, Situation
from graph_schema.errors import ConfigError, EvaluatorError


@pytest.mark.parametrize(
    ("request_text", "intent"),
    [
        ("Hi, I'd like to cancel my lawn service for tomorrow.", "cancel service"),
        ("Hello! I want to exchange a couple of items from my recent order.", "exchange item"),
        ("Can you please send a message to Bob about the meeting?", "send message"),
        ("Could you help me to change the address of my account?", "change address"),
        ("Please water the plants", "water plant"),
        ("Create a calendar event for lunch on Friday", "create event"),
        ("Good morning. Summarize the quarterly report, please", "summarize report"),
        ("I'm thinking about returning the two books I bought", "return book"),
        ("I have a question about moving my boxes", "move box"),
        ("I need help with my mobile data.", "help data"),
        ("What's my total spending in March 2022?", "ask spending"),
        ("How many entries are there?", "ask entry"),
        ("CANCEL MY ORDER", "cancel order"),
        ("Hello!", None),
        ("", None),
        ("🙂 ...", None),
    ],
)
def test_rules_find_verb_and_thing(request_text: str, intent: str | None) -> None:
    assert RuleIntents().classify([request_text]) == [intent]


def test_rules_put_paraphrases_together() -> None:
    same = [
        "I want to cancel my orders.",
        "Please cancel order #W2378156",
        "could you cancel an order?",
        "Cancel the order!",
    ]
    assert set(RuleIntents().classify(same)) == {"cancel order"}


@given(st.text(max_size=80))
def test_rules_take_any_text_and_keep_no_digits(text: str) -> None:
    (found,) = RuleIntents().classify([text])
    assert found is None or (len(found.split()) == 2 and not any(letter.isdecimal() for letter in found))


# -- asking a model --------------------------------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    """Answers with the class that the server holds ready."""

    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.prompts.append(body["messages"][0]["content"])
        message = {"role": "assistant", "content": self.server.answer}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        data = json.dumps({"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": choices})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(data.encode())

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.prompts: list[str] = []
        self.answer = '{"intent": "Cancel an order"}'


@pytest.fixture
def server() -> Iterator[Server]:
    pytest.importorskip("openai")
    found = Server()
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


def asking(server: Server, *classes: str) -> LLMIntents:
    settings: dict[str, Any] = {"model": "m", "base_url": f"http://127.0.0.1:{server.server_port}/v1", "wait": 0.01}
    return LLMIntents(EndpointSettings(**settings, attempts=2), classes or ("cancel an order", "return goods"))


def test_the_model_picks_a_class_and_is_asked_once(server: Server) -> None:
    intents = asking(server)
    assert intents.classify(["stop it {classes}", "", "stop it {classes}"]) == [
        "cancel an order",
        None,
        "cancel an order",
    ]
    assert intents.classify(["stop it {classes}"]) == ["cancel an order"]
    (prompt,) = server.prompts
    assert "- return goods\n- none" in prompt
    assert "stop it {classes}" in prompt


@pytest.mark.parametrize("answer", ['{"intent": "none"}', '{"intent": "buy a boat"}'])
def test_an_answer_outside_the_classes_is_none(server: Server, answer: str) -> None:
    server.answer = answer
    assert asking(server).classify(["stop it"]) == [None]


def test_no_usable_answer_is_one_error(server: Server) -> None:
    server.answer = "I would say that they want to cancel."
    with pytest.raises(EvaluatorError, match="no usable answer"):
        asking(server).classify(["stop it"])


def test_the_pool_takes_the_models_classes(server: Server) -> None:
    pool = ExperiencePool(HashedEncoder(), intents=asking(server))
    pool.add([run("a", "Please cancel my order", ["cancel"])])
    assert pool.experiences[0].intent == "cancel an order"
    assert pool.scores(Situation(request="something else", text="something else"))[0, 2] == 1


@pytest.mark.parametrize("classes", [(), ("",), ("none", "pay")])
def test_wrong_classes_are_refused(classes: tuple[str, ...]) -> None:
    pytest.importorskip("openai")
    with pytest.raises(ConfigError, match="at least one class"):
        LLMIntents(EndpointSettings(model="m"), classes)
