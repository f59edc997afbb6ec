"""One table a data set, from what every memory advised: Markdown, CSV, JSON, the terminal and a picture."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fresh.retrieval.metrics import Estimate
from inference.compare.estimates import MEASURES, differences, estimates
from inference.compare.measures import RunScore, score_run
from inference.compare.points import tools_by_domain
from inference.compare.reading import Reader
from inference.compare.run import Plan
from inference.compare.store import FoldResult

if TYPE_CHECKING:
    from rich.table import Table

AHEAD = ("next_f1", "foreseen_f1", "harm")
"""What a memory is expected to lead in."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a memory takes.

    Attributes:
        build_seconds: Time to build it, mean over folds.
        p50_ms: Median time of a piece of advice, in milliseconds.
        p95_ms: 95th percentile of it.
        bytes: On disk, mean over folds.
        tokens: Of a piece of advice, mean over decision points, by `fresh.guidance.estimate_tokens`.
        most_tokens: Of the longest one.
        silent: Share of decision points at which it said nothing.
        cut: Share of decision points at which it went over the budget and was cut.
    """

    build_seconds: float
    p50_ms: float
    p95_ms: float
    bytes: float
    tokens: float
    most_tokens: int
    silent: float
    cut: float


@dataclass(frozen=True)
class Row:
    """One memory.

    Attributes:
        memory: Its name.
        measures: Each of `MEASURES`; None where nothing was counted.
        against: Each measure of the reference minus this memory's, paired by task; empty for the reference itself.
        cost: What it takes.
    """

    memory: str
    measures: Mapping[str, Estimate | None]
    against: Mapping[str, Estimate | None]
    cost: Cost

    @property
    def recommends(self) -> bool:
        """Whether it ever recommended a tool that was needed: one that never speaks can do no harm either."""
        recall = self.measures["next_recall"]
        return recall is not None and recall.mean > 0


@dataclass(frozen=True)
class CompareReport:
    """What was measured on one data set.

    Attributes:
        name: The data set.
        reference: The memory that the others are compared with; empty where it is not among them.
        rows: One a memory, in the order asked for.
        counts: Runs, tasks, groups, decision points, failures.
        settings: The comparison's.
        versions: Of the libraries.
        notes: What a reader has to know of how the results came about.
    """

    name: str
    reference: str
    rows: tuple[Row, ...]
    counts: Mapping[str, int]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    notes: tuple[str, ...] = field(default=())

    def best(self, measure: str) -> tuple[str, ...]:
        """The memories with the best value of a measure, of those that recommend anything useful at all."""
        values = {row.memory: own.mean for row in self.rows if row.recommends and (own := row.measures[measure])}
        if not values:
            return ()
        top = max(values.values(), key=lambda value: MEASURES[measure].better * value)
        return tuple(memory for memory, value in values.items() if math.isclose(value, top, abs_tol=1e-12))

    def verdicts(self) -> list[str]:
        """For each of `AHEAD`, whether the reference leads and how sure that is; then what each of its kin does worse.

        Kin share the first part of the name (``fresh-...``): no rivals, but the reference with a part left out.
        """
        own = next((row for row in self.rows if row.memory == self.reference), None)
        if own is None:
            return []
        others = [row for row in self.rows if row.memory != own.memory and row.recommends]
        family = own.memory.partition("-")[0]
        rivals = [row for row in others if row.memory != family and not row.memory.startswith(f"{family}-")]
        kin = [row for row in others if row not in rivals]
        found = [_against_best(own, rivals, measure) for measure in AHEAD]
        found += [_less(row) for row in kin]
        return [sentence for sentence in found if sentence]

    def plain(self) -> dict[str, Any]:
        """As JSON values; a measure of which nothing was counted is null."""
        return {
            "compare": self.name,
            "reference": self.reference,
            "rows": [asdict(row) for row in self.rows],
            "best": {measure: list(self.best(measure)) for measure in MEASURES},
            "verdicts": self.verdicts(),
            "counts": dict(self.counts),
            "settings": dict(self.settings),
            "versions": dict(self.versions),
            "notes": list(self.notes),
        }


def _lead(own: Row, other: Row, measure: str) -> float:
    """By how much a memory does better than another one; 0 where one of them has no value."""
    ours, theirs = own.measures[measure], other.measures[measure]
    return MEASURES[measure].better * (ours.mean - theirs.mean) if ours and theirs else 0.0


def _against_best(own: Row, rivals: Sequence[Row], measure: str) -> str:
    counted = [row for row in rivals if row.measures[measure] is not None]
    if own.measures[measure] is None or not counted:
        return ""
    return _compared(own, min(counted, key=lambda row: _lead(own, row, measure)), measure, "the best other memory, ")


def _compared(own: Row, other: Row, measure: str, called: str = "") -> str:
    ours, theirs, apart = own.measures[measure], other.measures[measure], other.against.get(measure)
    assert ours is not None and theirs is not None
    lead = _lead(own, other, measure)
    how = "is level with" if math.isclose(lead, 0, abs_tol=1e-12) else "is ahead of" if lead > 0 else "is behind"
    names = f"{own.memory} ({ours.mean:.3f}) {how} {called}{other.memory} ({theirs.mean:.3f})"
    if apart is None:
        return f"{MEASURES[measure].label}: {names}."
    sure = "" if apart.low > 0 or apart.high < 0 else ", an interval that holds 0"
    return f"{MEASURES[measure].label}: {names}; difference {text(apart)}{sure}."


_LEAST_TOLD = 0.0005
"""A smaller difference is none at the digits that are told."""


def _less(row: Row) -> str:
    """What a variant of the reference does worse or better than the reference, as far as that can be told."""
    said, level = [], []
    for measure in AHEAD:
        apart, label, better = row.against.get(measure), MEASURES[measure].label, MEASURES[measure].better
        ends = sorted((better * apart.low, better * apart.high)) if apart else (0, 0)
        if apart is None or ends[0] <= 0 <= ends[1] or abs(apart.mean) < _LEAST_TOLD:
            level.append(label)
        else:
            said.append(f"{'worse' if ends[0] > 0 else 'better'} in {label} by {abs(apart.mean):.3f}")
    said += [f"no difference in {', '.join(level)} that is clear of 0"] if level else []
    return f"{row.memory}: {'; '.join(said)}."


# -- making it -------------------------------------------------------------------------------------------------------


def make_report(plan: Plan, results: Mapping[str, Sequence[FoldResult]], *, reference: str = "") -> CompareReport:
    """Measures what the memories advised.

    Args:
        plan: Runs, folds and settings.
        results: What each memory advised on each fold.
        reference: The memory to compare the others with.
    """
    readers = {result.fold: reader_for(plan, result.fold) for own in list(results.values())[:1] for result in own}
    scores = {memory: _scores(plan, own, readers) for memory, own in results.items()}
    reference = reference if reference in scores else ""
    seed = plan.config.seed
    rows = []
    for memory, own in scores.items():
        apart = differences(scores[reference], own, seed) if reference and memory != reference else {}
        rows.append(Row(memory, estimates(own, seed), apart, _cost(results[memory])))
    every = [result for own in results.values() for result in own]
    held = plan.held_out
    return CompareReport(
        name=plan.config.name,
        reference=reference,
        rows=tuple(rows),
        counts={
            "runs": len(plan.runs),
            "measured_runs": len(held),
            "tasks": len({one.task for one in held}),
            "groups": len({one.group for one in held}),
            "points": sum(len(one.points) for one in held),
            "points_with_needed": sum(point.needed is not None for one in held for point in one.points),
            "failures": sum(len(one.first_failures) for one in held),
        },
        settings=plan.config.plain(),
        versions=every[0].versions if every else {},
        notes=tuple(_notes(every)),
    )


def _scores(plan: Plan, results: Sequence[FoldResult], readers: Mapping[int, Reader]) -> list[RunScore]:
    scores = []
    for result in results:
        reader = readers[result.fold]
        for held in plan.measured(result.fold):
            scores.append(score_run(held, [reader.read(given.text) for given in result.advice[held.run.id]]))
    return scores


def reader_for(plan: Plan, fold: int) -> Reader:
    """Knows the tools of every domain that is mined for a fold, so that a tool of another domain counts as wrong."""
    known: dict[str, set[str]] = {}
    for specs in tools_by_domain(plan.mined(fold), plan.specs).values():
        for name, spec in specs.items():
            known.setdefault(name, set()).update(spec.parameters.get("properties", ()))
    return Reader(known)


def _cost(results: Sequence[FoldResult]) -> Cost:
    given = [one for result in results for own in result.advice.values() for one in own]
    milliseconds = np.array([one.seconds * 1e3 for one in given] or [np.nan])
    tokens = [one.tokens for one in given]
    count = max(1, len(given))
    return Cost(
        build_seconds=float(np.mean([result.build_seconds for result in results])),
        p50_ms=float(np.percentile(milliseconds, 50)),
        p95_ms=float(np.percentile(milliseconds, 95)),
        bytes=float(np.mean([result.bytes for result in results])),
        tokens=sum(tokens) / count,
        most_tokens=max(tokens, default=0),
        silent=sum(not one.text for one in given) / count,
        cut=sum(one.cut for one in given) / count,
    )


def _notes(results: Sequence[FoldResult]) -> list[str]:
    """What does not fit together in results that were made at different times."""
    notes = []
    if len({result.code for result in results}) > 1:
        names = sorted({result.memory for result in results if result.code != results[-1].code})
        notes.append(f"Made with different code: {', '.join(names)}; --again makes them anew.")
    if len({tuple(sorted(result.versions.items())) for result in results}) > 1:
        notes.append("Made with different versions of the libraries; those shown are of the first memory.")
    return notes


# -- writing it ------------------------------------------------------------------------------------------------------


def text(value: Estimate | None) -> str:
    """``0.512 [0.430, 0.601]``; ``-`` where nothing was counted."""
    return "-" if value is None else f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"


def markdown(report: CompareReport) -> str:
    """The table in Markdown, the best of each column in bold, with the verdicts under it."""
    heads = ["memory", *(measure.label for measure in MEASURES.values())]
    best = {measure: report.best(measure) for measure in MEASURES}
    body = []
    for row in report.rows:
        cells = [text(row.measures[m]) for m in MEASURES]
        marked = [f"**{c}**" if row.memory in best[m] else c for c, m in zip(cells, MEASURES, strict=True)]
        body.append([row.memory, *marked])
    parts = [f"### {report.name}", _table(heads, body), "\n".join(f"- {line}" for line in report.verdicts())]
    parts += [_table(_COST_HEADS, [[row.memory, *_cost_cells(row.cost)] for row in report.rows])]
    if report.reference:
        rivals = [row for row in report.rows if row.memory != report.reference]
        apart = [[row.memory, *(text(row.against[m]) for m in AHEAD)] for row in rivals]
        parts.append(_table([f"{report.reference} minus", *(MEASURES[m].label for m in AHEAD)], apart))
    return "\n\n".join(part for part in [*parts, *report.notes, caption(report)] if part) + "\n"


def caption(report: CompareReport) -> str:
    """What the figures are of."""
    counts, settings = report.counts, report.settings
    made = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    sides = [(word, settings[f"{key}_agents"]) for word, key in (("mined", "mine"), ("measured", "measure"))]
    across = "".join(f"{word}: runs of {', '.join(names)}; " for word, names in sides if names)
    return across + (
        f"{counts['measured_runs']} runs of {counts['tasks']} held-out tasks in {counts['groups']} groups, "
        f"{settings['folds']} folds; {counts['points']} decision points, {counts['points_with_needed']} of them with "
        f"something right to come; {counts['failures']} failures; at most {settings['budget']} tokens; mean over tasks "
        f"[95% bootstrap interval over tasks]; seed {settings['seed']}; {made}."
    )


_COST_HEADS = ("memory", "build s", "p50 ms", "p95 ms", "disk kB", "tokens", "most tokens", "silent", "cut")


def _cost_cells(cost: Cost) -> list[str]:
    return [
        f"{cost.build_seconds:.1f}",
        f"{cost.p50_ms:.1f}",
        f"{cost.p95_ms:.1f}",
        f"{cost.bytes / 1e3:.1f}",
        f"{cost.tokens:.0f}",
        str(cost.most_tokens),
        f"{cost.silent:.0%}",
        f"{cost.cut:.0%}",
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    line = "| " + " | ".join(heads) + " |"
    rule = "| --- |" + " ---: |" * (len(heads) - 1)
    return "\n".join([line, rule, *("| " + " | ".join(row) + " |" for row in rows)])


def csv_text(report: CompareReport) -> str:
    """One line a memory and measure, costs included."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["data", "memory", "measure", "value", "low", "high", "difference", "difference_low", "difference_high"]
    )
    for row in report.rows:
        for name in MEASURES:
            ends = [_ends(row.measures[name]), _ends(row.against.get(name))]
            writer.writerow([report.name, row.memory, name, *ends[0], *ends[1]])
        for name, value in asdict(row.cost).items():
            writer.writerow([report.name, row.memory, name, value, "", "", "", "", ""])
    return out.getvalue()


def _ends(value: Estimate | None) -> tuple[float | str, float | str, float | str]:
    return ("", "", "") if value is None else (value.mean, value.low, value.high)


def tables(report: CompareReport) -> list[Table]:
    """Tables for a terminal."""
    from rich.table import Table

    best = {measure: report.best(measure) for measure in MEASURES}
    main = Table(title=f"{report.name}: memories on held-out tasks", caption=caption(report))
    main.add_column("memory")
    for measure in MEASURES.values():
        main.add_column(measure.label, justify="right")
    for row in report.rows:
        cells = [text(row.measures[m]) for m in MEASURES]
        main.add_row(
            row.memory,
            *(
                f"[bold]{_bare(c)}[/bold]" if row.memory in best[m] else _bare(c)
                for c, m in zip(cells, MEASURES, strict=True)
            ),
        )
    cost = Table(title=f"{report.name}: cost")
    for i, head in enumerate(_COST_HEADS):
        cost.add_column(head, justify="right" if i else "left")
    for row in report.rows:
        cost.add_row(row.memory, *_cost_cells(row.cost))
    return [main, cost]


def _bare(cell: str) -> str:
    """Square brackets are markup to rich."""
    return cell.replace("[", "\\[")


def write(report: CompareReport, folder: Path) -> list[Path]:
    """Writes Markdown, CSV and JSON, and the picture where Matplotlib is installed; returns the files."""
    from fresh.cli.files import write_json
    from inference.compare.picture import draw

    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"compare-{report.name}"
    files = [stem.with_suffix(ending) for ending in (".md", ".csv", ".json")]
    files[0].write_text(markdown(report), encoding="utf-8")
    files[1].write_text(csv_text(report), encoding="utf-8")
    write_json(files[2], report.plain())
    picture = stem.with_suffix(".png")
    return [*files, picture] if draw(report, picture) else files
