"""What is left out before selection: repeats, outdated experiences, and what did no good.

Experiences without a time cannot be ordered: they are never outdated and never fail the effectiveness check.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from pydantic import BaseModel

from fresh.expg.experience import Experience, canonical

LOOKAHEAD = 3
"""Timestamps that must all be worse for one to be dropped (arXiv 2608.03403, effectiveness check)."""


class FilterReport(BaseModel):
    """How many experiences each step left out."""

    given: int = 0
    repeats: int = 0
    outdated: int = 0
    ineffective: int = 0
    kept: int = 0


def filter_experiences(
    experiences: Iterable[Experience], *, max_age: float | None = None, effectiveness: bool = True
) -> tuple[list[Experience], FilterReport]:
    """Removes repeats by h, orders by time, drops the outdated and what failed the effectiveness check.

    Args:
        experiences: Experiences of one tool, in any order.
        max_age: Drop what is older than this before the newest experience, in the unit of their times.
        effectiveness: Apply the check. It has a meaning where runs were guided by what was learnt before them.
    """
    given = list(experiences)
    unique = drop_repeats(given)
    ordered = sorted(unique, key=_order)
    current = drop_outdated(ordered, max_age)
    kept = drop_ineffective(current) if effectiveness else current
    report = FilterReport(
        given=len(given),
        repeats=len(given) - len(unique),
        outdated=len(ordered) - len(current),
        ineffective=len(current) - len(kept),
        kept=len(kept),
    )
    return kept, report


def _order(experience: Experience) -> tuple[float, str, str, str]:
    m = experience.invocation
    return (float("-inf") if m.time is None else m.time, experience.key, m.run, m.call)


def drop_repeats(experiences: Iterable[Experience]) -> list[Experience]:
    """One experience for each h: the latest, ties by run and call id."""
    latest: dict[str, Experience] = {}
    for experience in experiences:
        known = latest.get(experience.key)
        if known is None or _order(experience) > _order(known):
            latest[experience.key] = experience
    return list(latest.values())


def drop_outdated(experiences: Sequence[Experience], max_age: float | None = None) -> list[Experience]:
    """Leaves out what a later experience replaces, what a changed schema overtook, and what is too old.

    Replaced: the same tool, context and input got another answer at a later time. Overtaken: the latest dated
    experience of the tool in its domain shows another parameter schema.
    """
    dated = [e for e in experiences if e.invocation.time is not None]
    if not dated:
        return list(experiences)
    newest = max(dated, key=_order)
    schemas = {e.invocation.domain: e.invocation.tool.parameters for e in sorted(dated, key=_order)}
    current = {domain: canonical(schema) for domain, schema in schemas.items()}
    answered: dict[str, float] = {}
    for experience in dated:
        question = _question(experience)
        answered[question] = max(answered.get(question, float("-inf")), _time(experience))
    oldest = float("-inf") if max_age is None else _time(newest) - max_age

    def holds(e: Experience) -> bool:
        m = e.invocation
        if m.time is None:
            return True
        same = m.tool.parameters == schemas[m.domain] or canonical(m.tool.parameters) == current[m.domain]
        return same and m.time >= oldest and m.time == answered[_question(e)]

    return [e for e in experiences if holds(e)]


def _time(experience: Experience) -> float:
    time = experience.invocation.time
    return float("-inf") if time is None else time


def _question(experience: Experience) -> str:
    m = experience.invocation
    given = m.raw_input if m.input is None else canonical(m.input)
    return f"{m.tool.name}\0{m.context_hash or m.context}\0{given}"


def drop_ineffective(experiences: Sequence[Experience]) -> list[Experience]:
    """The effectiveness check: drops a timestamp whose next three all have a lower mean score than its own.

    The mean score of a timestamp is that of all ten aspects of all its experiences. The last three timestamps
    cannot be checked and stay.
    """
    groups: dict[float, list[int]] = {}
    for experience in experiences:
        if experience.invocation.time is not None:
            groups.setdefault(experience.invocation.time, []).append(experience.total)
    times = sorted(groups)
    means = [Fraction(sum(groups[time]), len(groups[time])) for time in times]
    dropped = {
        times[i]
        for i in range(len(times) - LOOKAHEAD)
        if all(means[i + step] < means[i] for step in range(1, LOOKAHEAD + 1))
    }
    return [e for e in experiences if e.invocation.time not in dropped]
