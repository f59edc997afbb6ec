"""Values that look like one the run knows and are another.

Letters of another alphabet, full-width digits, invisible characters: a person who reads the call sees no difference,
the tool does.
"""

from __future__ import annotations

import unicodedata

from fresh.gate.checks import correction
from fresh.gate.context import Context
from fresh.gate.decision import Finding, Verdict
from fresh.values import argument_leaves

_LATIN = str.maketrans(
    "АВЕЅІЈКМНОРСТУХаеѕіјорсухԁһԛԝүΑΒΕΖΗΙΚΜΝΟΡΤΥΧονρα‐‑‒–—−",
    "ABESIJKMHOPCTYXaesijopcyxdhqwyABEZHIKMNOPTYXovpa------",
)
"""Cyrillic and Greek letters, and dashes, that common fonts draw as ASCII ones."""
_MAX_LENGTH = 200


def skeleton(text: str) -> str:
    """A text as it looks: compatibility forms resolved, look-alike letters in Latin, invisible characters left out."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", text).translate(_LATIN)
    return "".join(c for c in plain if unicodedata.category(c) != "Cf")


def check_lookalike(context: Context) -> Finding | None:
    """An argument that only looks like a value that the user gave or a result showed."""
    history = context.live.history
    for path, value in argument_leaves(context.arguments):
        if not isinstance(value, str) or value.isascii() or len(value) > _MAX_LENGTH:
            continue
        meant = skeleton(value)
        if meant == value or history.said(value) or history.origin(meant).kind == "nowhere":
            continue
        text = f"write {path} as it was given, {meant}: its characters only look the same"
        return Finding(
            check="lookalike",
            verdict=Verdict.REVISE,
            reason=f"{path} looks like {meant} but is written with other characters",
            todo=(correction(context, path, value, (meant,), text),),
        )
    return None
