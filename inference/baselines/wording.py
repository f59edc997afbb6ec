"""How the memories of this package put things: the same words for the same thing, whoever remembers it.

One statement a line. A call is written ``tool(argument=<ARGUMENT>)``; what failed, ``tool(...) fails with "message"``;
what must come first, ``before tool: call other``; what not to do, ``Avoid: ...``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from fresh.guidance import estimate_tokens
from fresh.guidance.write import quoted, repair_words
from fresh.knowledge import KnownRepair
from fresh.mining.repairs import Fix
from fresh.redact import Redactor
from graph_schema.trajectory import Outcome
from inference.baselines.base import Advice
from inference.baselines.recorded import Recorded, Step

HEADER = "Notes from earlier runs:"
ENDED = {Outcome.SUCCESS: "succeeded", Outcome.FAILURE: "failed", Outcome.UNKNOWN: "ended unjudged"}
_REQUEST_CHARACTERS = 110
_MAX_FIELDS = 6
_ARGUMENT = re.compile(r"[(\s,]([\w.\[\]{}-]+)=<")

Statement = str | tuple[str, ...]
"""One line, or the same thing in fewer and fewer words, of which the first that fits is taken."""


class Writer:
    """Puts lines together within a budget, and lets no particular of an old run through.

    Args:
        names: Names that may be shown although they look like identifiers: of tools and their arguments.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self._clean = lru_cache(maxsize=8192)(Redactor(names=names).clean)

    @classmethod
    def of(cls, runs: Iterable[Recorded]) -> Writer:
        """A writer that knows the names in some runs."""
        names: set[str] = set()
        patterns: set[str] = set()
        for run in runs:
            names.update(spec.name for spec in run.run.tools or ())
            names.update(step.tool for step in run.steps)
            patterns.update(step.pattern for step in run.steps)
        for pattern in patterns:
            names.update(_ARGUMENT.findall(pattern))
        return cls(frozenset(names))

    def clean(self, text: str) -> str:
        """A text on one line, every particular replaced."""
        return self._clean(text)

    def advice(self, statements: Iterable[Statement], budget: int) -> Advice:
        """The statements that fit, in order, each once; nothing at all where not even one fits.

        Args:
            statements: What to say, the most important first.
            budget: Most tokens of the whole text, header included.
        """
        lines = [HEADER]
        used = len(HEADER.encode())
        for statement in statements:
            for text in (statement,) if isinstance(statement, str) else statement:
                line = self.clean(text)
                if not line or line in lines:
                    break
                length = used + 1 + len(line.encode())
                if -(-length // 3) <= budget:
                    lines.append(line)
                    used = length
                    break
        text = "\n".join(lines)
        return Advice(text) if len(lines) > 1 and estimate_tokens(text) <= budget else Advice()


def head(text: str, characters: int = _REQUEST_CHARACTERS) -> str:
    """The beginning of a text, cut after a whole word, to be put between double quotes."""
    text = text.replace('"', "'")
    return text if len(text) <= characters else text[:characters].rsplit(" ", 1)[0] + " …"


def step_line(step: Step, *, results: bool = False) -> tuple[str, ...]:
    """A step, with the fields of its result if asked; what failed is said to fail."""
    if step.failed:
        said = f'fails with "{quoted(step.failed)}"'
        return (f"- {step.pattern} {said}", f"- {step.tool} {said}")
    if results and step.fields and step.fields != ("text",):
        shown = ", ".join(step.fields[:_MAX_FIELDS])
        return (f"- {step.pattern} returns {shown}", f"- {step.pattern}", f"- {step.tool}")
    return (f"- {step.pattern}", f"- {step.tool}")


def failure_line(tool: str, message: str, then: str = "") -> str:
    """How a tool fails, and what to do then."""
    return f'{tool} fails with "{quoted(message)}"' + (f"; then {then}" if then else "")


def chain(steps: Iterable[Step]) -> str:
    """Tools of some steps in order, ``find_order -> cancel_order``."""
    return " -> ".join(step.tool for step in steps)


def steps_after_each_other(steps: Sequence[Step]) -> list[tuple[str, ...]]:
    """Steps as lines, each call's form once: a look-up of five orders is one line."""
    return list(dict.fromkeys(step_line(step) for step in steps))


def fix_words(tool: str, fix: Fix) -> str:
    """What has resolved an error, as an order."""
    return repair_words(tool, KnownRepair(-1, str(fix.kind), fix.arguments, fix.tool, 1))
