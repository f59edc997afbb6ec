from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from graph_schema.errors import ConfigError
from inference.compare.command import Options, chosen, print_memories, run_command
from inference.compare.report import CompareReport
from inference.compare.run import Builder
from tests.compare_world import DESKS, Frequent, NoMemory

BUILDERS: dict[str, Builder] = {"none": NoMemory.build, "fresh-heuristic": Frequent.build, "bm25": Frequent.build}
GROUPS = {"ablations": ("fresh-heuristic", "none"), "all": tuple(BUILDERS)}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "desks.yaml"
    path.write_text("name: desks\npaths: [garden.jsonl]\nfolds: 2\npoints_per_run: 2\nencoder: hashed\n")
    return path


def command(configs: list[str], data: Path | None, options: Options) -> tuple[list[CompareReport], str]:
    console, log = Console(width=220, record=True), Console(width=220, record=True)
    found = run_command(configs, data, options, builders=BUILDERS, groups=GROUPS, fitter=None, console=console, log=log)
    return found, console.export_text()


def test_compares_prints_and_writes(config: Path, tmp_path: Path) -> None:
    options = Options(
        memories=("ablations",),
        work=tmp_path / "work",
        output=tmp_path / "out",
        json_file=tmp_path / "all.json",
        changes={"budget": 120, "seed": None, "mine_agents": ()},
    )
    (report,), shown = command([str(config)], DESKS, options)
    assert [row.memory for row in report.rows] == ["fresh-heuristic", "none"] and report.reference == "fresh-heuristic"
    assert report.settings["budget"] == 120 and report.settings["seed"] == 0
    assert "fresh-heuristic" in shown and "next tool F1" in shown
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        f"compare-desks{ending}" for ending in (".md", ".csv", ".json", ".png")
    }
    assert json.loads((tmp_path / "all.json").read_text())["compare"][0]["compare"] == "desks"
    assert len(list((tmp_path / "work").iterdir())) == 4


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fresh-heuristc", "no memory called 'fresh-heuristc'; did you mean fresh-heuristic"),
        ("bm", "did you mean bm25"),
        ("ablation", "did you mean ablations"),
        ("zzz", "there are: none, fresh-heuristic, bm25, ablations, all"),
    ],
)
def test_an_unknown_memory_names_its_neighbours(config: Path, tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        command([str(config)], DESKS, Options(memories=("none", name), work=tmp_path / "work"))
    assert not (tmp_path / "work").exists()


def test_names_and_groups_are_taken_once_in_order() -> None:
    assert chosen(("bm25", "ablations", "bm25"), BUILDERS, GROUPS) == ("bm25", "fresh-heuristic", "none")
    assert chosen((), BUILDERS, GROUPS) == tuple(BUILDERS)


@pytest.mark.parametrize(
    ("configs", "data", "options", "message"),
    [
        ([], DESKS, Options(), "name what to compare on"),
        (["airline"], None, Options(), "--data is missing"),
        (["airlin"], DESKS, Options(), "no comparison config at airlin"),
        (["airline"], DESKS / "nowhere", Options(), "there is no folder"),
        (["airline"], DESKS, Options(), "none of tau-bench"),
        (["airline"], DESKS, Options(memories=("none",), reference="bm25"), "--reference bm25: it is not among"),
        (["airline"], DESKS, Options(again=("bm",)), "did you mean bm25"),
    ],
)
def test_wrong_arguments(configs: list[str], data: Path | None, options: Options, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        command(configs, data, options)


def test_across_models_the_files_have_a_name_of_their_own(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (DESKS / "garden.jsonl").read_text(encoding="utf-8").splitlines()]
    agents = [json.dumps(row | {"agent": f"model-{i % 2}"}) for i, row in enumerate(rows)]
    (tmp_path / "runs.jsonl").write_text("\n".join(agents))
    (tmp_path / "c.yaml").write_text("name: desks\npaths: [runs.jsonl]\nfolds: 2\nencoder: hashed\n")
    options = Options(
        memories=("bm25",), work=tmp_path / "w", output=tmp_path / "o", changes={"measure_agents": ("*-1",)}
    )
    (report,), shown = command([str(tmp_path / "c.yaml")], tmp_path, options)
    assert report.counts["measured_runs"] == report.counts["runs"] / 2
    assert (tmp_path / "o" / "compare-desks-across-models.md").is_file() and "measured: runs of *-1" in shown


def test_a_file_as_work_folder(config: Path, tmp_path: Path) -> None:
    (tmp_path / "work").write_text("")
    with pytest.raises(ConfigError, match="work is a file"):
        command([str(config)], DESKS, Options(memories=("none",), work=tmp_path / "work"))


def test_published_figures_alone() -> None:
    reports, shown = command([], None, Options(with_published=True))
    assert reports == [] and "published, not measured" in shown
    assert "Qwen3-8B, H-EPM, airline: no counts give these" in shown


def test_memories_are_listed() -> None:
    console = Console(width=220, record=True)
    print_memories(BUILDERS, GROUPS, console)
    assert console.export_text().split("\n")[:4] == [
        "none",
        "fresh-heuristic",
        "bm25",
        "ablations (group): fresh-heuristic, none",
    ]
