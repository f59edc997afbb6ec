"""Recalled runs as examples for a prompt, within a budget and without anyone's particulars."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from fresh.redact import Redactor
from fresh.seer.experience import Experience
from fresh.seer.pool import Exemplar

HEADER = "Runs that succeeded on similar requests; words in angle brackets stand for values of your own case:"
_CUT = "..."


def exemplar_text(exemplars: Sequence[Exemplar], budget: int) -> str:
    """Writes recalled runs as examples, the best first, as many as the budget holds.

    An example is the request and the calls that worked, in order; a call made several times in a row is written once.
    The first example that does not fit is cut after the steps that do, and is the last; one without room for its
    request and a step is left out.

    Args:
        exemplars: From `fresh.seer.pool.ExperiencePool.recall`.
        budget: Most tokens of the text, by `fresh.guidance.estimate_tokens`.

    Returns:
        The text; empty if there is nothing to show or no room for it.
    """
    from fresh.guidance.lines import estimate_tokens

    text = HEADER
    for number, exemplar in enumerate(exemplars, start=1):
        lines = _lines(number, exemplar.experience)
        whole = "\n".join([text, *lines])
        if estimate_tokens(whole) <= budget:
            text = whole
            continue
        shortened = ("\n".join([text, *lines[:end], _CUT]) for end in range(len(lines) - 1, 1, -1))
        text = next((short for short in shortened if estimate_tokens(short) <= budget), text)
        break
    return text if text is not HEADER else ""


def _lines(number: int, experience: Experience) -> list[str]:
    redactor = Redactor(names={name for step in experience.steps for name in (step.tool, *step.arguments)})
    lines = [redactor.clean(f"Example {number}: {experience.request}")]
    steps = [step for step, _ in groupby(step.text for step in experience.steps)]
    return lines + [redactor.clean(f"{position}. {step}") for position, step in enumerate(steps, start=1)]
