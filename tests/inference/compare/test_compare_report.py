from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fresh.retrieval.metrics import Estimate
from graph_schema.trajectory import ToolSpec
from inference.compare.config import CompareConfig
from inference.compare.estimates import MEASURES
from inference.compare.picture import draw
from inference.compare.report import (
    AHEAD,
    CompareReport,
    csv_text,
    make_report,
    markdown,
    reader_for,
    tables,
    text,
    write,
)
from inference.compare.run import Builder, Plan, compare
from inference.compare.store import FoldResult
from tests.compare_world import Frequent, NoMemory, agent, call, desk_runs, run, user

CONFIG = CompareConfig(name="desks", paths=("*.jsonl",), folds=3, points_per_run=3, encoder="hashed")
PLAN = Plan(CONFIG, desk_runs())
BUILDERS: dict[str, Builder] = {"none": NoMemory.build, "frequent": Frequent.build}


class Oracle(Frequent):
    """Says what every run of the desks needs; only to see the table from its best side."""

    @classmethod
    def build(cls, trajectories, setting=None):  # type: ignore[no-untyped-def]
        return cls("call find_customer\ncall get_order\ncall cancel_order")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> CompareReport:
    work = tmp_path_factory.mktemp("work")
    return make_report(PLAN, compare(PLAN, {**BUILDERS, "fresh": Oracle.build}, work), reference="fresh")


def test_measures_costs_and_counts(report: CompareReport) -> None:
    rows = {row.memory: row for row in report.rows}
    silent, frequent = rows["none"], rows["frequent"]
    assert silent.measures["next_f1"] is not None and silent.measures["next_f1"].mean == 0
    assert silent.measures["false_warnings"] is None and silent.cost.silent == 1 and silent.cost.tokens == 0
    assert frequent.measures["next_recall"] is not None and frequent.measures["next_recall"].mean > 0.1
    assert frequent.measures["foreseen_recall"] is not None and frequent.measures["foreseen_recall"].mean > 0.5
    assert 0 < frequent.cost.tokens <= frequent.cost.most_tokens <= CONFIG.budget
    assert frequent.cost.bytes > 0 and frequent.cost.p50_ms <= frequent.cost.p95_ms
    assert report.counts["runs"] == report.counts["measured_runs"] == 80
    assert 0 < report.counts["points_with_needed"] <= report.counts["points"] <= 3 * 80
    assert not rows["fresh"].against and set(frequent.against) == set(MEASURES)


def test_differences_are_the_references_minus_the_others(report: CompareReport) -> None:
    rows = {row.memory: row for row in report.rows}
    for row in (rows["none"], rows["frequent"]):
        ours, theirs, apart = rows["fresh"].measures["next_f1"], row.measures["next_f1"], row.against["next_f1"]
        assert ours and theirs and apart and apart.mean == pytest.approx(ours.mean - theirs.mean)
        assert apart.low <= apart.mean <= apart.high


def test_the_best_is_of_those_that_recommend(report: CompareReport) -> None:
    values = {row.memory: row.measures["harm"].mean for row in report.rows if row.measures["harm"]}
    assert values["none"] == 0 and "none" not in report.best("harm")
    f1 = {row.memory: row.measures["next_f1"].mean for row in report.rows if row.measures["next_f1"]}
    assert report.best("next_f1") == (max(f1, key=lambda memory: f1[memory]),)
    assert CompareReport("x", "", (report.rows[0],), {}, {}, {}).best("next_f1") == ()


def test_the_table_says_who_leads_and_who_does_not(report: CompareReport) -> None:
    assert len(report.verdicts()) == len(AHEAD)
    f1 = {row.memory: row.measures["next_f1"].mean for row in report.rows if row.measures["next_f1"]}
    how = "ahead of" if f1["fresh"] > f1["frequent"] else "behind"
    assert report.verdicts()[0].startswith(
        f"next tool F1: fresh ({f1['fresh']:.3f}) is {how} the best other memory, frequent"
    )
    turned = [row if row.memory != "frequent" else replace(row, against={}) for row in report.rows]
    other = CompareReport("x", "frequent", tuple(turned), report.counts, report.settings, report.versions)
    assert ("behind" if how == "ahead of" else "ahead of") in other.verdicts()[0]
    assert CompareReport("x", "", report.rows, {}, {}, {}).verdicts() == []
    twin = replace(next(row for row in report.rows if row.memory == "fresh"), memory="twin")
    level = CompareReport("x", "fresh", (*report.rows[2:], twin), report.counts, report.settings, {})
    assert all("is level with the best other memory, twin" in line for line in level.verdicts())


def test_a_variant_is_no_rival_and_what_it_does_worse_is_said(report: CompareReport) -> None:
    own = next(row for row in report.rows if row.memory == "fresh")
    apart = {
        "next_f1": Estimate(0.1, 0.05, 0.2),
        "foreseen_f1": Estimate(0.1, -0.1, 0.2),
        "harm": Estimate(0.1, 0.05, 0.2),
    }
    kin = replace(own, memory="fresh-x", against=apart)
    shown = replace(report, rows=(*report.rows, kin)).verdicts()
    assert shown[: len(AHEAD)] == report.verdicts()
    assert shown[len(AHEAD) :] == [
        "fresh-x: worse in next tool F1 by 0.100; better in harm by 0.100; "
        "no difference in foreseen F1 that is clear of 0."
    ]
    tiny = {measure: Estimate(0.0004, 0.0001, 0.0007) for measure in apart}
    for none in (dict.fromkeys(apart), tiny):
        same = replace(report, rows=(*report.rows, replace(kin, against=none))).verdicts()[-1]
        assert same == "fresh-x: no difference in next tool F1, foreseen F1, harm that is clear of 0."


def test_markdown_marks_the_best_and_tells_everything(report: CompareReport) -> None:
    shown = markdown(report)
    for row in report.rows:
        assert f"| {row.memory} |" in shown
    for measure in MEASURES:
        for memory in report.best(measure):
            row = next(row for row in report.rows if row.memory == memory)
            assert f"**{text(row.measures[measure])}**" in shown
    for line in report.verdicts():
        assert f"- {line}" in shown
    assert "seed 0" in shown and "80 runs of" in shown and "fresh minus" in shown


def test_csv_and_json_hold_the_same_figures(report: CompareReport) -> None:
    lines = list(csv.DictReader(io.StringIO(csv_text(report))))
    plain = json.loads(json.dumps(report.plain()))
    for row in plain["rows"]:
        own = {line["measure"]: line for line in lines if line["memory"] == row["memory"]}
        for measure in MEASURES:
            value = row["measures"][measure]
            assert own[measure]["value"] == ("" if value is None else str(value["mean"]))
        assert float(own["tokens"]["value"]) == row["cost"]["tokens"]
    assert plain["settings"]["seed"] == 0 and plain["versions"]["python"] and plain["verdicts"] == report.verdicts()


def test_terminal_tables_keep_their_brackets(report: CompareReport) -> None:
    console = Console(width=220, record=True)
    for table in tables(report):
        console.print(table)
    shown = console.export_text()
    assert all(text(row.measures["next_f1"]) in shown for row in report.rows)


def test_files_are_written(report: CompareReport, tmp_path: Path) -> None:
    files = write(report, tmp_path / "new")
    assert [path.suffix for path in files] == [".md", ".csv", ".json", ".png"]
    assert files[3].read_bytes().startswith(b"\x89PNG")
    empty = replace(report.rows[0], measures=dict.fromkeys(MEASURES))
    assert draw(CompareReport("x", "", (empty,), report.counts, {}, {}), tmp_path / "empty.png")


def test_results_of_different_code_are_told(tmp_path: Path) -> None:
    results = compare(PLAN, BUILDERS, tmp_path)
    changed: dict[str, list[FoldResult]] = {
        "none": [replace(result, code="other") for result in results["none"]],
        "frequent": [replace(result, versions={"python": "2.7"}) for result in results["frequent"]],
    }
    assert make_report(PLAN, results).notes == ()
    notes = " ".join(make_report(PLAN, changed).notes)
    assert "different code: none" in notes and "--again" in notes and "versions" in notes


def test_a_tool_of_another_domain_is_known_to_the_reader() -> None:
    runs = [
        run(user("x"), agent(call(f"get_{domain}", **{domain: "1"})), domain=domain, task=str(i))
        for i in range(4)
        for domain in ("mail", "disk")
    ]
    plan = Plan(replace(CONFIG, folds=2), runs, {"get_mail": ToolSpec(name="get_mail")})
    assert reader_for(plan, 0).read("call get_mail, then get_disk with disk").tools == ("get_mail", "get_disk")
