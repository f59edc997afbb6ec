from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest
from hand_made import EFFECTS, Refused, call, calls, run, says, step, user
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fresh.mining import mine
from fresh.observations import text_leaves
from fresh.traces import load
from fresh.values import argument_leaves, is_identifier, is_reference, normalise
from graph_schema import (
    CallStatus,
    Effect,
    ExperienceGraph,
    GoldAction,
    NodeType,
    Outcome,
    Relation,
    ToolSpec,
    Trajectory,
)

SEEN = step("look", {"book": "BK-71"}, {"book": "BK-71", "state": "in"})
LEND = step("lend", {"book": "BK-71"})


def files(graph: ExperienceGraph, folder: Path) -> dict[str, bytes]:
    graph.save(folder)
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def edges(graph: ExperienceGraph, relation: Relation) -> dict[tuple[str, str], int]:
    index, count = graph.edges_of(relation)
    return {(graph.node(s).key, graph.node(t).key): int(c) for (s, t), c in zip(index.T, count, strict=True)}


class TestDeterminism:
    @settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.randoms(use_true_random=False))
    def test_the_order_of_runs_does_not_matter(
        self, desk_runs: list[Trajectory], tmp_path_factory: pytest.TempPathFactory, shuffle: random.Random
    ) -> None:
        mixed = list(desk_runs)
        shuffle.shuffle(mixed)
        left = files(mine(desk_runs), tmp_path_factory.mktemp("memory"))
        right = files(mine(mixed), tmp_path_factory.mktemp("memory"))
        assert left == right

    def test_a_run_given_twice_counts_once(self, desk_runs: list[Trajectory], tmp_path: Path) -> None:
        once, twice = mine(desk_runs), mine([*desk_runs, *desk_runs[:9]])
        assert files(once, tmp_path / "a") == files(twice, tmp_path / "b")

    def test_merging_what_was_mined_apart_counts_every_run(self, desk_runs: list[Trajectory]) -> None:
        parts = mine(desk_runs[::2]), mine(desk_runs[1::2])
        whole, merged = mine(desk_runs), parts[0].merge(parts[1])
        for node_type in (NodeType.ACTION, NodeType.TOOL, NodeType.TASK, NodeType.ERROR, NodeType.OBSERVATION):
            counted = [
                {n.key: (n.success, n.failure, n.unknown, n.runs) for n in graph.nodes(node_type)}
                for graph in (whole, merged)
            ]
            assert counted[0] == counted[1]
        assert merged.settings["effects"] == whole.settings["effects"]


class TestEdges:
    def test_order_is_learnt_from_successful_runs_alone(self) -> None:
        turns = user("BK-71"), SEEN, LEND
        for outcome in Outcome:
            graph = mine([run(*turns, outcome=outcome)], effects=EFFECTS)
            expected = {("look(book=<BOOK>)", "lend(book=<BOOK>)"): 1} if outcome is Outcome.SUCCESS else {}
            assert edges(graph, Relation.PRECEDES) == expected

    def test_failed_calls_of_a_successful_run_precede_nothing(self) -> None:
        tried = run(user("x"), step("end", {"book": "B-1"}, Refused("no")), SEEN, LEND)
        assert edges(mine([tried], effects=EFFECTS), Relation.PRECEDES) == {
            ("look(book=<BOOK>)", "lend(book=<BOOK>)"): 1
        }

    def test_parallel_calls_keep_their_order(self) -> None:
        both = calls(call("list_all", {}, {"a": 1}), call("look", {"book": "B-1"}, {"a": 1}))
        graph = mine([run(user("x"), both, name=f"r{n}") for n in range(3)], effects=EFFECTS)
        assert edges(graph, Relation.PRECEDES) == {("list_all()", "look(book=<BOOK>)"): 3}

    def test_what_a_result_shows_and_what_it_verifies(self) -> None:
        failed = run(user("x"), SEEN, step("end", {"book": "QX-91"}), outcome=Outcome.FAILURE, gold=[])
        graph = mine([failed], effects=EFFECTS)
        assert edges(graph, Relation.RETURNS) == {
            ("look(book=<BOOK>)", "look: book, state"): 1,
            ("end(book=<BOOK>)", "end: text"): 1,
        }
        assert list(edges(graph, Relation.VERIFIED_BY)) == [("look(book=<BOOK>)", "look: book, state")]

    def test_the_same_error_in_other_words_is_one_node(self) -> None:
        messages = ["Error: loan LN-1 not found", "loan LN-22 Not Found.", '{"error": "Loan LN-333 not found"}']
        turns = [step("lend", {"n": n}, Refused(message)) for n, message in enumerate(messages)]
        graph = mine([run(user("x"), *turns)], effects=EFFECTS)
        (error,) = graph.nodes(NodeType.ERROR)
        assert (error.key, error.failure) == ("lend: loan <ID> not found", 3)
        assert edges(graph, Relation.FAILS_BECAUSE) == {("lend(n=<N>)", "lend: loan <ID> not found"): 3}

    def test_a_precondition_guards_what_requires_it(self, desk_runs: list[Trajectory]) -> None:
        graph = mine(desk_runs)
        required = {(target, source) for source, target in edges(graph, Relation.REQUIRES)}
        assert required and required == set(edges(graph, Relation.GUARDS))


class TestCounts:
    def test_a_call_without_result_is_neither_success_nor_failure(self) -> None:
        graph = mine([run(user("x"), step("look", {"book": "B-1"}, None))], effects=EFFECTS)
        action = graph.node(graph.indices(NodeType.ACTION)[0])
        assert (action.success, action.failure, action.unknown) == (0, 0, 1)
        assert len(graph.indices(NodeType.OBSERVATION)) == 0

    def test_runs_of_unknown_outcome_leave_their_task_unknown(self) -> None:
        graph = mine([run(user("x"), SEEN, LEND, outcome=Outcome.UNKNOWN)], effects=EFFECTS)
        task = graph.node(0)
        assert (task.type, task.success, task.failure, task.unknown) == (NodeType.TASK, 0, 0, 1)
        assert task.data["tools"] == []
        assert graph.settings["outcomes"] == {"unknown": 1}

    def test_a_successful_run_leaves_its_sequence_of_tools(self) -> None:
        graph = mine([run(user("x"), step("end", {"n": 1}, Refused("no")), SEEN, LEND)], effects=EFFECTS)
        assert graph.node(0).data["tools"] == [["look", "lend"]]

    def test_a_tasks_own_solution_is_kept_as_tools_of_the_agent(self) -> None:
        actions = [("look", False), ("press", True), ("lend", False)]
        gold = tuple(GoldAction(tool=tool, arguments={}, by_user=by_user) for tool, by_user in actions)
        failed = run(user("x"), SEEN).model_copy(update={"gold": gold})
        assert mine([failed], effects=EFFECTS).node(0).data["solution"] == ["look", "lend"]
        assert "solution" not in mine([run(user("x"), SEEN)], effects=EFFECTS).node(0).data

    def test_times_come_from_the_runs(self) -> None:
        runs = [run(user("x"), SEEN, name=f"r{n}", times=(100.0 * n, 100.0 * n + 1)) for n in (3, 1, 2)]
        node = mine(runs, effects=EFFECTS).node(0)
        assert (node.first_seen, node.last_seen, node.runs) == (100.0, 300.0, 3)

    def test_no_runs_give_an_empty_graph_with_all_columns(self) -> None:
        graph = mine([])
        assert len(graph) == 0
        assert graph.features["stat"].shape == (0, len(graph.feature_names["stat"]))

    def test_a_run_without_calls_is_a_task_alone(self) -> None:
        graph = mine([run(user("Hello"), says("Good day"))])
        assert {name: n for name, n in graph.counts().items() if n} == {"Task": 1}

    def test_a_giant_observation_is_bounded(self) -> None:
        rows = {"rows": [{"id": f"row-{n}", "text": "x" * 40} for n in range(20_000)]}
        graph = mine(
            [run(user("x"), step("list_all", {}, rows), step("look", {"book": "row-3"}, "ok"))], effects=EFFECTS
        )
        assert max(len(text) for text in graph.texts) < 1_000
        assert sum(len(str(node.data)) for node in graph.nodes()) < 5_000

    def test_statistics_are_finite_and_named(self, desk_runs: list[Trajectory]) -> None:
        graph = mine(desk_runs)
        stat = graph.features["stat"]
        assert stat.shape == (len(graph), len(graph.feature_names["stat"]))
        assert stat.dtype == np.float32
        assert np.isfinite(stat).all()
        success = stat[:, graph.feature_names["stat"].index("success_rate")]
        won, lost = graph.column("success"), graph.column("failure")
        np.testing.assert_allclose(success, (won + 1) / (won + lost + 2), rtol=1e-6)


class TestEffects:
    def test_the_caller_is_believed_before_the_trace_and_the_trace_before_the_name(self) -> None:
        tools = (ToolSpec(name="get_rid_of", effect=Effect.WRITE), ToolSpec(name="get_it", effect=Effect.WRITE))
        turns = [step(name, {"n": 1}) for name in ("get_rid_of", "get_it", "get_other")]
        graph = mine([run(user("x"), *turns, tools=tools)], effects={"get_it": Effect.READ})
        assert graph.settings["effects"] == {"get_rid_of": "write", "get_it": "read", "get_other": "read"}
        assert graph.settings["effect_sources"] == {
            "get_rid_of": "trace",
            "get_it": "given",
            "get_other": "inferred from its name",
        }

    def test_the_callers_description_replaces_the_traces(self) -> None:
        tools = (ToolSpec(name="look", description="A long description from the trace"),)
        given = {
            "look": ToolSpec(name="look", description="Looks.\nMore", parameters={"properties": {"book": {}, "at": {}}})
        }
        graph = mine([run(user("x"), SEEN, tools=tools)], specs=given)
        (tool,) = graph.nodes(NodeType.TOOL)
        assert tool.data == {"effect": "read", "purpose": "Looks.", "parameters": ["at", "book"]}


class TestWhereArgumentsComeFrom:
    def test_sources_most_frequent_first(self) -> None:
        said = run(user("Lend BK-71"), LEND, name="a", task="a")
        looked = [run(user("x"), SEEN, LEND, name=f"b{n}", task=f"b{n}") for n in range(2)]
        graph = mine([said, *looked], effects=EFFECTS)
        action = graph.node(graph.find(NodeType.ACTION, "lend(book=<BOOK>)") or 0)
        assert action.data["arguments"]["book"]["sources"] == [["look:book", 2], ["request", 1]]

    def test_a_choice_is_what_many_tasks_chose(self) -> None:
        def ended(n: int, reason: str) -> Trajectory:
            return run(user("x"), step("end", {"reason": reason}), name=f"r{n}", task=f"t{n}")

        few = mine([ended(n, "lost") for n in range(2)], effects=EFFECTS)
        many = mine([ended(n, "lost" if n % 3 else "sold") for n in range(9)], effects=EFFECTS)
        each_its_own = mine([ended(n, f"because {'x' * (n + 1)}") for n in range(9)], effects=EFFECTS)
        found = [
            g.node(g.indices(NodeType.ACTION)[0]).data["arguments"]["reason"].get("choices")
            for g in (few, many, each_its_own)
        ]
        assert found == [None, ["lost", "sold"], None]

    def test_looked_up_values_of_many_kinds_are_no_choices(self) -> None:
        towns = ["ulm", "trier", "soest", "husum"]

        def sent(n: int) -> Trajectory:
            town = towns[n % len(towns)]
            return run(
                user("x"),
                step("look", {"n": n}, {"town": town}),
                step("end", {"town": town}),
                name=f"r{n}",
                task=f"t{n}",
            )

        graph = mine([sent(n) for n in range(16)], effects=EFFECTS)
        (action,) = [n for n in graph.nodes(NodeType.ACTION) if n.tool == "end"]
        assert action.data["arguments"]["town"] == {"sources": [["look:town", 16]]}


def words_of(graph: ExperienceGraph) -> Iterator[tuple[str, str]]:
    """Everything a node says that could be shown; a Task's key names its task and is never shown."""
    for node in graph.nodes():
        parts = [node.text, orjson.dumps(node.data).decode()]
        yield f"{node.type} {node.key}", "\n".join([*parts, "" if node.type is NodeType.TASK else node.key]).lower()


def particulars(runs: Iterable[Trajectory]) -> set[str]:
    """Identifiers that the runs pass or show, and names of people in them."""
    found: set[str] = set()
    for trajectory in runs:
        for _, made in trajectory.calls(by_user=None):
            for path, value in argument_leaves(made.arguments):
                if is_identifier(value) or is_reference(path, value):
                    found.add(str(normalise(value)))
            shown = made.observation.text if made.status is CallStatus.OK and made.observation else ""
            for path, value in text_leaves(shown):
                named = path.endswith(("first_name", "last_name"))
                if named or is_identifier(value) or (is_reference(path, value) and str(value).isupper()):
                    found.add(str(normalise(value)))
    return {value for value in found if len(value) >= 4}


def leaks(graph: ExperienceGraph, runs: list[Trajectory]) -> list[str]:
    secrets = particulars(runs)
    assert len(secrets) > 50
    found = []
    for name, text in words_of(graph):
        tokens = set(re.findall(r"[#$]?[\w.@:+-]*\w", text)) | set(re.findall(r"\w+", text))
        found += [f"{secret} in {name}" for secret in tokens & secrets]
    return found


class TestNothingOfAnOldRunIsTold:
    def test_on_the_desks(self, desk_runs: list[Trajectory]) -> None:
        assert leaks(mine(desk_runs), desk_runs) == []

    def test_on_recorded_airline_runs(self, airline_runs: list[Trajectory]) -> None:
        assert leaks(mine(airline_runs), airline_runs) == []

    def test_on_recorded_retail_runs(self, shared_data: Path) -> None:
        runs = load(shared_data / "tau2" / "retail-gpt-4.1.json.gz")[0][:200]
        assert leaks(mine(runs), runs) == []


def test_dirty_runs_are_mined_without_inventing_outcomes() -> None:
    runs, report = load(Path(__file__).parents[2] / "data" / "dirty" / "desks.jsonl")
    assert (len(runs), len(report.skipped)) == (8, 3)
    assert sum(r.feedback.outcome is Outcome.UNKNOWN for r in runs) == 2
    graph = mine(runs)
    malformed = graph.find(NodeType.ERROR, "find_member: malformed arguments")
    assert malformed is not None and graph.node(malformed).failure == 2
    assert graph.find(NodeType.ACTION, "find_member(?)") is not None
    assert graph.settings["outcomes"]["unknown"] == 2
