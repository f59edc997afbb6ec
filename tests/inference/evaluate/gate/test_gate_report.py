from __future__ import annotations

from fresh.gate import Verdict
from inference.evaluate.gate import Judged, Label, report_each, summarise
from inference.evaluate.gate.kinds import Kind, Mark, Mistake, Sign
from inference.evaluate.gate.report import count_guards

UNSEEN = frozenset({Mark(Sign.UNGROUNDED, "id")})


def judged(label: Label, *checks: str, kind: Kind | None = None, accepted: bool = True, marks=frozenset(), data="d"):
    verdict = Verdict.REVISE if checks else Verdict.ALLOW
    mistake = Mistake(kind, ("id",)) if kind else None
    return Judged(f"{label}{checks}{kind}", data, "d", "w", label, accepted, verdict, checks, 0.0, mistake, marks)


WRITES = [
    *[judged(Label.RIGHT) for _ in range(8)],
    judged(Label.RIGHT, "confirmed"),
    judged(Label.WRONG, "grounded", "confirmed", kind=Kind.FROM_NOWHERE, marks=UNSEEN, accepted=False),
    judged(Label.WRONG, "grounded", kind=Kind.FROM_NOWHERE, marks=UNSEEN),
    judged(Label.WRONG, kind=Kind.WRONG_VALUE),
    judged(Label.UNPROVEN, "grounded"),
]


def test_shares_by_kind_with_what_could_have_been_foreseen():
    report = summarise(WRITES, "x")
    assert (report.passed_right.part, report.passed_right.whole, report.unproven) == (8, 9, 1)
    assert (report.held_wrong.part, report.held_wrong.whole) == (2, 3)
    assert report.held_foreseeable.value == 1.0 and report.held_refused.whole == 1
    nowhere, value = report.kinds
    assert (nowhere.kind, nowhere.held.part, nowhere.refused, nowhere.foreseeable) == (Kind.FROM_NOWHERE, 2, 1, 2)
    assert value.plain()["meaning_only"] == 1 and nowhere.arguments == (("id", 2),)
    assert report.signs == {Sign.UNGROUNDED.value: 2}


def test_a_guard_is_worth_what_it_alone_holds():
    found = count_guards(WRITES)
    assert vars(found["confirmed"]) == {"right": 1, "wrong": 1, "right_alone": 1, "wrong_alone": 0}
    assert vars(found["grounded"]) == {"right": 0, "wrong": 2, "right_alone": 0, "wrong_alone": 1}


def test_a_report_for_each_data_set():
    assert [r.name for r in report_each([*WRITES, judged(Label.RIGHT, data="a")])] == ["a", "d"]
