"""What the gate did on recorded writes: shares by kind of mistake and by guard, as tables and as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inference.evaluate.gate.curve import Curve
from inference.evaluate.gate.judging import Judged, only_telling
from inference.evaluate.gate.kinds import Kind
from inference.evaluate.gate.rates import Rate, rate
from inference.evaluate.gate.solutions import Label

if TYPE_CHECKING:
    from rich.table import Table

_MOST_NAMED = 3


@dataclass(frozen=True)
class KindCount:
    """Wrong writes of one kind.

    Attributes:
        held: Share held.
        refused: Of them, how many the environment refused.
        foreseeable: How many bear a sign that right writes rarely bear; in the rest only the meaning was wrong.
        held_foreseeable: Of the foreseeable ones, how many are held.
        arguments: The arguments that were wrong, with counts, the most frequent first.
    """

    kind: Kind
    held: Rate
    refused: int
    foreseeable: int
    held_foreseeable: int
    arguments: tuple[tuple[str, int], ...] = ()

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "held": self.held.plain(),
            "refused": self.refused,
            "foreseeable": self.foreseeable,
            "held_foreseeable": self.held_foreseeable,
            "meaning_only": self.held.whole - self.foreseeable,
            "arguments": dict(self.arguments),
        }


@dataclass(frozen=True)
class GuardCount:
    """One guard's part: writes it spoke against so that they were held, and those that it alone held.

    Attributes:
        right: Right writes.
        wrong: Wrong writes.
        right_alone: Right writes that no other guard spoke against: false blocks that would go without it.
        wrong_alone: Wrong writes likewise: what would be missed without it.
    """

    right: int
    wrong: int
    right_alone: int
    wrong_alone: int


@dataclass(frozen=True)
class GateReport:
    """The gate's work on one set of runs.

    Attributes:
        name: Which runs.
        passed_right: Of the right writes, those let pass.
        held_wrong: Of the wrong writes, those held back.
        held_accepted: Of the wrong writes that the environment took (the harmful ones), those held back.
        held_refused: Of the wrong writes that the environment refused, those held back.
        held_foreseeable: Of the wrong writes that bear a sign, those held back.
        unproven: Writes that count as neither.
        kinds: By what is wrong.
        signs: How many wrong writes bear each telling sign.
        guards: By check.
        tasks: Distinct groups of tasks.
    """

    name: str
    passed_right: Rate
    held_wrong: Rate
    held_accepted: Rate
    held_refused: Rate
    held_foreseeable: Rate
    unproven: int
    kinds: tuple[KindCount, ...]
    signs: dict[str, int]
    guards: dict[str, GuardCount]
    tasks: int

    def plain(self) -> dict[str, Any]:
        """As JSON values; a rate without cases is null."""
        names = ("passed_right", "held_wrong", "held_accepted", "held_refused", "held_foreseeable")
        return {
            "name": self.name,
            **{name: getattr(self, name).plain() for name in names},
            "unproven": self.unproven,
            "kinds": {count.kind.value: count.plain() for count in self.kinds},
            "signs": self.signs,
            "guards": {check: vars(count) for check, count in self.guards.items()},
            "tasks": self.tasks,
        }


def summarise(judged: Sequence[Judged], name: str, *, seed: int = 0) -> GateReport:
    """Counts judgements and resamples tasks for the intervals.

    Args:
        judged: Of one data set.
        name: Heading.
        seed: Of the resampling.
    """
    told = only_telling(judged)
    wrong = [j for j in told if j.label is Label.WRONG]
    signs = Counter(sign.value for j in wrong for sign in {mark.sign for mark in j.marks})
    return GateReport(
        name=name,
        passed_right=rate([(j.task, not j.held) for j in told if j.label is Label.RIGHT], seed),
        held_wrong=_held(wrong, seed),
        held_accepted=_held([j for j in wrong if j.accepted], seed),
        held_refused=_held([j for j in wrong if not j.accepted], seed),
        held_foreseeable=_held([j for j in wrong if j.foreseeable], seed),
        unproven=sum(j.label is Label.UNPROVEN for j in told),
        kinds=tuple(_kinds(wrong, seed)),
        signs=dict(signs.most_common()),
        guards=count_guards(told),
        tasks=len({j.task for j in told}),
    )


def _held(judged: Iterable[Judged], seed: int) -> Rate:
    return rate([(j.task, j.held) for j in judged], seed)


def _kinds(wrong: Sequence[Judged], seed: int) -> Iterable[KindCount]:
    for kind in Kind:
        found = [j for j in wrong if j.mistake is not None and j.mistake.kind is kind]
        if not found:
            continue
        arguments = Counter(path for j in found if j.mistake for path in j.mistake.arguments)
        yield KindCount(
            kind=kind,
            held=_held(found, seed),
            refused=sum(not j.accepted for j in found),
            foreseeable=sum(j.foreseeable for j in found),
            held_foreseeable=sum(j.held for j in found if j.foreseeable),
            arguments=tuple(arguments.most_common()),
        )


def count_guards(judged: Iterable[Judged]) -> dict[str, GuardCount]:
    """Each guard's part in what was held."""
    counts: dict[str, list[int]] = {}
    for item in judged:
        if item.label is Label.UNPROVEN:
            continue
        column = 0 if item.label is Label.RIGHT else 1
        checks = set(item.checks)
        for check in checks:
            row = counts.setdefault(check, [0, 0, 0, 0])
            row[column] += 1
            row[column + 2] += len(checks) == 1
    return {check: GuardCount(*row) for check, row in sorted(counts.items())}


def report_each(judged: Sequence[Judged], *, seed: int = 0) -> list[GateReport]:
    """A report for each data set, by name."""
    names = sorted({j.data for j in judged})
    return [summarise([j for j in judged if j.data == name], name, seed=seed) for name in names]


def gate_table(reports: Sequence[GateReport]) -> Table:
    """The data sets, one a row."""
    table = _table(
        "Gate on recorded writes: share [95% interval over tasks]",
        ("runs of", "right let pass", "wrong held", "of these taken", "of these refused", "foreseeable held"),
    )
    for report in reports:
        rates = (
            report.passed_right,
            report.held_wrong,
            report.held_accepted,
            report.held_refused,
            report.held_foreseeable,
        )
        table.add_row(report.name, *map(str, rates))
    return table


def kind_table(reports: Sequence[GateReport]) -> Table:
    """Wrong writes by what is wrong with them."""
    table = _table(
        "Wrong writes by kind",
        ("runs of", "kind", "writes", "held", "refused", "foreseeable", "held of these", "meaning only", "mostly in"),
    )
    for report in reports:
        for count in report.kinds:
            table.add_row(
                report.name,
                count.kind.value,
                str(count.held.whole),
                str(count.held.part),
                str(count.refused),
                str(count.foreseeable),
                str(count.held_foreseeable),
                str(count.held.whole - count.foreseeable),
                ", ".join(f"{path} {times}" for path, times in count.arguments[:_MOST_NAMED]),
            )
        table.add_section()
    return table


def guard_table(reports: Sequence[GateReport]) -> Table:
    """Writes held by each guard, and by it alone."""
    table = _table("Writes held by guard", ("runs of", "guard", "wrong", "by it alone", "right", "by it alone"))
    for report in reports:
        for check, count in report.guards.items():
            cells = (count.wrong, count.wrong_alone, count.right, count.right_alone)
            table.add_row(report.name, check, *map(str, cells))
        table.add_section()
    return table


def curve_table(curves: Sequence[Curve]) -> Table:
    """What the chosen thresholds give on other tasks than they were chosen on."""
    table = _table("Threshold chosen on other tasks", ("runs of", "bound", "right held", "wrong held"))
    for curve in curves:
        if curve.chosen is not None:
            bound = f"{curve.chosen.max_false_block:.1%}"
            table.add_row(curve.name, bound, str(curve.chosen.false_block), str(curve.chosen.recall))
    return table


def _table(title: str, headings: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(title=title)
    words = {"runs of", "kind", "guard", "mostly in"}
    for heading in headings:
        table.add_column(heading, justify="left" if heading in words else "right")
    return table
