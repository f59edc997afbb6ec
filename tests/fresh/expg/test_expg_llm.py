"""The language-model paths against a real HTTP server on loopback that speaks the protocol and misbehaves."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from expg_builders import PERFECT, agent, call, experience, many, run, user

from fresh.expg import distil
from fresh.expg.cache import AnswerCache
from fresh.expg.endpoint import BudgetSpent, ChatEndpoint, EndpointSettings, Usage
from fresh.expg.judge import LLMEvaluator, LLMSummariser, Verdict
from graph_schema.errors import EvaluatorError, MemoryFileError

pytest.importorskip("openai")

GOOD = {"scores": [1, 1, 1, 1, 1, 0, 1, 1, 1, 0], "explanation": "The value was made up."}
Behaviour = Callable[["Handler", dict[str, Any], int], None]


class Handler(BaseHTTPRequestHandler):
    """Answers chat completions as the server's ``behaviour`` says."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append(body)
            number = len(self.server.requests)
        self.server.behaviour(self, body, number)

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def say(self, text: str | None) -> None:
        """A proper completion with this text."""
        self.send(200, json.dumps(completion(text)).encode())

    def fail(self, status: int, message: str = "no", **headers: str) -> None:
        self.send(status, json.dumps({"error": {"message": message}}).encode(), **headers)

    def cut(self) -> None:
        """Promises more than it sends and hangs up."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "5000")
        self.end_headers()
        self.wfile.write(b'{"choices": [')
        self.wfile.flush()
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        self.behaviour: Behaviour = lambda handler, body, number: handler.say(json.dumps(GOOD))
        self.released = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients hang up on purpose here


def completion(text: str | None) -> dict[str, Any]:
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    }


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    yield found
    found.released.set()
    found.shutdown()
    found.server_close()


def settings(server: Server, **more: Any) -> EndpointSettings:
    base = {
        "model": "m",
        "base_url": f"http://127.0.0.1:{server.server_port}/v1",
        "api_key": "k",
        "attempts": 3,
        "wait": 0.01,
        "deadline": 5.0,
    }
    return EndpointSettings(**{**base, **more})


def after(first: int, bad: Behaviour) -> Behaviour:
    """Bad for the first requests, good then."""

    def behave(handler: Handler, body: dict[str, Any], number: int) -> None:
        if number <= first:
            bad(handler, body, number)
        else:
            handler.say(json.dumps(GOOD))

    return behave


def hang(handler: Handler, body: dict[str, Any], number: int) -> None:
    handler.server.released.wait(20)
    handler.close_connection = True


def drip(handler: Handler, body: dict[str, Any], number: int) -> None:
    """A byte now and then, so that no read ever times out."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    while not handler.server.released.wait(0.05):
        handler.wfile.write(b" ")
        handler.wfile.flush()


NINE = json.dumps({**GOOD, "scores": [1] * 9})
MISBEHAVIOURS: dict[str, Behaviour] = {
    "invalid JSON": lambda h, b, n: h.say('{"scores": [1, 1'),
    "no JSON": lambda h, b, n: h.say("I would say that it went well."),
    "nine scores": lambda h, b, n: h.say(NINE),
    "eleven scores": lambda h, b, n: h.say(json.dumps({**GOOD, "scores": [1] * 11})),
    "a score of two": lambda h, b, n: h.say(json.dumps({**GOOD, "scores": [2] + [1] * 9})),
    "no explanation": lambda h, b, n: h.say(json.dumps({"scores": [1] * 10})),
    "an empty answer": lambda h, b, n: h.say(None),
    "no choices": lambda h, b, n: h.send(200, json.dumps({**completion("x"), "choices": []}).encode()),
    "a body that is not JSON": lambda h, b, n: h.send(200, b"<html>busy</html>"),
    "429": lambda h, b, n: h.fail(429),
    "500": lambda h, b, n: h.fail(500),
    "503": lambda h, b, n: h.fail(503),
    "a cut connection": lambda h, b, n: h.cut(),
}


@pytest.mark.parametrize("kind", MISBEHAVIOURS)
def test_misbehaviour_is_cured_by_a_retry(server: Server, kind: str) -> None:
    server.behaviour = after(2, MISBEHAVIOURS[kind])
    (judged,) = LLMEvaluator(settings(server)).judge([experience()])
    assert judged.scores == tuple(GOOD["scores"])  # type: ignore[arg-type]
    assert judged.judgement.explanation == "The value was made up."
    assert judged.judgement.unknown == ()
    assert len(server.requests) == 3


@pytest.mark.parametrize("kind", MISBEHAVIOURS)
def test_misbehaviour_for_good_is_one_clear_error(server: Server, kind: str) -> None:
    server.behaviour = MISBEHAVIOURS[kind]
    with pytest.raises(EvaluatorError) as caught:
        LLMEvaluator(settings(server)).judge([experience()])
    text = str(caught.value)
    assert "gave no usable answer in 3 tries" in text and "127.0.0.1" in text and "\n" not in text
    assert len(server.requests) == 3


@pytest.mark.parametrize("stall", [hang, drip])
def test_a_hang_ends_at_the_deadline(server: Server, stall: Behaviour) -> None:
    server.behaviour = after(1, stall)
    started = time.monotonic()
    (judged,) = LLMEvaluator(settings(server, deadline=0.4)).judge([experience()])
    assert judged.scores[5] == 0
    assert 0.4 <= time.monotonic() - started < 4
    server.requests.clear()
    server.behaviour = stall
    with pytest.raises(EvaluatorError, match="deadline"):
        LLMEvaluator(settings(server, deadline=0.2, attempts=2)).judge([experience()])
    assert len(server.requests) == 2


def test_a_refusal_is_not_retried(server: Server) -> None:
    for status in (400, 401, 403, 404):
        server.requests.clear()
        server.behaviour = lambda h, b, n, s=status: h.fail(s, "wrong key")  # type: ignore[misc]
        with pytest.raises(EvaluatorError, match=r"refused.*wrong key"):
            LLMEvaluator(settings(server)).judge([experience()])
        assert len(server.requests) == 1


def test_nobody_listening_is_an_evaluator_error(server: Server) -> None:
    lost = settings(server, base_url="http://127.0.0.1:9/v1", attempts=2)
    with pytest.raises(EvaluatorError, match="no usable answer in 2 tries"):
        LLMEvaluator(lost).judge([experience()])


def test_retry_after_is_honoured_up_to_the_longest_wait(server: Server) -> None:
    server.behaviour = after(1, lambda h, b, n: h.fail(429, Retry_After="0.3"))
    started = time.monotonic()
    LLMEvaluator(settings(server)).judge([experience()])
    assert time.monotonic() - started >= 0.3
    server.requests.clear()
    server.behaviour = after(1, lambda h, b, n: h.fail(429, Retry_After="3600"))
    started = time.monotonic()
    LLMEvaluator(settings(server, longest_wait=0.1)).judge([experience()])
    assert time.monotonic() - started < 3


def test_a_server_without_structured_output_is_asked_plainly(server: Server) -> None:
    def behave(handler: Handler, body: dict[str, Any], number: int) -> None:
        if "response_format" in body:
            handler.fail(400, "response_format is not supported")
        else:
            handler.say("Here it is:\n```json\n" + json.dumps(GOOD) + "\n```")

    server.behaviour = behave
    judged = LLMEvaluator(settings(server, concurrency=1)).judge(many({PERFECT: 3}))
    assert {e.scores for e in judged} == {tuple(GOOD["scores"])}  # type: ignore[arg-type]
    assert ["response_format" in body for body in server.requests] == [True, False, False, False]


def test_the_question_holds_the_record_and_asks_for_the_schema(server: Server) -> None:
    LLMEvaluator(settings(server)).judge([experience(number=7, context="Where is {input}?", response="{context}")])
    (body,) = server.requests
    prompt = body["messages"][0]["content"]
    assert '{"parcel_id":"P00007"}' in prompt and "Where is {input}?" in prompt
    assert re.search(r"= response\n\{context\}\n=", prompt)
    assert body["temperature"] == 0 and body["model"] == "m"
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["scores"]["minItems"] == schema["properties"]["scores"]["maxItems"] == 10


def test_the_model_is_told_what_was_wrong_with_its_answer(server: Server) -> None:
    server.behaviour = after(1, MISBEHAVIOURS["nine scores"])
    LLMEvaluator(settings(server)).judge([experience()])
    first, second = (body["messages"][0]["content"] for body in server.requests)
    assert second.startswith(first) and "scores: List should have at least 10 items" in second


def test_finished_work_is_kept_and_nothing_is_paid_twice(server: Server, tmp_path: Path) -> None:
    found = many({PERFECT: 6})
    cache = tmp_path / "cache" / "answers.sqlite"

    def behave(handler: Handler, body: dict[str, Any], number: int) -> None:
        if number > 4:
            handler.fail(401, "out of credit")
        else:
            handler.say(json.dumps(GOOD))

    server.behaviour = behave
    with pytest.raises(EvaluatorError, match=r"out of credit.*2 questions are open, 4 of 6 answers are kept"):
        LLMEvaluator(settings(server, concurrency=1), cache).judge(found)
    server.behaviour = after(0, hang)
    server.requests.clear()
    assert len(LLMEvaluator(settings(server), cache).judge([*found, found[0]])) == 7
    assert len(server.requests) == 2
    server.requests.clear()
    LLMEvaluator(settings(server), cache).judge(found)
    assert server.requests == []
    LLMEvaluator(settings(server, model="another"), cache).judge(found[:1])
    assert len(server.requests) == 1


def test_after_a_failure_answers_under_way_are_still_kept(server: Server, tmp_path: Path) -> None:
    both_there = threading.Barrier(2, timeout=10)

    def behave(handler: Handler, body: dict[str, Any], number: int) -> None:
        both_there.wait()
        if number == 1:
            handler.fail(401)
        else:
            time.sleep(0.2)
            handler.say(json.dumps(GOOD))

    server.behaviour = behave
    cache = tmp_path / "answers.sqlite"
    with pytest.raises(EvaluatorError, match="1 of 8 answers are kept"):
        LLMEvaluator(settings(server, concurrency=2), cache).judge(many({PERFECT: 8}))
    assert len(server.requests) == 2
    assert len(AnswerCache(cache)) == 1


def test_concurrency_is_limited(server: Server) -> None:
    active = [0, 0]

    def behave(handler: Handler, body: dict[str, Any], number: int) -> None:
        with server.lock:
            active[0] += 1
            active[1] = max(active)
        time.sleep(0.05)
        with server.lock:
            active[0] -= 1
        handler.say(json.dumps(GOOD))

    server.behaviour = behave
    LLMEvaluator(settings(server, concurrency=3)).judge(many({PERFECT: 12}))
    assert active[1] == 3


@pytest.mark.parametrize(
    ("limit", "name", "asked"),
    [
        ({"max_requests": 2}, "requests", 2),
        ({"max_tokens": 240}, "tokens", 2),
        ({"max_cost": 0.0005, "price_in": 1.0, "price_out": 10.0}, "cost", 2),
        ({"max_requests": 0}, "requests", 0),
    ],
)
def test_budgets(server: Server, tmp_path: Path, limit: dict[str, Any], name: str, asked: int) -> None:
    evaluator = LLMEvaluator(settings(server, concurrency=1, **limit), tmp_path / "c.sqlite")
    with pytest.raises(EvaluatorError, match=f"the limit of {name} is reached"):
        evaluator.judge(many({PERFECT: 5}))
    assert len(server.requests) == asked == len(evaluator.cache)


def test_progress_reports_the_running_cost(server: Server) -> None:
    seen: list[tuple[int, int, float]] = []
    evaluator = LLMEvaluator(
        settings(server, concurrency=1, price_in=10.0, price_out=50.0),
        progress=lambda done, total, usage: seen.append((done, total, round(usage.cost, 6))),
    )
    evaluator.judge(many({PERFECT: 3}))
    assert seen == [(0, 3, 0.0), (1, 3, 0.002), (2, 3, 0.004), (3, 3, 0.006)]
    assert evaluator.endpoint.usage == Usage(
        requests=3, tokens_in=300, tokens_out=60, cost=evaluator.endpoint.usage.cost
    )


def test_both_evaluators_record_the_same_calls(server: Server) -> None:
    trajectory = run(user("P00017?"), agent(call("get_parcel", {"parcel_id": "P00017"}, {"state": "waiting"})))
    from fresh.expg import RuleEvaluator

    (ruled,) = RuleEvaluator().evaluate([trajectory])
    (asked,) = LLMEvaluator(settings(server)).evaluate([trajectory])
    assert (ruled.key, ruled.invocation) == (asked.key, asked.invocation)
    assert ruled.judgement != asked.judgement


def test_it_works_inside_a_running_event_loop(server: Server) -> None:
    async def notebook() -> int:
        return len(LLMEvaluator(settings(server)).judge(many({PERFECT: 2})))

    assert asyncio.run(notebook()) == 2


def test_summaries_are_cleaned_shortened_and_cached(server: Server, tmp_path: Path) -> None:
    said = {
        "core_function": "Looks up P00003 for jo@mail.org.",
        "success_patterns": ["Gave P00001 in 3 of 4 calls."],
        "common_issues": [],
        "best_practices": "Give the id on 2024-05-15. " * 100,
    }
    server.behaviour = lambda h, b, n: h.say(json.dumps(said))
    found = many({PERFECT: 4})
    done = distil(found, LLMSummariser(settings(server), tmp_path / "c.sqlite"))
    advice = done.guidance["get_parcel"].advice
    assert advice.core_function == "Looks up <PARCEL_ID> for <EMAIL>."
    assert advice.success_patterns == ("Gave <PARCEL_ID> in 3 of 4 calls.",)
    assert len(advice.best_practices.split()) <= 200 and "2024" not in advice.best_practices
    assert distil(found, LLMSummariser(settings(server), tmp_path / "c.sqlite")) == done
    assert len(server.requests) == 1


def test_a_summary_that_never_fits_is_one_error(server: Server) -> None:
    server.behaviour = lambda h, b, n: h.say('{"core_function": ""}')
    with pytest.raises(EvaluatorError, match="core_function"):
        distil(many({PERFECT: 4}), LLMSummariser(settings(server)))


def test_cache_ignores_answers_that_no_longer_fit_and_refuses_other_files(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "c.sqlite")
    cache.put("h", "asker", Usage())
    assert cache.get("h", "asker", Verdict) is None
    assert cache.get("h", "asker", Usage) == Usage()
    cache.close()
    (tmp_path / "not.sqlite").write_bytes(b"something else entirely, long enough to be read" * 40)
    with pytest.raises(MemoryFileError, match="no usable answer cache"):
        AnswerCache(tmp_path / "not.sqlite")


def test_settings_do_not_show_the_key() -> None:
    assert "secret" not in repr(EndpointSettings(model="m", api_key="secret"))


def test_without_a_key_the_default_endpoint_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(EvaluatorError, match="no client"):
        ChatEndpoint(EndpointSettings(model="m")).client()


def test_budget_is_an_evaluator_error() -> None:
    assert issubclass(BudgetSpent, EvaluatorError)
