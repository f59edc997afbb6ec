"""What the rule-based evaluator says of recorded runs, held against what the runs themselves say later."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fresh.expg.classes import partition
from fresh.expg.evaluate import RuleEvaluator
from fresh.expg.experience import ASPECTS, Aspect, AspectGroup, Experience, canonical
from fresh.expg.filter import drop_repeats
from fresh.expg.rules import call_key, effect_of
from fresh.expg.select import DEFAULT_BUDGET
from fresh.expg.shapes import collect_shapes
from fresh.expg.stats import ClassStatistics, class_statistics
from graph_schema.trajectory import Effect, Outcome, ToolSpec, Trajectory

if TYPE_CHECKING:
    from rich.table import Table


class ToolRow(NamedTuple):
    """Classes of one tool in one domain."""

    domain: str
    tool: str
    statistics: ClassStatistics
    largest_other: str


class Agreement(NamedTuple):
    """An aspect's verdicts against evidence that the verdict did not use.

    Attributes:
        aspect: Name of the aspect or the group.
        evidence: What counts as bad.
        decided: Calls where both the verdict and the evidence exist.
        zeros: Of them, scored 0.
        bad_of_zeros: Of those scored 0, bad by the evidence.
        bad_of_ones: Of those scored 1, bad by the evidence.
    """

    aspect: str
    evidence: str
    decided: int
    zeros: int
    bad_of_zeros: int
    bad_of_ones: int

    @property
    def agreement(self) -> float | None:
        """Share of calls where score and evidence say the same; None without calls."""
        right = self.bad_of_zeros + self.decided - self.zeros - self.bad_of_ones
        return right / self.decided if self.decided else None


class Report(NamedTuple):
    """Everything ``fresh expg report`` prints."""

    experiences: int
    unanswered: int
    tools: list[ToolRow]
    agreement: list[Agreement]
    error_responses: int
    errors_not_zero: int
    unknown_shares: dict[str, float]
    outcome_means: dict[str, tuple[float | None, float | None]]


def report(
    trajectories: Sequence[Trajectory],
    tools: Mapping[str, ToolSpec] | None = None,
    *,
    budget: int = DEFAULT_BUDGET,
    alpha: float | None = None,
) -> Report:
    """Judges all calls by rule and compares.

    Args:
        trajectories: The runs.
        tools: Tools by name, used before each run's own list.
        budget: B in tokens, for Q and stability.
        alpha: Threshold of stability; None for K/Q.
    """
    evaluator = RuleEvaluator()
    shapes = collect_shapes(trajectories)
    judged = [(t, evaluator.evaluate_trajectory(t, tools, shapes)) for t in trajectories]
    experiences = [e for _, found in judged for e in found]
    errors = [e for e in experiences if not e.invocation.success]
    return Report(
        experiences=len(experiences),
        unanswered=sum(1 for t in trajectories for _ in t.calls()) - len(experiences),
        tools=_tool_rows(experiences, budget, alpha),
        agreement=_agreements(judged),
        error_responses=len(errors),
        errors_not_zero=sum(any(e.scores[Aspect.MEANINGFUL.place :]) for e in errors),
        unknown_shares={a.value: _share(a.place in e.judgement.unknown for e in experiences) or 0.0 for a in ASPECTS},
        outcome_means=_outcome_means(judged),
    )


def _tool_rows(experiences: Sequence[Experience], budget: int, alpha: float | None) -> list[ToolRow]:
    groups: dict[tuple[str, str], list[Experience]] = defaultdict(list)
    for experience in experiences:
        groups[experience.invocation.domain, experience.tool].append(experience)
    rows: list[ToolRow] = []
    for (domain, tool), found in sorted(groups.items()):
        unique = drop_repeats(found)
        statistics = class_statistics(unique, budget=budget, alpha=alpha)
        other = next((c.faults for c in partition(unique) if not c.perfect), "")
        rows.append(ToolRow(domain, tool, statistics, other))
    return rows


class _Case(NamedTuple):
    """One judged call and the evidence on it; None where there is none."""

    experience: Experience
    failed: bool
    outside_gold: bool | None
    asked_again: bool
    repeats: bool


def _agreements(judged: Sequence[tuple[Trajectory, list[Experience]]]) -> list[Agreement]:
    cases = [case for trajectory, found in judged for case in _cases(trajectory, found)]
    failed = "the call got an error"
    gold = "a write that the task's solution lacks"
    again = "the same call is made again later"
    rows = [
        _compare(aspect, failed, [(c.experience, c.failed) for c in cases])
        for aspect in ASPECTS
        if aspect.group is AspectGroup.INPUT
    ]
    rows.append(_compare_input(failed, [(c.experience, c.failed) for c in cases]))
    writes = [(c.experience, c.outside_gold) for c in cases if c.outside_gold is not None]
    rows.extend(_compare(a, gold, writes) for a in (Aspect.NEEDED_NOW, Aspect.RIGHT_TOOL, Aspect.MATCHES_CONTEXT))
    # "Of no use" may rest on the call being a repeat, and repeats come in chains: only first calls count here.
    answered = [(c.experience, c.asked_again) for c in cases if not c.failed and not c.repeats]
    rows.extend(_compare(a, again, answered) for a in (Aspect.MEANINGFUL, Aspect.HELPS_TASK))
    return rows


def _cases(trajectory: Trajectory, experiences: Sequence[Experience]) -> list[_Case]:
    gold = None
    if trajectory.gold is not None:
        gold = {f"{action.tool}({canonical(action.arguments)})" for action in trajectory.gold}
    keys = {call.id: call_key(call) for _, call in trajectory.calls()}
    made = [keys[e.invocation.call] for e in experiences]
    cases: list[_Case] = []
    for index, experience in enumerate(experiences):
        write = effect_of(experience.invocation.tool) is Effect.WRITE
        outside = made[index] not in gold if gold is not None and write else None
        again, before = made[index] in made[index + 1 :], made[index] in made[:index]
        cases.append(_Case(experience, not experience.invocation.success, outside, again, before))
    return cases


def _compare(aspect: Aspect, evidence: str, pairs: Sequence[tuple[Experience, bool | None]]) -> Agreement:
    decided = [(e.scores[aspect.place], bad) for e, bad in pairs if aspect.place not in e.judgement.unknown]
    return _count(aspect.value, evidence, decided)


def _compare_input(evidence: str, pairs: Sequence[tuple[Experience, bool | None]]) -> Agreement:
    places = [a.place for a in ASPECTS if a.group is AspectGroup.INPUT]
    decided = [
        (min(e.scores[p] for p in places), bad) for e, bad in pairs if any(p not in e.judgement.unknown for p in places)
    ]
    return _count("input, any of the four", evidence, decided)


def _count(name: str, evidence: str, decided: Sequence[tuple[int, bool | None]]) -> Agreement:
    zeros = [bad for score, bad in decided if not score]
    ones = [bad for score, bad in decided if score]
    return Agreement(name, evidence, len(decided), len(zeros), sum(map(bool, zeros)), sum(map(bool, ones)))


def _outcome_means(
    judged: Sequence[tuple[Trajectory, list[Experience]]],
) -> dict[str, tuple[float | None, float | None]]:
    """Mean of each aspect, decided scores only, in successful and in failed runs."""
    by_outcome: dict[Outcome, list[Experience]] = defaultdict(list)
    for trajectory, found in judged:
        by_outcome[trajectory.feedback.outcome].extend(found)

    def mean(aspect: Aspect, outcome: Outcome) -> float | None:
        known = (e for e in by_outcome[outcome] if aspect.place not in e.judgement.unknown)
        return _share(bool(e.scores[aspect.place]) for e in known)

    return {a.value: (mean(a, Outcome.SUCCESS), mean(a, Outcome.FAILURE)) for a in ASPECTS}


def _share(values: Any) -> float | None:
    found = list(values)
    return sum(found) / len(found) if found else None


def tables(found: Report) -> list[Table]:
    """The report as tables for the terminal."""
    return [_tools_table(found), _agreement_table(found), _aspects_table(found)]


def _tools_table(found: Report) -> Table:
    from rich.table import Table

    table = Table(title=f"Classes by tool ({found.experiences} experiences, {found.unanswered} calls unanswered)")
    for name in ("domain", "tool", "|E|", "K", "Q", "perfect", "largest other", "entropy", "mean", "no error", ""):
        table.add_column(name, justify="left" if name in {"domain", "tool", ""} else "right")
    table.add_column("faults of the largest other class")
    for row in found.tools:
        s = row.statistics
        table.add_row(
            row.domain,
            row.tool,
            str(s.experiences),
            str(s.classes),
            str(s.quota),
            f"{s.perfect_share:.0%}",
            f"{s.largest_other_share:.0%}",
            f"{s.entropy:.2f}",
            f"{s.mean_score or 0:.2f}",
            f"{s.success_rate or 0:.0%}",
            "stable" if s.stable else "dynamic",
            row.largest_other,
        )
    return table


def _agreement_table(found: Report) -> Table:
    from rich.table import Table

    table = Table(title="Verdicts against evidence they did not use")
    for name in ("aspect", "bad means"):
        table.add_column(name)
    for name in ("decided", "scored 0", "bad if 0", "bad if 1", "agreement"):
        table.add_column(name, justify="right")
    for row in found.agreement:
        ones = row.decided - row.zeros
        table.add_row(
            row.aspect,
            row.evidence,
            str(row.decided),
            str(row.zeros),
            _part(row.bad_of_zeros, row.zeros),
            _part(row.bad_of_ones, ones),
            "-" if row.agreement is None else f"{row.agreement:.1%}",
        )
    table.caption = (
        f"Error responses whose response scores are not all 0: {found.errors_not_zero} of {found.error_responses}"
    )
    return table


def _aspects_table(found: Report) -> Table:
    from rich.table import Table

    table = Table(title="Aspects: what is undecided, and means of decided scores by outcome of the run (never used)")
    table.add_column("aspect")
    for name in ("undecided", "mean, successful runs", "mean, failed runs"):
        table.add_column(name, justify="right")
    for aspect in ASPECTS:
        good, bad = found.outcome_means[aspect.value]
        shown = ["-" if mean is None else f"{mean:.3f}" for mean in (good, bad)]
        table.add_row(aspect.value, f"{found.unknown_shares[aspect.value]:.0%}", *shown)
    return table


def _part(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.1%})" if whole else "-"


def as_json(found: Report) -> dict[str, Any]:
    """The report as plain JSON values."""
    return {
        "experiences": found.experiences,
        "unanswered": found.unanswered,
        "tools": [
            {
                "domain": row.domain,
                "tool": row.tool,
                "experiences": row.statistics.experiences,
                "classes": row.statistics.classes,
                "quota": row.statistics.quota,
                "perfect_share": row.statistics.perfect_share,
                "largest_other_share": row.statistics.largest_other_share,
                "largest_other": row.largest_other,
                "entropy": row.statistics.entropy,
                "aspect_means": list(row.statistics.aspect_means),
                "success_rate": row.statistics.success_rate,
                "stable": row.statistics.stable,
            }
            for row in found.tools
        ],
        "agreement": [{**row._asdict(), "agreement": row.agreement} for row in found.agreement],
        "error_responses": found.error_responses,
        "errors_not_zero": found.errors_not_zero,
        "unknown_shares": found.unknown_shares,
        "outcome_means": {name: list(means) for name, means in found.outcome_means.items()},
    }
