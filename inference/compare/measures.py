"""What text advice is held to, decision point by decision point, and the sums that means are made of.

*Next tool.* At each decision point with something right still to do, the set of recommended tools R against the tools N
of the right actions still to come: precision |R & N| / |R| (0 where nothing is recommended), recall |R & N| / |N|, F1
their harmonic mean. Mean over a task's points, then over tasks.

*Foreseen failure.* The first failure of each tool and kind in a run is foreseen if a warning at a decision point
before it, or right before it, names the tool and the kind. A kind is named by at least half of the content words of
the error's normalised message, and by two of them where it has two (`matches`). A warning, counted once a run however
often it is repeated, is borne out if the run goes on to show such a failure; one that names no failure (a condition,
*never call X*) is borne out by any later failure of the tool and by any later write of it that was not right. One
that says only what the history already shows counts neither way, all others are false. Recall is the share of
failures foreseen, precision the share of warnings borne out; every task weighs the same, through its counts a run.

*Harm.* The share of decision points whose advice recommends the very action that the run goes on to fail at, before it
has failed at it: the same tool, and no argument named that the failing call did not have. Values are not compared.
Mean over a task's points, then over tasks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from inference.compare.points import Failure, HeldOut, Point
from inference.compare.reading import Reading, RecommendedCall, Warned, content_words

SHARE_OF_WORDS = 0.5
"""Of an error's content words, the share that a warning must hold to name its kind; fixed before anything was
measured."""
LEAST_WORDS = 2
"""Words that must agree at least, where the error has as many."""


@dataclass(frozen=True, slots=True)
class NextTool:
    """Precision, recall and F1 at one decision point."""

    precision: float
    recall: float
    f1: float


def next_tool(recommended: Iterable[str], needed: frozenset[str]) -> NextTool:
    """Recommended tools against those needed.

    Args:
        recommended: Recommended tools.
        needed: Tools of the right actions still to come, at least one.
    """
    tools = set(recommended)
    hits = len(tools & needed)
    precision = hits / len(tools) if tools else 0.0
    recall = hits / len(needed)
    return NextTool(precision, recall, harmonic(precision, recall))


def harmonic(precision: float, recall: float) -> float:
    """F1 of two shares; 0 where both are."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


# -- failures --------------------------------------------------------------------------------------------------------

_words = lru_cache(maxsize=4_096)(content_words)


def matches(warned: Warned, failure: Failure) -> bool:
    """Whether a warning names a failure: the tool, and the kind by enough of its words.

    An error whose message has no content words is named by every warning that says that its tool fails.
    """
    if warned.tool != failure.tool:
        return False
    wanted = _words(failure.kind)
    if not wanted:
        return warned.names_failure
    shared = len(warned.words & wanted)
    return shared >= SHARE_OF_WORDS * len(wanted) and shared >= min(LEAST_WORDS, len(wanted))


def _about(warned: Warned, failure: Failure) -> bool:
    """Whether a failure is what a warning speaks of; for one that names none, any failure of the tool."""
    return matches(warned, failure) or (not warned.names_failure and warned.tool == failure.tool)


def foreseen(held: HeldOut, readings: Sequence[Reading]) -> list[bool]:
    """For the first failure of each tool and kind, whether it was warned of before it happened."""
    return [
        any(
            matches(warned, failure)
            for point, reading in zip(held.points, readings, strict=True)
            if point.turn <= failure.turn
            for warned in reading.warnings
        )
        for failure in held.first_failures
    ]


def borne_out(held: HeldOut, readings: Sequence[Reading]) -> list[bool]:
    """For each distinct warning of a run that says more than the history shows, whether the run bears it out."""
    raised: dict[Warned, list[int]] = defaultdict(list)
    for point, reading in zip(held.points, readings, strict=True):
        for warned in reading.warnings:
            raised[warned].append(point.turn)
    verdicts = (_verdict(held, warned, turns) for warned, turns in raised.items())
    return [verdict for verdict in verdicts if verdict is not None]


def _verdict(held: HeldOut, warned: Warned, turns: Sequence[int]) -> bool | None:
    """Borne out, false, or None where the history showed it whenever it was said."""
    about = [failure.turn for failure in held.failures if _about(warned, failure)]
    wrong = [turn for turn, tool in held.wrong if tool == warned.tool and not warned.names_failure]
    if any(when >= turns[0] for when in (*about, *wrong)):
        return True
    return None if any(when < turns[0] for when in about) else False


# -- harm ------------------------------------------------------------------------------------------------------------


def recommends(call: RecommendedCall, failure: Failure) -> bool:
    """Whether a recommended call is the action that failed; one that names no arguments leaves them open."""
    return call.tool == failure.tool and call.arguments <= failure.arguments


def harmful(held: HeldOut, point: Point, reading: Reading) -> bool:
    """Whether the advice at a point recommends an action that the run is going to fail at for the first time."""
    return any(
        recommends(call, failure)
        for failure in held.first_failing_actions
        if failure.turn >= point.turn
        for call in reading.calls
    )


# -- a run's part ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunScore:
    """What one run adds.

    Attributes:
        task: The task.
        group: What is resampled together.
        next: Of each decision point with something right still to do.
        points: Decision points.
        harmful: Points with harmful advice.
        failures: Distinct failures.
        foreseen: Those foreseen.
        claims: Distinct warnings that are borne out or false.
        borne: Those borne out.
    """

    task: str
    group: int
    next: tuple[NextTool, ...]
    points: int
    harmful: int
    failures: int
    foreseen: int
    claims: int
    borne: int


def score_run(held: HeldOut, readings: Sequence[Reading]) -> RunScore:
    """Judges the advice at every decision point of a run.

    Args:
        held: The run.
        readings: What the advice at each of its decision points says.
    """
    pairs = list(zip(held.points, readings, strict=True))
    seen, claims = foreseen(held, readings), borne_out(held, readings)
    return RunScore(
        task=held.task,
        group=held.group,
        next=tuple(next_tool(reading.tools, point.needed) for point, reading in pairs if point.needed),
        points=len(pairs),
        harmful=sum(harmful(held, point, reading) for point, reading in pairs),
        failures=len(seen),
        foreseen=sum(seen),
        claims=len(claims),
        borne=sum(claims),
    )
