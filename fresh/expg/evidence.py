"""What the experiences of one tool say, counted: the facts that statements of guidance are made of."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fresh.expg.classes import EquivalenceClass, partition
from fresh.expg.experience import Aspect, Experience, canonical
from fresh.expg.observed import is_identifier, leaves
from fresh.expg.record import NOWHERE
from fresh.expg.scrub import MIN_TASKS, Scrubber, private_value
from fresh.expg.select import Selection
from fresh.expg.stats import ClassStatistics
from graph_schema.trajectory import ToolSpec

MIN_DISTINCT = 5
"""Different values a parameter must have shown before their common form is stated."""
_SPEAKER = {"request": "user", "user": "user", "result": "result"}
_RUNS = re.compile(r"[0-9]+|[A-Z]+|[a-z]+|[^0-9A-Za-z]")


@dataclass(frozen=True)
class Evidence:
    """Everything a summariser may use for one tool.

    Attributes:
        spec: The tool.
        selection: What Algorithm 1 chose to be read.
        experiences: All experiences after the filter: what counts are taken over.
        statistics: Their class statistics.
    """

    spec: ToolSpec
    selection: Selection
    experiences: Sequence[Experience]
    statistics: ClassStatistics

    @cached_property
    def scrubber(self) -> Scrubber:
        """Decides which values may be shown."""
        return Scrubber(self.spec, self.experiences)

    @cached_property
    def classes(self) -> list[EquivalenceClass]:
        """Classes of all experiences, largest first."""
        return partition(self.experiences)

    @cached_property
    def good(self) -> list[Experience]:
        """Calls without a fault; where there are none, calls without an error."""
        perfect = [e for e in self.experiences if all(e.scores)]
        return perfect or [e for e in self.experiences if e.invocation.success]

    @cached_property
    def failed(self) -> list[Experience]:
        """Calls that the tool answered with an error."""
        return [e for e in self.experiences if not e.invocation.success]

    def pattern(self, experience: Experience) -> str:
        """The call with placeholders: ``cancel(order_id=<ORDER_ID>, reason="no longer needed")``."""
        m = experience.invocation
        if m.input is None:
            return f"{m.tool.name}(<UNREADABLE>)"
        given = ", ".join(f"{name}={self.scrubber.show(name, value)}" for name, value in sorted(m.input.items()))
        return f"{m.tool.name}({given})"

    @cached_property
    def parameters(self) -> list[str]:
        """Parameters that calls without a fault gave, most frequent first."""
        counts = Counter(name for e in self.good for name in e.invocation.input or {})
        return sorted(counts, key=lambda name: (-counts[name], name))

    def given(self, name: str, experiences: Sequence[Experience]) -> int:
        """How many of the calls gave the parameter."""
        return sum(name in (e.invocation.input or {}) for e in experiences)

    def origins(self, name: str) -> Counter[str]:
        """Where the parameter's values stood in calls without a fault: ``user`` or ``result``.

        Empty for a parameter whose values are not looked up, such as a choice, a number or prose.
        """
        given = [e for e in self.good if name in (e.invocation.input or {})]
        values = [v for e in given for n, v in leaves(e.invocation.input) if n == name]
        if 2 * sum(isinstance(v, str) and private_value(v) for v in values) < len(values):
            return Counter()
        return Counter(_SPEAKER[o] for e in given if (o := e.invocation.origins.get(name)) in _SPEAKER)

    def faulty(self, aspect: Aspect, parameter: str | None = None) -> list[Experience]:
        """Calls with a fault in an aspect; with a parameter, those whose value of it stood nowhere."""
        found = [e for e in self.experiences if not e.scores[aspect.place]]
        if parameter is None:
            return found
        return [e for e in found if e.invocation.origins.get(parameter) == NOWHERE]

    @cached_property
    def messages(self) -> list[tuple[str, list[Experience]]]:
        """Templates of error answers seen in two tasks or more, most frequent first.

        A message of a single task may be about that task's person, whatever is masked in it. Messages that differ in
        capitals or by a leading "Error:" are one, in its most frequent wording.
        """
        groups: dict[str, list[Experience]] = defaultdict(list)
        wordings: dict[str, Counter[str]] = defaultdict(Counter)
        for experience in self.failed:
            text = self.scrubber.message(experience)
            plain = text.casefold().removeprefix("error:").strip()
            groups[plain].append(experience)
            wordings[plain][text] += 1
        common = [
            (min(wordings[plain].items(), key=lambda item: (-item[1], item[0]))[0], found)
            for plain, found in groups.items()
            if plain and len(_tasks(found)) >= 2
        ]
        return sorted(common, key=lambda item: (-len(item[1]), item[0]))

    def repair(self, failures: Sequence[Experience]) -> tuple[str, int] | None:
        """The argument whose change most often made the next call of the tool in the same run succeed."""
        later: dict[str, list[Experience]] = defaultdict(list)
        for experience in self.experiences:
            later[experience.invocation.run].append(experience)
        changed: Counter[str] = Counter()
        for failure in failures:
            position = call_order(failure)
            after = [e for e in later[failure.invocation.run] if call_order(e) > position]
            following = min(after, key=call_order, default=None)
            if following is not None and following.invocation.success:
                changed.update(_differences(failure.invocation.input, following.invocation.input))
        if not changed:
            return None
        return min(changed.items(), key=lambda item: (-item[1], item[0]))

    def form(self, name: str) -> str | None:
        """A regular expression that all identifiers given for a parameter in good calls share and a failed one breaks.

        It is made of character classes and punctuation, so that no letter or digit of a value shows.
        """
        given = [(e, e.invocation.input[name]) for e in self.good if e.invocation.input and name in e.invocation.input]
        # Addresses of people share a form by chance only; a list or an object has no form.
        if not all(is_identifier(value) and "@" not in value for _, value in given):
            return None
        good = sorted({value for _, value in given})
        if len(good) < MIN_DISTINCT or len(_tasks([e for e, _ in given])) < MIN_TASKS:
            return None
        form = common_form(good)
        if form is None:
            return None
        bad = [e.invocation.input[name] for e in self.failed if e.invocation.input and name in e.invocation.input]
        return form if any(not isinstance(v, str) or re.fullmatch(form, v) is None for v in bad) else None


def common_form(values: Sequence[str]) -> str | None:
    """The shared form of strings as a regular expression, or None when they share none.

    >>> common_form(["#W12", "#X345"])
    '#[A-Z][0-9]+'
    """
    split = [_RUNS.findall(value) for value in values]
    if not split or len({len(runs) for runs in split}) != 1:
        return None
    parts: list[str] = []
    for column in zip(*split, strict=True):
        classes = {_class_of(run) for run in column}
        if len(classes) != 1:
            return None
        lengths = {len(run) for run in column}
        kind = classes.pop()
        literal = not kind.startswith("[")
        size = len(column[0])
        # Words vary in length beyond what was seen; the digits of a number are taken to be all of one length.
        fixed = len(lengths) == 1 and kind == "[0-9]"
        many = "" if literal or lengths == {1} else f"{{{size}}}" if fixed else "+"
        parts.append(kind + many)
    return "".join(parts)


def _class_of(run: str) -> str:
    first = run[0]
    if first.isascii() and first.isdigit():
        return "[0-9]"
    if first.isascii() and first.isalpha():
        return "[A-Z]" if first.isupper() else "[a-z]"
    return re.escape(first)


def call_order(experience: Experience) -> tuple[int, ...]:
    """Place of a call in its run, from its id ``<run id>/<turn>/<position>``."""
    tail = experience.invocation.call.rsplit("/", 2)[-2:]
    return tuple(int(part) if part.isdigit() else 0 for part in tail)


def _differences(left: dict[str, Any] | None, right: dict[str, Any] | None) -> list[str]:
    left, right = left or {}, right or {}
    return [n for n in sorted(left.keys() | right.keys()) if canonical(left.get(n)) != canonical(right.get(n))]


def _tasks(experiences: Sequence[Experience]) -> set[str]:
    return {e.invocation.task or e.invocation.run for e in experiences}
