from __future__ import annotations

from pathlib import Path

import pytest

from fresh.gate import Verdict
from graph_schema import ConfigError
from inference.evaluate.gate import Judged, Label, draw_curves, make_curve
from inference.evaluate.gate.curve import NEVER, choose_threshold


def judged(label: Label, score: float, fold: int = 0, task: str = "") -> Judged:
    verdict = Verdict.REVISE if score > 0.5 else Verdict.ALLOW
    return Judged(task or f"{label}{score}{fold}", "d", "d", "w", label, True, verdict, score=score, fold=fold)


RIGHT, WRONG = Label.RIGHT, Label.WRONG
MIXED = [judged(RIGHT, s, i % 2) for i, s in enumerate((0, 0, 0, 0, 0, 0, 0.2, 0.2, 0.6, 0.6))] + [
    judged(WRONG, s, i % 2) for i, s in enumerate((0.9, 0.9, 0.6, 0.6, 0.2, 0.2, 0, 0))
]


def test_the_curve_falls_from_the_threshold_that_holds_nothing():
    curve = make_curve(MIXED, "made")
    found = [(p.threshold, p.false_block.part, p.recall.part) for p in curve.points]
    assert found == [(NEVER, 0, 0), (0.9, 0, 2), (0.6, 2, 4), (0.2, 4, 6)]
    assert (curve.shipped.false_block.part, curve.shipped.recall.part) == (2, 4)


def test_the_threshold_keeps_false_blocks_within_the_bound():
    assert choose_threshold(MIXED, 0.0) == 0.9
    assert choose_threshold(MIXED, 0.2) == 0.6
    assert choose_threshold(MIXED, 1.0) == 0.2
    assert choose_threshold([judged(RIGHT, 0.7)], 0.0) == NEVER


def test_the_operating_point_is_measured_on_other_parts_than_it_is_chosen_on():
    own = [judged(RIGHT, 0.1, 0), judged(WRONG, 0.3, 0), judged(RIGHT, 0.5, 1), judged(WRONG, 0.9, 1)]
    chosen = make_curve(own, "made", max_false_block=0.0).chosen
    assert chosen is not None and chosen.thresholds == {0: 0.9, 1: 0.3}
    assert (chosen.recall.part, chosen.false_block.part) == (1, 1)
    assert make_curve([j for j in own if j.fold == 0], "made").chosen is None


def test_unproven_writes_do_not_count():
    curve = make_curve([*MIXED, judged(Label.UNPROVEN, 0.95)], "made")
    assert curve.points == make_curve(MIXED, "made").points


def test_a_bound_that_is_no_share_is_refused():
    with pytest.raises(ConfigError, match="between 0 and 1"):
        make_curve(MIXED, "made", max_false_block=1.5)


def test_the_picture_is_drawn(tmp_path: Path):
    curves = [make_curve(MIXED, f"set {i}") for i in range(4)]
    draw_curves(curves, tmp_path / "new" / "curve.png")
    assert (tmp_path / "new" / "curve.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConfigError, match="format"):
        draw_curves(curves, tmp_path / "curve.nothing")
    with pytest.raises(ConfigError, match="no curve"):
        draw_curves([], tmp_path / "curve.png")
