"""A log of decisions, one JSON object a line, without secrets."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from fresh.gate.decision import Decision
from fresh.redact import hide_secrets, is_random, is_secret_name
from fresh.values import argument_leaves

_LOG = logging.getLogger(__name__)
_MAX_TEXT = 500
_MAX_ITEMS = 50
_MAX_DEPTH = 8
_SECRET = "<SECRET>"


class AuditLog:
    """Appends decisions to a file.

    Several threads and processes may write to one file: each line is one write to a file opened for appending, which
    the system does not interleave on a local disk. The file is opened anew for each line, so that it may be moved away
    at any time. Nothing is raised into the agent: what cannot be written is counted, and reported once through
    ``logging``.

    Args:
        path: The file; its folder is made if need be.

    Attributes:
        lost: Decisions that could not be written.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.lost = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def write(self, decision: Decision) -> None:
        """Appends one decision."""
        try:
            self._append(orjson.dumps(audit_record(decision), default=str) + b"\n")
        except Exception as error:  # an audit that stops the agent would do more harm than a line that is missing
            self.lost += 1
            if self.lost == 1:
                _LOG.warning("the audit log %s cannot be written: %s", self.path, error)

    def _append(self, line: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, flags, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def audit_record(decision: Decision) -> dict[str, Any]:
    """A decision as plain values with every secret replaced and every text cut to a bounded length."""
    call = decision.call
    secrets = _secret_values(call.arguments)
    return {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "mode": decision.mode,
        "verdict": decision.verdict.value,
        "advised": decision.advised.value if decision.advised is not None else None,
        "tool": call.tool,
        "call_id": call.recorded_id or call.id,
        "arguments": _clean(call.arguments, "", secrets) if call.arguments is not None else None,
        "parse_error": _text(call.parse_error, secrets) if call.parse_error else None,
        "reason": _text(decision.reason, secrets),
        "answered": decision.answer is not None,
        "todo": [{"kind": todo.kind, "tool": todo.tool, "argument": todo.argument} for todo in decision.todo],
        "findings": [
            {
                "check": finding.check,
                "verdict": finding.verdict.value,
                "reason": _text(finding.reason, secrets),
                "node": finding.node,
                "policy": finding.policy or None,
            }
            for finding in decision.findings
        ],
        "guards": [
            {
                "check": guard.check,
                "state": guard.state.value,
                "text": guard.text,
                "node": guard.node,
                "policy": guard.policy or None,
            }
            for guard in decision.guards
        ],
    }


def _secret_values(arguments: dict[str, Any] | None) -> list[str]:
    """Values whose names say that they are secrets, longest first, to be found again inside sentences."""
    found = {str(value) for path, value in argument_leaves(arguments) if is_secret_name(path) and value is not None}
    return sorted((value for value in found if len(value) > 2), key=len, reverse=True)


def _clean(value: Any, path: str, secrets: list[str], depth: int = 0) -> Any:
    if path and is_secret_name(path) and not isinstance(value, dict | list):
        return _SECRET if value is not None else None
    if depth > _MAX_DEPTH:
        return "..."
    if isinstance(value, dict):
        items = list(value.items())[:_MAX_ITEMS]
        return {
            _text(str(k), secrets): _clean(v, f"{path}.{k}" if path else str(k), secrets, depth + 1) for k, v in items
        }
    if isinstance(value, list):
        return [_clean(item, path, secrets, depth + 1) for item in value[:_MAX_ITEMS]]
    if isinstance(value, str):
        return _text(value, secrets)
    return value if not isinstance(value, int) or abs(value) < 2**63 else str(value)[:_MAX_TEXT]


def _text(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, _SECRET)
    text = hide_secrets(text[: 4 * _MAX_TEXT], spoken=True)
    words = [_SECRET if is_random(word.strip("\"'.,;:()")) else word for word in text.split(" ")]
    text = " ".join(words)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."
