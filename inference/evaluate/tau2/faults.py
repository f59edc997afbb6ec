"""The structural errors, made from a gold write's own values and what the run has seen.

Nothing here names a tool or an argument. Which argument goes wrong follows from where its value comes from: a value
that only a skipped read would have shown is guessed, a value of one object is replaced by that of another. An error
that would change nothing is not made: the erroneous call is tried on a copy of the environment first.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inference.evaluate.tau2.environment import Domain
from inference.evaluate.tau2.plan import Call, Read, Step, execute
from inference.evaluate.tau2.settings import ErrorKind, Settings
from inference.evaluate.tau2.values import (
    Knowledge,
    Path,
    Scalar,
    field_name,
    first_new,
    is_date,
    is_reference,
    leaves,
    replaced,
)

if TYPE_CHECKING:
    from tau2.environment.environment import Environment

MAX_TRIES = 8
"""Most replacements tried per argument when looking for one that does harm."""


@dataclass(frozen=True)
class Fault:
    """One error, ready to be made.

    Attributes:
        call: The erroneous call.
        right: The right value of every argument leaf that is wrong in it.
        omitted: Reads left out because of it.
    """

    kind: ErrorKind
    call: Call
    right: dict[Path, Scalar]
    omitted: tuple[Read, ...] = ()


class FaultMaker:
    """Draws and builds the errors of one domain.

    Args:
        domain: Its database provides the other objects.
        settings: Rates and shares.
    """

    def __init__(self, domain: Domain, settings: Settings) -> None:
        self._domain = domain
        self._settings = settings

    def draw(self, rng: random.Random) -> ErrorKind | None:
        """Draws the kind of error to make at a write; None for none. Takes one number from ``rng`` whatever comes."""
        threshold, drawn = 0.0, rng.random()
        for kind in ErrorKind:
            threshold += self._settings.rates.get(kind, 0.0)
            if drawn < threshold:
                return kind
        return None

    def without_reads(
        self,
        kind: ErrorKind,
        step: Step,
        pending: Sequence[Read],
        knowledge: Knowledge,
        environment: Environment,
        rng: random.Random,
    ) -> Fault | None:
        """A skipped read or a premature write; None where every value of the write is known without its reads.

        Args:
            kind: Which of the two.
            step: The step whose write goes wrong.
            pending: Its reads that the run has not made yet.
            knowledge: What the run knows now.
            environment: The run's environment, to try the call on a copy.
            rng: The step's random numbers.
        """
        assert step.write is not None
        shown = set().union(*(read.shows for read in pending))
        open_leaves = [
            (path, leaf)
            for path, leaf in leaves(step.write.arguments)
            if isinstance(leaf, str) and leaf in shown and not is_date(leaf) and not knowledge.knows(leaf)
        ]
        if not open_leaves:
            return None
        omitted = tuple(pending)
        if kind is ErrorKind.SKIPPED_READ:
            omitted = _without(rng.choice(open_leaves)[1], pending, knowledge)
        kept = set().union(*(read.shows for read in pending if read not in omitted))
        right = {path: leaf for path, leaf in open_leaves if leaf not in kept}
        arguments = step.write.arguments
        wrong: dict[Path, Scalar] = {}
        for path, leaf in right.items():
            guess = self._guess(str(leaf), field_name(path), rng)
            if guess is not None:
                arguments, wrong[path] = replaced(arguments, path, guess), leaf
        fault = Fault(kind, Call(step.write.tool, arguments), wrong, omitted)
        return fault if wrong and self._harms(fault.call, step.write, environment) else None

    def wrong_object(
        self, step: Step, knowledge: Knowledge, environment: Environment, rng: random.Random
    ) -> Fault | None:
        """One reference of the write replaced by another object's.

        Args:
            step: The step whose write goes wrong, its reads made.
            knowledge: What the run knows now.
            environment: The run's environment, to try calls on copies.
            rng: The step's random numbers.
        """
        assert step.write is not None
        references = [(path, leaf) for path, leaf in leaves(step.write.arguments) if is_reference(leaf)]
        rng.shuffle(references)
        for path, leaf in references:
            for other in self._others(str(leaf), field_name(path), knowledge, rng):
                call = Call(step.write.tool, replaced(step.write.arguments, path, other))
                if self._harms(call, step.write, environment):
                    return Fault(ErrorKind.WRONG_OBJECT, call, {path: leaf})
        return None

    def refused(self, step: Step, environment: Environment, rng: random.Random) -> Fault | None:
        """The write with one reference miswritten so that the environment refuses it, to be repeated unchanged."""
        assert step.write is not None
        references = [(path, leaf) for path, leaf in leaves(step.write.arguments) if is_reference(leaf)]
        rng.shuffle(references)
        for path, leaf in references:
            slips = list(first_new(_slips(str(leaf), rng), str(leaf)))
            rng.shuffle(slips)
            for slip in slips:
                call = Call(step.write.tool, replaced(step.write.arguments, path, slip))
                if execute(self._domain.fork(environment), call) is None and self._harms(call, step.write, environment):
                    return Fault(ErrorKind.REPEATED_FAILED_CALL, call, {path: leaf})
        return None

    def _harms(self, wrong: Call, right: Call, environment: Environment) -> bool:
        """Whether the database ends up otherwise than after the right call."""
        after_wrong, after_right = self._domain.fork(environment), self._domain.fork(environment)
        execute(after_wrong, wrong)
        execute(after_right, right)
        return self._domain.state(after_wrong) != self._domain.state(after_right)

    def _guess(self, value: str, name: str, rng: random.Random) -> str | None:
        others = self._domain.index.others(value, name)
        if is_reference(value) and (not others or rng.random() < self._settings.made_up_share):
            return made_up(value, rng)
        return rng.choice(others) if others else None

    def _others(self, value: str, name: str, knowledge: Knowledge, rng: random.Random) -> list[str]:
        others = self._domain.index.others(value, name, knowledge.seen)
        seen = [other for other in others if self._domain.index.is_seen(other, knowledge.seen)]
        unseen = [other for other in others if other not in knowledge.seen]
        pools = [seen, unseen] if rng.random() < self._settings.seen_share else [unseen, seen]
        chosen = pools[0] or pools[1]
        return rng.sample(chosen, min(MAX_TRIES, len(chosen)))


def _without(value: Scalar, pending: Sequence[Read], knowledge: Knowledge) -> tuple[Read, ...]:
    """The reads that show a value, and those that can then no longer be asked for."""
    omitted: list[Read] = []
    seen = knowledge.copy()
    for read in pending:
        askable = all(seen.knows(leaf) or not is_reference(leaf) for _, leaf in leaves(read.call.arguments))
        if str(value) in read.shows or not askable:
            omitted.append(read)
        else:
            seen.seen |= read.shows
    return tuple(omitted)


def made_up(value: str, rng: random.Random) -> str:
    """A text of the same shape with its digits, and the capitals of a code, drawn anew."""
    code = value.upper() == value
    shape = (
        rng.choice(string.digits) if c.isdigit() else rng.choice(string.ascii_uppercase) if code and c.isalpha() else c
        for c in value
    )
    invented = "".join(shape)
    return invented if invented != value else made_up(value, rng)


def _slips(value: str, rng: random.Random) -> Iterator[str]:
    yield value.lstrip(string.punctuation)
    yield value.lower()
    yield value.upper()
    yield value[:-1]
    yield made_up(value, rng)
