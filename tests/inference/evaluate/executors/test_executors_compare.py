"""The arms over tasks: pairing, resuming, what is written, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import ORDER, ChatServer, action, chat_model, say

from fresh.guidance import estimate_tokens
from fresh.traces import load
from graph_schema.errors import ConfigError, EvaluatorError
from graph_schema.trajectory import Outcome
from inference.evaluate.executors import (
    Arm,
    Executor,
    Helpers,
    LoopReport,
    LoopSettings,
    Protocol,
    ScriptedUser,
    SequenceNotes,
    check_unseen,
    choose_tasks,
    run_arms,
)
from inference.evaluate.tau2.environment import Domain
from inference.evaluate.tau2.record import record_runs
from inference.evaluate.tau2.settings import Settings

if TYPE_CHECKING:
    from tau2.data_model.tasks import Task

SETTINGS = LoopSettings(protocol=Protocol.JSON, resamples=50)
NOTE = "do as before"
Compare = Callable[..., LoopReport]


class Notes:
    def note(self, messages: Any, tools: Any, budget: int) -> str:
        return NOTE


def helped(body: dict[str, Any]) -> Any:
    """Does the right thing at once where a note is shown; else says something useless."""
    text = body["messages"][-1]["content"]
    return action("cancel_pending_order", **ORDER) if NOTE in text else say(json.dumps({"say": "I cannot help."}))


@pytest.fixture
def compare(retail: Domain, task: Task, server: ChatServer, tmp_path: Path) -> Compare:
    server.choose = helped

    def run(
        arms: tuple[Arm, ...] = (Arm.NONE, Arm.GUIDANCE),
        settings: LoopSettings = SETTINGS,
        folder: str = "out",
        **more: Any,
    ) -> LoopReport:
        model = chat_model(server, attempts=1)
        executor = Executor(model, settings.protocol, retail.policy, retail.tools, max_tokens=50)
        helpers = Helpers(notes=Notes(), guidance=Notes(), **more)
        return run_arms(
            retail,
            [task],
            arms,
            executor,
            lambda chosen: ScriptedUser(chosen, [], 2),
            helpers,
            settings,
            tmp_path / folder,
            common={"model": "m"},
        )

    return run


def test_arms_are_compared_task_by_task(compare: Compare) -> None:
    report = compare()
    assert {run.arm: run.measures.reward for run in report.runs} == {Arm.NONE: 0.0, Arm.GUIDANCE: 1.0}
    gain = report.difference(Arm.GUIDANCE, "reward")
    assert gain is not None
    assert gain.mean == 1.0
    assert report.totals(Arm.GUIDANCE)["won"] == 1
    assert report.totals(Arm.NONE)["ended: stuck"] == 1
    assert report.pass_k(Arm.GUIDANCE)[1].mean == 1.0
    plain = report.as_json()
    assert json.loads(json.dumps(plain))["arms"]["guidance"]["differences"]["reward"]["mean"] == 1.0
    assert "secret-key" not in json.dumps(plain)
    assert [len(table.rows) for table in report.tables()] == [12, 12]


def test_the_results_can_be_mined_again(compare: Compare, tmp_path: Path) -> None:
    from fresh.cli import main
    from graph_schema.graph import ExperienceGraph

    compare()
    runs, _ = load([tmp_path / "out" / "guidance.json"])
    assert [(run.task_id, run.agent, run.feedback.outcome) for run in runs] == [("88", "m", Outcome.SUCCESS)]
    assert [call.tool for _, call in runs[0].calls()] == ["cancel_pending_order"]
    with pytest.raises(SystemExit):
        main(["mine", str(tmp_path / "out"), "-o", str(tmp_path / "memory"), "--no-embed", "--workers", "1"])
    assert ExperienceGraph.load(tmp_path / "memory").tables.runs.num_rows == 2


def test_transcripts_can_be_read(compare: Compare, tmp_path: Path) -> None:
    compare()
    text = (tmp_path / "out" / "transcripts" / "88-guidance-0.txt").read_text()
    for expected in ("reward 1", "wanted: cancel_pending_order(order_id=#W8835847", f"| {NOTE}", "USER: I want to"):
        assert expected in text
    assert "Retail agent policy" not in text


def test_an_interrupted_comparison_goes_on_where_it_stopped(
    compare: Compare, server: ChatServer, tmp_path: Path
) -> None:
    server.choose = lambda body: 400 if NOTE in body["messages"][-1]["content"] else helped(body)
    with pytest.raises(EvaluatorError):
        compare()
    file = tmp_path / "out" / "finished.log"
    file.write_text(file.read_text() + '{"domain": "ret')  # what a crash leaves
    server.choose = helped
    server.requests.clear()
    report = compare()
    assert len(report.runs) == 2
    assert all(NOTE in request["messages"][-1]["content"] for request in server.requests)
    server.requests.clear()
    assert compare().as_json()["runs"] == report.as_json()["runs"]
    assert server.requests == []


def test_the_folder_of_another_comparison_is_refused(compare: Compare, tmp_path: Path) -> None:
    compare()
    with pytest.raises(ConfigError, match=r"another comparison \(different: settings\)"):
        compare(settings=SETTINGS.model_copy(update={"max_steps": 3}))
    file = tmp_path / "out" / "finished.log"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], "{}", *lines[1:]]) + "\n")
    with pytest.raises(ConfigError, match="line 2: not a finished run"):
        compare()
    file.write_text("no json\n")
    with pytest.raises(ConfigError, match="everything"):
        compare()


def test_arms_without_what_they_need_are_refused(retail: Domain) -> None:
    for arm in (Arm.NOTES, Arm.GUIDANCE, Arm.GATE, Arm.BOTH):
        with pytest.raises(ConfigError, match="needs"):
            Helpers().of(arm)
    assert Helpers().of(Arm.NONE) == (None, None)
    notes, memory = Notes(), Notes()
    parts = Helpers(notes=notes, guidance=memory, gate=memory)  # type: ignore[arg-type]
    assert parts.of(Arm.NONE) == (None, None)
    assert parts.of(Arm.NOTES) == (notes, None)
    assert parts.of(Arm.GUIDANCE) == (memory, None)
    assert parts.of(Arm.GATE) == (None, memory)
    assert parts.of(Arm.BOTH) == (memory, memory)


def test_tasks_are_chosen_by_split_writes_and_id(retail: Domain) -> None:
    single = choose_tasks(retail, "test", writes=1)
    assert len(single) == 25
    assert [task.id for task in choose_tasks(retail, "test", writes=1, limit=20)] == [task.id for task in single[:20]]
    assert [task.id for task in choose_tasks(retail, "train", ids=["88"])] == ["88"]
    with pytest.raises(ConfigError, match="no task 88"):
        choose_tasks(retail, "test", ids=["88"])
    with pytest.raises(ConfigError, match="no task of the test split"):
        choose_tasks(retail, "test", writes=99)


def test_mined_tasks_are_refused(retail: Domain, task: Task) -> None:
    with pytest.raises(ConfigError, match="retail tasks 88"):
        check_unseen(retail, [task], Helpers(mined=frozenset({"retail/88", "retail/1"})))
    check_unseen(retail, [task], Helpers(mined=frozenset({"airline/88"})))


def test_notes_are_sequences_of_successful_runs(tmp_path: Path) -> None:
    pytest.importorskip("tau2")
    record_runs("retail", "train", tmp_path / "train.json", Settings(record_trials=1))
    runs, _ = load([tmp_path / "train.json"])
    notes = SequenceNotes(runs, count=1)
    asked = [
        {"role": "system", "content": "cancel"},
        {"role": "user", "content": "Please cancel my order, no longer needed."},
    ]
    text = notes.note(asked, [], 300)
    assert "cancel_pending_order(order_id, reason)" in text
    assert not any(character.isdigit() for character in text)
    assert notes.note(asked, [], 3) == ""
    short = notes.note(asked, [], estimate_tokens(text) - 1)
    assert "cancel_pending_order" in short and "(order_id" not in short
    two = SequenceNotes(runs, count=2)
    assert two.note(asked, [], 300).count("\n- ") == 2
    assert two.note(asked, [], estimate_tokens(two.note(asked, [], 300)) - 1) == text
    assert notes.note([{"role": "user", "content": "zzz"}], [], 300) == ""
    failed = [run for run in runs if run.feedback.outcome is not Outcome.SUCCESS]
    with pytest.raises(ConfigError, match="no recorded run was successful"):
        SequenceNotes(failed)


def test_the_command_runs_the_arms_and_writes_its_report(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fresh.cli import main

    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    record_runs("retail", "train", tmp_path / "train.json", Settings(record_trials=1))
    server.script([action("transfer_to_human_agents", summary="too hard")])
    told = [
        "--model",
        "m",
        "--base-url",
        server.base_url,
        "--notes",
        str(tmp_path / "train.json"),
        "--protocol",
        "json",
    ]
    out = tmp_path / "runs" / "out"
    with pytest.raises(SystemExit) as ended:
        main(["eval", "llm", *told, "--arm", "none", "--arm", "bm25", "--limit", "2", "-o", str(out)])
    assert ended.value.code == 0
    report = json.loads((out / "report.json").read_text())
    assert [(run["arm"], run["ended"]) for run in report["runs"]] == [
        ("none", "transferred"),
        ("bm25", "transferred"),
    ] * 2
    assert "A small sample: 2 tasks." in capsys.readouterr().out
    assert not [path for path in out.rglob("*") if path.is_file() and "secret-key" in path.read_text()]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--arm", "all"], "'all' is neither an arm"),
        (["--user", "me"], "'me' is neither an arm"),
        (["--domain", "telecom"], "name one of airline, retail"),
        (["--arm", "guidance"], "needs a memory"),
        (["--arm", "bm25"], "needs recorded runs"),
        (["--protocol", "xml"], "protocol: "),
        (["--split", "none"], "has no split"),
        (["--prefix-file", "--arm", "none"], "needs the base URL"),
    ],
)
def test_wrong_options_end_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    from fresh.cli import main

    pytest.importorskip("tau2")
    with pytest.raises(SystemExit) as ended:
        main(["eval", "llm", "--model", "m", "-o", str(tmp_path / "out"), *options])
    assert ended.value.code == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert "\n" not in error


def test_a_memory_of_the_same_tasks_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fresh.cli import main

    pytest.importorskip("tau2")
    record_runs("retail", "train", tmp_path / "train.json", Settings(record_trials=1))
    asked = ["eval", "llm", "--model", "m", "-o", str(tmp_path / "out"), "--split", "train", "--limit", "1"]
    with pytest.raises(SystemExit) as ended:
        main([*asked, "--arm", "bm25", "--notes", str(tmp_path / "train.json")])
    assert ended.value.code == 2
    assert "measured is on tasks that were not mined" in capsys.readouterr().err
