"""Keeps what belongs to one customer or one run out of guidance.

Guidance is read by an agent that serves somebody else. So argument values become placeholders, and the only values
shown are those of small enumerations: listed in the tool's own schema, or given in several tasks and unlike an
identifier, a name, a number or a date.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from fresh.expg.experience import Experience
from fresh.expg.observed import is_date, is_identifier, leaves, scalars, words
from graph_schema.trajectory import ToolSpec

MIN_TASKS = 3
"""Tasks that must have given a value before it counts as common."""
MAX_VALUES = 12
"""A parameter with more different values is no enumeration."""
ENUMERATION_SHARE = 0.8
"""Share of a parameter's uses that its common values must cover for it to be one."""
MAX_VALUE_CHARACTERS = 40
MESSAGE_CHARACTERS = 120
"""Longest piece of a tool's own text that guidance quotes."""
_LONGEST_NAME = 6  # words of the longest private value looked for in a text

_COUNTS = r"\b\d+ of \d+\b|\b\d+ (?:calls?|times|runs|tasks|words|experiences|successes|failures)\b"
_MASKS: tuple[tuple[str, str], ...] = (
    (r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", "<EMAIL>"),
    (r"\b(?:https?|ftp)://\S+|\bwww\.\S+", "<URL>"),
    (r"\b\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}:\d{2}(?::\d{2})?\S*)?|\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b", "<DATE>"),
    (
        r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d{1,2}(?:st|nd|rd|th)?(?:,? \d{4})?\b",
        "<DATE>",
    ),
    (r"[$€£¥]\s?\d[\d,]*(?:\.\d+)?|\b\d[\d,]*(?:\.\d+)?\s?(?:USD|EUR|GBP|dollars|euros)\b", "<AMOUNT>"),
    (r"\+?\d[\d ()-]{6,}\d", "<NUMBER>"),
    (r"#?\b(?=[\w.-]*\d)(?=[\w.-]*[A-Za-z])[A-Za-z0-9][\w.-]*[A-Za-z0-9]\b", "<ID>"),
    (r"[-+]?\b\d[\d,]*(?:\.\d+)?\b%?", "<NUMBER>"),
)
_MASK = re.compile(
    "|".join([f"(?P<keep>{_COUNTS}|<[A-Z_]+>)", *(f"(?P<m{i}>{p})" for i, (p, _) in enumerate(_MASKS))]),
    re.IGNORECASE,
)
_QUOTED = re.compile(r"'[^'\n]{1,200}'(?!\w)|\"[^\"\n]{1,200}\"|`[^`\n]{1,200}`")
_PROPER = re.compile(r"\b[A-Z][a-z]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]+")


def placeholder(name: str) -> str:
    """``order_id`` becomes ``<ORDER_ID>``."""
    return f"<{re.sub(r'[^A-Z0-9]+', '_', name.upper()).strip('_') or 'VALUE'}>"


def mask(text: str, keep: Iterable[str] = ()) -> str:
    """Replaces e-mails, addresses, dates, amounts, identifiers and numbers; counts such as ``3 of 7`` stay.

    Args:
        text: Any text.
        keep: Words that stay whatever they look like: names of tools and parameters.
    """
    kept = set(keep)

    def replace(found: re.Match[str]) -> str:
        kind = found.lastgroup or ""
        if kind == "keep" or found.group() in kept:
            return found.group()
        return _MASKS[int(kind[1:])][1]

    return _MASK.sub(replace, text)


def private_value(value: Any) -> bool:
    """A value that may belong to one person or one run: identifier, name, number, date, or anything long."""
    if isinstance(value, bool) or value is None:
        return False
    if not isinstance(value, str):
        return True
    text = value.strip()
    if len(text) > MAX_VALUE_CHARACTERS or "@" in text or is_date(text) or is_identifier(text):
        return True
    return any(c.isdigit() for c in text) or _PROPER.search(text) is not None


def _common_value(value: Any) -> bool:
    return isinstance(value, str) and value != "" and not private_value(value)


class Scrubber:
    """Knows the values in the experiences of one tool, and which of them may be shown."""

    def __init__(self, spec: ToolSpec, experiences: Sequence[Experience]) -> None:
        self.names = frozenset({spec.name, *spec.parameters.get("properties", {})})
        self._enumerated = _schema_enums(spec)
        tasks: dict[str, dict[Any, set[str]]] = defaultdict(lambda: defaultdict(set))
        for experience in experiences:
            m = experience.invocation
            for name, value in leaves(m.input or {}):
                tasks[name][value].add(m.task or m.run)
        self.allowed: dict[str, frozenset[str]] = {name: self._common(name, seen) for name, seen in tasks.items()}
        self._shown = frozenset(value for values in self.allowed.values() for value in values)
        self._experiences = experiences
        self._private: dict[tuple[str, ...], str] | None = None

    def _common(self, name: str, seen: dict[Any, set[str]]) -> frozenset[str]:
        listed = self._enumerated.get(name, frozenset())
        common = {v for v, tasks in seen.items() if _common_value(v) and len(tasks) >= MIN_TASKS}
        covered = sum(len(seen[v]) for v in common)
        if len(seen) > MAX_VALUES or covered < ENUMERATION_SHARE * sum(map(len, seen.values())):
            common = set()
        return frozenset(value for value in seen if value in common or (isinstance(value, str) and value in listed))

    def show(self, name: str, value: Any) -> str:
        """An argument as guidance may show it."""
        if isinstance(value, dict | list):
            return f"[{placeholder(name)}, ...]" if isinstance(value, list) else f"{{{placeholder(name)}}}"
        if value is None or isinstance(value, bool):
            return {None: "null", True: "true", False: "false"}[value]
        if isinstance(value, str) and value in self.allowed.get(name, frozenset()):
            return f'"{value}"'
        return placeholder(name)

    def message(self, experience: Experience) -> str:
        """A tool's own message as a short template: the call's values, quotes, ids and numbers replaced."""
        text = _CONTROL.sub(" ", _message_text(experience.invocation.response)).strip()
        given = [
            (name, value)
            for name, value in leaves(experience.invocation.input or {}, innermost=True)
            if isinstance(value, str) and len(value) >= 3 and value not in self._shown and value not in self.names
        ]
        for name, value in sorted(given, key=lambda item: -len(item[1])):
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", placeholder(name), text)
        text = _QUOTED.sub(self._quoted, text)
        text = " ".join(mask(text, self.names).replace('"', "'").replace("`", "'").split())
        return text if len(text) <= MESSAGE_CHARACTERS else text[: MESSAGE_CHARACTERS - 3].rstrip() + "..."

    def _quoted(self, found: re.Match[str]) -> str:
        inner = found.group()[1:-1]
        return inner if inner in self.names or re.fullmatch(r"<[A-Z0-9_]+>", inner) else "<VALUE>"

    def clean(self, text: str) -> str:
        """A text written by a model: values of the experiences that may not be shown are replaced."""
        private = self._private_values()
        pieces = [(m.start(), m.end(), m.group().lower()) for m in re.finditer(r"[^\W_]+(?:[_.@#+:/-]+[^\W_]+)*", text)]
        out: list[str] = []
        position = index = 0
        while index < len(pieces):
            for size in range(min(_LONGEST_NAME, len(pieces) - index), 0, -1):
                run = pieces[index : index + size]
                name = private.get(tuple(word for _, _, word in run))
                if name is not None:
                    out.extend((text[position : run[0][0]], name))
                    position = run[-1][1]
                    index += size
                    break
            else:
                index += 1
        out.append(text[position:])
        return mask(_CONTROL.sub(" ", "".join(out)), self.names)

    def _private_values(self) -> dict[tuple[str, ...], str]:
        if self._private is None:
            self._private = self._collect()
        return self._private

    def _collect(self) -> dict[tuple[str, ...], str]:
        shown = {tuple(words(value)) for value in self._shown}
        known = {tuple(words(name)) for name in self.names}
        named: dict[tuple[str, ...], str] = {}
        for experience in self._experiences:
            m = experience.invocation
            for name, value in leaves(m.input or {}):
                parts = tuple(words(str(value))) if isinstance(value, str) else ()
                if 0 < len(parts) <= _LONGEST_NAME and len(str(value)) >= 3:
                    named[parts] = placeholder(name)
            for name, value in scalars(m.response):
                parts = tuple(words(value)) if isinstance(value, str) else ()
                if 0 < len(parts) <= _LONGEST_NAME and private_value(value):
                    named.setdefault(parts, placeholder(name))
        return {parts: name for parts, name in named.items() if parts not in shown and parts not in known}


def _schema_enums(spec: ToolSpec) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    properties = spec.parameters.get("properties")
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        if not isinstance(schema, dict):
            continue
        members = schema.get("enum") or (schema.get("items") or {}).get("enum") or ()
        found[name] = frozenset(member for member in members if isinstance(member, str))
    return found


def _message_text(response: str) -> str:
    """The words of an error: of an object its strings, else the first line that says something."""
    found = scalars(response) if response.lstrip()[:1] in {"{", "["} else []
    strings = [value for _, value in found if isinstance(value, str)]
    if strings:
        return "; ".join(strings)
    return next((line for line in response.splitlines() if line.strip()), "")
