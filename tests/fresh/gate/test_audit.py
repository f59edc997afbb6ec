from __future__ import annotations

import json
import logging
import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from memory_shop import TOOLS, Chat, call, make_graph

from fresh.gate import AuditLog, Decision, Gate, GateSettings
from fresh.gate.audit import audit_record
from fresh.knowledge import ToolIndex
from fresh.live import LiveParser, live_call

GRAPH = make_graph()
CANCEL = {"order_id": "#W111", "reason": "mistake"}


def decide(proposed: Any, log: AuditLog | None = None, mode: Any = "enforce") -> Decision:
    parser = LiveParser()
    gate = Gate(ToolIndex(GRAPH), GateSettings(mode=mode), audit=log)
    return gate.decide(live_call(proposed), parser.history(Chat().messages), parser.tools(TOOLS))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_decision_is_one_line(tmp_path: Path):
    log = AuditLog(tmp_path / "deep" / "audit.jsonl")
    decide(call("cancel_order", CANCEL), log)
    decide(call("cancel_order", "{broken"), log)
    decide(call("cancel_order", CANCEL), log, mode="advise")
    first, second, third = lines(log.path)
    assert (first["tool"], first["verdict"], first["mode"], first["advised"]) == (
        "cancel_order",
        "revise",
        "enforce",
        None,
    )
    assert first["arguments"] == CANCEL and first["time"].endswith("+00:00")
    assert first["findings"][0]["check"] == "read_before" and first["todo"][0]["tool"] == "get_order"
    assert {guard["state"] for guard in first["guards"]} == {"violated", "unknown", "satisfied"}
    assert second["arguments"] is None and "not JSON" in second["parse_error"]
    assert third["verdict"] == "allow" and third["advised"] == "revise"


def test_a_gate_that_is_off_writes_nothing(tmp_path: Path):
    decide(call("cancel_order", CANCEL), AuditLog(tmp_path / "a.jsonl"), mode="off")
    assert not (tmp_path / "a.jsonl").exists()


SECRETS = {
    "password": "hunter2!",
    "apiKey": "plain-word",
    "note": "my password is sesame9 and the key sk-abcdefgh12345678",
    "nested": {"auth": {"token": "T0pS3cret"}, "list": ["ghp_abcdefghijklmnop1234"]},
    "hash": "9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c",
}


def test_no_secret_is_in_it():
    text = json.dumps(audit_record(decide(("cancel_order", CANCEL | SECRETS))))
    for secret in ("hunter2", "plain-word", "sesame9", "sk-abcdefgh", "T0pS3cret", "ghp_abc", "9f8a7b6c"):
        assert secret not in text
    assert "#W111" in text


def test_a_secret_in_a_reason_is_hidden_too():
    decision = decide(call("cancel_order", CANCEL | {"password": "hunter2!"}))
    spoken = decision.model_copy(update={"reason": "the value hunter2! is wrong"})
    assert audit_record(spoken)["reason"] == "the value <SECRET> is wrong"


def test_lines_are_bounded_whatever_the_arguments():
    wide: dict[str, Any] = {"order_id": "x" * 2_000_000, "list": list(range(10**5)), "n": 10**300}
    value: Any = "end"
    for _ in range(100):
        value = {"deeper": value}
    wide["deep"] = value
    assert len(json.dumps(audit_record(decide(("cancel_order", wide))))) < 50_000


def _write_many(path: Path, decision: Decision, count: int) -> None:
    log = AuditLog(path)
    for _ in range(count):
        log.write(decision)


def test_threads_and_processes_write_whole_lines(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    decision = decide(call("cancel_order", CANCEL))
    context = multiprocessing.get_context("fork")
    workers: list[Any] = [context.Process(target=_write_many, args=(path, decision, 100)) for _ in range(2)]
    workers += [threading.Thread(target=_write_many, args=(path, decision, 100)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [line["tool"] for line in lines(path)] == ["cancel_order"] * 500


def test_what_cannot_be_written_stops_nobody_and_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    log = AuditLog(tmp_path)  # a folder
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            decide(call("cancel_order", CANCEL), log)
    assert log.lost == 3 and len(caplog.records) == 1 and str(tmp_path) in caplog.text


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_only_the_owner_may_read_it(tmp_path: Path):
    log = AuditLog(tmp_path / "a.jsonl")
    decide(call("cancel_order", CANCEL), log)
    assert log.path.stat().st_mode & 0o077 == 0
