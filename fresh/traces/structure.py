"""What an observation's text holds: a structured value, an error, or a cut.

Tools answer in text. Most of that text is JSON, the ``repr`` of a Python value, or YAML; mining asks for the value
behind it again and again, so the answer is cached by text.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import Any, ClassVar

import yaml

from fresh.traces.clean import loads

MAX_CHARACTERS = 200_000
"""Longer texts are not parsed: the value would cost more than mining can use of it."""

_YAML_LINE = re.compile(r"(?:- )?(?:[A-Za-z_][\w.-]*|'[^'\n]*'|\"[^\"\n]*\"):(?: |$)")
_YAML_ITEM = re.compile(r"- \S")
_YAML_ALIAS = re.compile(r"(?:^|[\s\[,{:-])[&*][A-Za-z]")

_ERROR_START = re.compile(
    r"""\s*(?:
        \[?(?:tool|call|api|http|execution|runtime)?[\s_-]?error\b(?![\s-]+(?:rate|log|code|free|budget)s?\b)
      | (?:an?\s)(?:\w+\s)?(?:error|exception)\s(?:has\s)?occur
      | \w*(?:Error|Exception)\b\s*[:(]
      | traceback\s\(most\srecent
      | invalid\b
      | (?:failed|unable)\sto\b
      | failure:
      | (?:can\s?not|could\snot|couldn't)\s
      | (?:permission|access)\sdenied
      | (?:unauthorized|forbidden)\b
      | (?:unknown|unsupported|missing|no\ssuch)\s(?:\w+\s)?(?:tool|function|argument|parameter|field|command|file)\b
      | (?:http\s)?(?:status\s(?:code\s)?)?[45]\d\d\s(?:not\sfound|bad\srequest|unauthorized|forbidden|internal|service)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_ERROR_WITHIN = re.compile(
    r"\b(?:not found|(?:does|do|did) not exist|doesn't exist|is (?:invalid|not valid|not available|not allowed)"
    r"|no such \w+|(?:is|are) required|already exists)\b",
    re.IGNORECASE,
)
_SHORT = 160
_TRUNCATED = re.compile(r"(?:[\[(<]|\.\.\.|…)\s*(?:output |text |content |\d[\d,]* \w+ )?truncated\b", re.IGNORECASE)


class _PlainLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML whose scalars are JSON's: no dates, no ``yes``, no numbers to base sixty."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}


for _tag, _pattern, _first in (
    ("null", r"(?:null|~|)$", ["n", "~", ""]),
    ("bool", r"(?:true|false|True|False)$", list("tfTF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)$", list("-+0123456789")),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$", list("-+0123456789.")),
):
    _PlainLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)


@lru_cache(maxsize=4096)
def parse_observation(text: str) -> Any | None:
    """The mapping or list that an observation's text writes down.

    Args:
        text: The observation as recorded.

    Returns:
        A dict or a list of plain JSON values, or None when the text is prose, a bare scalar, or longer than
        :data:`MAX_CHARACTERS`. The value is shared between callers: do not change it.
    """
    if len(text) > MAX_CHARACTERS:
        return None
    stripped = text.strip()
    if not stripped:
        return None
    if stripped[0] in "{[":
        return _bracketed(stripped)
    return _yaml(stripped) if _looks_like_yaml(stripped) else None


@lru_cache(maxsize=8192)
def looks_like_error(text: str) -> bool:
    """Whether an observation that nobody flagged reports a failure all the same.

    Precision comes first: text that merely mentions an error (a listed email, a log) does not count. A text counts if
    it begins as error messages do, if it is a short sentence saying that something is missing or not allowed, or if it
    is an object whose ``error`` is set or whose ``success``, ``ok`` or ``status`` denies success.
    """
    start = text[:400].lstrip()
    if not start:
        return False
    if start[0] == "{":
        value = parse_observation(text)
        return isinstance(value, dict) and _object_reports_error(value)
    if start[0] == "-":
        return False
    if _ERROR_START.match(start):
        return True
    short = len(text) <= _SHORT and "\n" not in text.strip()
    return short and _ERROR_WITHIN.search(start) is not None


def looks_truncated(text: str) -> bool:
    """Whether the recorder says at the end of the text that it cut it."""
    return _TRUNCATED.search(text, max(0, len(text) - 80)) is not None


def _object_reports_error(value: dict[str, Any]) -> bool:
    for key in ("error", "errors", "Error"):
        if value.get(key) and not isinstance(value[key], int | float):
            return True
    if value.get("error") is True or value.get("isError") is True or value.get("is_error") is True:
        return True
    if value.get("success") is False or value.get("ok") is False:
        return True
    status = value.get("status")
    return isinstance(status, str) and status.lower() in ("error", "failed", "failure") and len(value) <= 4


def _bracketed(text: str) -> Any | None:
    try:
        value = loads(text)
    except ValueError:
        value = _literal(text)
    return value if isinstance(value, dict | list) else None


def _literal(text: str) -> Any | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    return _plain(value) if isinstance(value, dict | list) else None


def _plain(value: Any) -> Any:
    """A Python literal as JSON would have it: tuples and sets are lists, keys are text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=repr)
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _looks_like_yaml(text: str) -> bool:
    """Whether every unindented line is a key or a list item, as in a dumped value and unlike prose."""
    first, _, rest = text.partition("\n")
    if not (_YAML_LINE.match(first) or (_YAML_ITEM.match(first) and rest)):
        return False
    if not rest and not first.startswith("- ") and first.count(" ") > 3:
        return False  # one line, many words: a sentence with a colon
    listing = first.startswith("- ")
    for line in rest.split("\n"):
        if not line or line[0] in " \t":
            continue
        if not (line.startswith("- ") or (not listing and _YAML_LINE.match(line))):
            return False
    return _YAML_ALIAS.search(text) is None  # aliases can make a small text an enormous value


def _yaml(text: str) -> Any | None:
    try:
        value = yaml.load(text, Loader=_PlainLoader)  # a subclass of the safe loader
    except (yaml.YAMLError, RecursionError, ValueError, TypeError):
        return None
    return value if isinstance(value, dict | list) else None
