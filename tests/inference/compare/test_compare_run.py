from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest

from fresh.guidance import estimate_tokens
from fresh.retrieval.encoder import HashedEncoder
from graph_schema.errors import ConfigError
from graph_schema.trajectory import Trajectory
from inference.baselines.base import Advice, Setting
from inference.compare.config import CONFIGS, CompareConfig, agent_of, sides
from inference.compare.run import Plan, compare, within
from inference.compare.store import Given, Store
from tests.compare_world import Frequent, NoMemory, agent, call, desk_runs, run, user

CONFIG = CompareConfig(name="desks", paths=("*.jsonl",), folds=3, points_per_run=3, encoder="hashed")
PLAN = Plan(CONFIG, desk_runs())


class Counting(Frequent):
    """Remembers what it was built from and asked."""

    built: ClassVar[list[set[str]]] = []
    asked: ClassVar[list[tuple[int, int]]] = []

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        cls.built.append({trajectory.task_key for trajectory in trajectories})
        return super().build(trajectories, setting)

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        self.asked.append((len(messages), len(tools or ())))
        return super().guide(messages, tools, budget)


@pytest.fixture(autouse=True)
def _forget() -> None:
    Counting.built, Counting.asked = [], []


def test_memories_never_see_a_task_they_are_asked_about(tmp_path: Path) -> None:
    results = compare(PLAN, {"counting": Counting.build}, tmp_path)["counting"]
    assert len(Counting.built) == 3
    for result, built in zip(results, Counting.built, strict=True):
        held = PLAN.measured(result.fold)
        assert held and not built & {one.task for one in held}
        assert set(result.advice) == {one.run.id for one in held}
        assert all(len(result.advice[one.run.id]) == len(one.points) for one in held)
    measured = [one.run.id for fold in range(3) for one in PLAN.measured(fold)]
    assert sorted(measured) == [one.id for one in PLAN.runs]
    assert all(messages > 0 and tools > 0 for messages, tools in Counting.asked)


def test_an_interrupted_comparison_goes_on_where_it_stopped(tmp_path: Path) -> None:
    class Broken(Counting):
        @classmethod
        def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
            if len(cls.built) == 2:
                raise KeyboardInterrupt
            return super().build(trajectories, setting)

    with pytest.raises(KeyboardInterrupt):
        compare(PLAN, {"counting": Broken.build, "none": NoMemory.build}, tmp_path)
    assert len(Counting.built) == 2
    first = compare(PLAN, {"counting": Counting.build, "none": NoMemory.build}, tmp_path)
    assert len(Counting.built) == 3
    again = compare(PLAN, {"none": NoMemory.build, "counting": Counting.build}, tmp_path)
    assert len(Counting.built) == 3 and again["counting"] == first["counting"]
    compare(PLAN, {"counting": Counting.build}, tmp_path, again=["counting"])
    assert len(Counting.built) == 6


@pytest.mark.parametrize(
    "changed",
    [{"budget": 50}, {"seed": 1}, {"points_per_run": 2}, {"folds": 4}, {"encoder": "other"}, {"training": {"x": 1}}],
)
def test_results_of_other_settings_are_not_used(tmp_path: Path, changed: dict[str, Any]) -> None:
    compare(PLAN, {"counting": Counting.build}, tmp_path)
    other = Plan(replace(CONFIG, **changed), desk_runs())
    assert other.fingerprint != PLAN.fingerprint
    compare(other, {"counting": Counting.build}, tmp_path, encoder=HashedEncoder())
    assert len(Counting.built) == 3 + other.config.folds
    compare(PLAN, {"counting": Counting.build}, tmp_path)  # those of the first settings are still there
    assert len(Counting.built) == 3 + other.config.folds


def test_results_of_other_runs_are_not_used() -> None:
    assert Plan(CONFIG, desk_runs()[1:]).fingerprint != PLAN.fingerprint
    assert Plan(CONFIG, desk_runs()[::-1]).fingerprint == PLAN.fingerprint
    assert Plan(replace(CONFIG, name="renamed"), desk_runs()).fingerprint == PLAN.fingerprint


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"advice": {"x": [{"text": 1}]}}', b"\xff"])
def test_a_damaged_result_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    first = compare(PLAN, {"counting": Counting.build}, tmp_path)
    path = next(tmp_path.glob("counting.1.*.json"))
    path.write_bytes(damage)
    second = compare(PLAN, {"counting": Counting.build}, tmp_path)
    assert len(Counting.built) == 4
    for run_id, given in first["counting"][1].advice.items():
        assert [one.text for one in second["counting"][1].advice[run_id]] == [one.text for one in given]


def test_a_file_in_place_of_the_work_folder(tmp_path: Path) -> None:
    file = tmp_path / "work"
    file.write_text("x")
    with pytest.raises(ConfigError, match="is a file"):
        Store(file, "x")


def test_the_budget_is_the_same_for_all_and_the_text_alone_counts(tmp_path: Path) -> None:
    class Long(NoMemory):
        def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
            assert budget == CONFIG.budget
            return Advice("call get_order\n" * 500, tools=({"function": {"name": "x", "description": "x" * 5_000}},))

    results = compare(PLAN, {"long": Long.build}, tmp_path)["long"]
    given = [one for result in results for own in result.advice.values() for one in own]
    assert given and all(one.cut and one.text and one.tokens <= CONFIG.budget for one in given)


def test_lines_are_never_cut() -> None:
    assert within("ab\ncd", 2) == "ab\ncd" and within("abc\ndef", 2) == "abc" and within("abcdefg", 1) == ""
    assert estimate_tokens(within("word " * 5 + "\n" + "é" * 100, 12)) <= 12


def test_across_models_each_agent_is_on_one_side(tmp_path: Path) -> None:
    runs = [
        run(user("x"), agent(call("get_order", order_id="1")), task=str(i // 3 % 6), agent=name)
        for i, name in enumerate(["gpt-4o", "claude-3", "claude-4"] * 12)
    ]
    config = replace(CONFIG, mine_agents=("Claude-*",))
    plan = Plan(config, runs)
    for fold in range(3):
        assert {agent_of(one) for one in plan.mined(fold)} == {"claude-3", "claude-4"}
        assert {agent_of(one.run) for one in plan.measured(fold)} == {"gpt-4o"}
        assert not {one.task_key for one in plan.mined(fold)} & {one.task for one in plan.measured(fold)}
    measured = sides(replace(CONFIG, measure_agents=("gpt-4o",)), runs)
    assert measured == sides(config, runs)
    with pytest.raises(ConfigError, match="no agent is called 'llama'; there are: claude-3, claude-4, gpt-4o"):
        Plan(replace(CONFIG, mine_agents=("llama",)), runs)
    with pytest.raises(ConfigError, match="claude-3 would be mined and measured"):
        Plan(replace(CONFIG, mine_agents=("claude-*",), measure_agents=("claude-3",)), runs)
    with pytest.raises(ConfigError, match="nobody is left"):
        Plan(replace(CONFIG, mine_agents=("*",)), runs)


def test_an_agent_without_a_name_is_called_after_its_file() -> None:
    assert agent_of(run(user("x"))) == "some-agent-airline"
    assert agent_of(run(user("x"), agent="gpt")) == "gpt"


def test_runs_of_no_use_are_refused() -> None:
    with pytest.raises(ConfigError, match="no runs"):
        Plan(CONFIG, [])
    with pytest.raises(ConfigError, match="folds"):
        Plan(replace(CONFIG, folds=99), desk_runs())


def test_missing_data(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--data names the folder"):
        Plan.load(CONFIG, tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"none of \*\.jsonl is under"):
        Plan.load(CONFIG, tmp_path)


@pytest.mark.parametrize("name", [path.stem for path in CONFIGS.glob("*.yaml")])
def test_packaged_configs_read(name: str) -> None:
    config = CompareConfig.read(name)
    assert config.name == name and config.paths and config.budget == 300


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "name: x\npaths: [a]\ncolour: red",
            "has the unknown keys colour; the keys of a comparison config are: name, paths",
        ),
        ("name: x", "lacks the keys paths"),
        ("- a", "not a comparison config"),
        ("name: x\npaths: a.jsonl", "paths of comparison 'x' is a list of texts"),
        ("name: x\npaths: [a]\nfolds: 1", "folds of comparison 'x' is a whole number from 2"),
        ("name: x\npaths: [a]\nbudget: many", "budget of comparison 'x' is a whole number from 1"),
        ("name: [", "not a comparison config"),
    ],
)
def test_wrong_configs_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        CompareConfig.read(file)
    with pytest.raises(ConfigError, match="one of agentdojo, airline, retail, telecom"):
        CompareConfig.read("nowhere")


def test_kept_advice_reads_back(tmp_path: Path) -> None:
    given = Given("é <b>", 0.5, True)
    results = compare(PLAN, {"odd / name": Frequent.build}, tmp_path)["odd / name"]
    kept = replace(results[0], advice={"run": (given,)})
    store = Store(tmp_path, "fingerprint")
    store.put(kept)
    assert store.get("odd / name", 0) == kept
    assert store.get("odd - name", 0) is None and store.get("odd / name", 1) is None
