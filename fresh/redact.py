"""Keeps the particulars of old runs out of what is shown: identifiers, secrets, amounts, dates.

Mining already stores patterns instead of values. This is the second lock: every line made from memory passes it, and
what it does not know from the live history or from the tools' own descriptions is replaced by a placeholder that tells
its kind. It cannot be undone, for nothing is kept.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable

from fresh.values import is_identifier

_PLACEHOLDER = re.compile(r"<[A-Z][A-Z0-9_ ]*>")
_SECRET_FIELD = re.compile(
    r"(?i)\b((?:api|access|secret|private|auth)?[_\s-]?(?:key|token|secret|password|passwd|pwd|credential|bearer|pin|cvv)"
    r"s?\s*(?:[:=]|is|was)\s*['\"]?)([^\s'\",;]{3,})"
)
_SECRET = re.compile(
    r"\b(?:sk|pk|rk)[-_][\w-]{8,}|\bgh[pousr]_\w{10,}|\bxox[abp]-[\w-]{8,}|\bAKIA[0-9A-Z]{12,}|\beyJ[\w-]{8,}(?:\.[\w-]+)*"
)
_TOLD_SECRET = re.compile(
    r"(?i)\b((?:pass(?:word|wd|phrase|code)|pwd|secret|credential|(?:api|access|secret|private|auth)[_\s-]?(?:key|token))s?"
    r"['\"]?\s*[:=]\s*['\"]?)([^\s'\",;<]{3,})"
)
"""As `_SECRET_FIELD`, but certain enough for texts of machines, which say "key: value" of much that is no secret."""
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{12,}")
_SECRET_NAMES = frozenset(
    {"password", "passwd", "passphrase", "passcode", "pwd", "pin", "cvv", "secret", "token"}
    | {"credential", "credentials", "auth", "authorization"}
)
_KEY_NAME = re.compile(r"(?:api|access|secret|private|auth)_?key")
_WORD_BREAK = re.compile(r"[_\W]+|(?<=[a-z0-9])(?=[A-Z])")
_URL = re.compile(r"https?://\S+")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?|\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b")
_AMOUNT = re.compile(r"[$€£]\s?\d[\d,]*(?:\.\d+)?|\b\d[\d,]*\.\d{2}\b")
_NUMBER = re.compile(r"(?<![\w<.])\d{3,}(?:[.,]\d+)*\b")
_TOKEN = re.compile(r"#?[A-Za-z0-9][\w.@:#/+-]*\w", re.ASCII)
_RANDOM_LENGTH = 20
_RANDOM_BITS = 3.5
"""Entropy of a character in a token, from which on a long one is taken for a key: English words lie below 3."""


class Redactor:
    """Replaces particulars that are not among what may be shown.

    Args:
        shown: Texts whose words may be shown: the live history, the tools' descriptions. Called only if needed.
        names: Names that may always be shown: tools, say.

    Attributes:
        replaced: How often each kind of placeholder was put in.
    """

    def __init__(self, shown: Callable[[], Iterable[str]] = tuple, names: Container[str] = ()) -> None:
        self._shown = shown
        self._text: str | None = None
        self._names = names
        self.replaced: Counter[str] = Counter()

    def clean(self, text: str) -> str:
        """The text on one line, with every unknown particular replaced by its kind."""
        text = " ".join(text.split())
        text = _SECRET_FIELD.sub(lambda m: m[1] + self._keep(m[2], "SECRET"), text)
        for pattern, kind in (
            (_SECRET, "SECRET"),
            (_URL, "URL"),
            (_EMAIL, "EMAIL"),
            (_DATE, "DATE"),
            (_AMOUNT, "AMOUNT"),
        ):
            text = pattern.sub(lambda m, kind=kind: self._keep(m[0], kind), text)  # type: ignore[misc]
        text = _outside_placeholders(text, lambda part: _TOKEN.sub(self._token, part))
        return _outside_placeholders(text, lambda part: _NUMBER.sub(lambda m: self._keep(m[0], "NUMBER"), part))

    def _token(self, match: re.Match[str]) -> str:
        token = match[0]
        if is_random(token):
            return self._keep(token, "SECRET")
        if not is_identifier(token) or self._is_known_path(token):
            return token
        return self._keep(token, "ID")

    def _is_known_path(self, token: str) -> bool:
        """Whether a token is a path such as ``address.line1`` whose names are all plain words or known."""
        names = token.split(".")
        return len(names) > 1 and all(not is_identifier(name) or self._allowed(name) for name in names)

    def _keep(self, token: str, kind: str) -> str:
        if _PLACEHOLDER.fullmatch(token) or self._allowed(token):
            return token
        self.replaced[kind] += 1
        return f"<{kind}>"

    def _allowed(self, token: str) -> bool:
        if token in self._names:
            return True
        lowered = token.lower()
        if self._text is None:
            self._text = "\n".join(self._shown()).lower()
        start = self._text.find(lowered)
        while start >= 0:
            end = start + len(lowered)
            before = self._text[start - 1] if start else " "
            after = self._text[end] if end < len(self._text) else " "
            if not (before.isalnum() or after.isalnum()):
                return True
            start = self._text.find(lowered, start + 1)
        return False


def _outside_placeholders(text: str, change: Callable[[str], str]) -> str:
    pieces, position = [], 0
    for match in _PLACEHOLDER.finditer(text):
        pieces += [change(text[position : match.start()]), match[0]]
        position = match.end()
    return "".join([*pieces, change(text[position:])])


def is_random(token: str) -> bool:
    """Whether a token looks drawn at random, as keys and hashes are: long, mixed, and of high entropy."""
    if len(token) < _RANDOM_LENGTH or "_" in token or not re.search(r"\d", token) or not re.search(r"[A-Za-z]", token):
        return False
    counts = Counter(token)
    entropy = -sum(n / len(token) * math.log2(n / len(token)) for n in counts.values())
    return entropy >= _RANDOM_BITS


def is_secret_name(path: str) -> bool:
    """Whether a field's name says that its value is a secret, whatever the value looks like."""
    words = _WORD_BREAK.sub("_", path).lower()
    return bool(_SECRET_NAMES & set(words.split("_"))) or _KEY_NAME.search(words) is not None


def hide_secrets(text: str, *, spoken: bool = False) -> str:
    """A text with keys and passwords replaced, where the text itself says that they are some.

    Args:
        text: Any text.
        spoken: A person wrote it, who also says "my password is"; a machine says so of states ("token is invalid").
    """
    text = (_SECRET_FIELD if spoken else _TOLD_SECRET).sub(r"\1<SECRET>", text)
    return _SECRET.sub("<SECRET>", _BEARER.sub(r"\1 <SECRET>", text))
