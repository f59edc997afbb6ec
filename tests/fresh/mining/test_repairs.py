from __future__ import annotations

import pytest
from hand_made import Refused, effect_of, run, says, step, user

from fresh.mining import credit_run, mine
from fresh.mining.repairs import Fix, RepairKind, changed_arguments, repairs_in_run
from fresh.traces.tools import is_handover
from graph_schema import Effect, NodeType, Outcome, Relation, Trajectory

NO = Refused("not found")


def fixes(trajectory: Trajectory) -> list[tuple[int, Fix, int]]:
    return list(repairs_in_run(credit_run(trajectory, effect_of), trajectory.feedback.outcome))


def test_changed_arguments() -> None:
    tried = run(user("x"), step("lend", {"book": "B-1", "weeks": 2}, NO), step("lend", {"book": "B-2", "weeks": 2}))
    assert fixes(tried) == [(0, Fix(RepairKind.CHANGE_ARGUMENTS, ("book",)), 1)]


def test_changed_arguments_after_a_read() -> None:
    tried = run(
        user("x"),
        step("lend", {"book": "B-1"}, NO),
        step("look", {"book": "B-2"}, {"b": 1}),
        step("lend", {"book": "B-2"}),
    )
    assert fixes(tried) == [(0, Fix(RepairKind.CHANGE_ARGUMENTS, ("book",), "look"), 2)]


def test_an_added_read() -> None:
    tried = run(
        user("x"),
        step("lend", {"book": "B-1"}, NO),
        step("look", {"book": "B-1"}, {"b": 1}),
        step("lend", {"book": "B-1"}),
    )
    assert fixes(tried) == [(0, Fix(RepairKind.ADD_READ, tool="look"), 2)]


def test_the_same_call_once_more() -> None:
    tried = run(user("x"), step("lend", {"book": "B-1"}, NO), step("lend", {"book": "B-1"}))
    assert fixes(tried) == [(0, Fix(RepairKind.RETRY), 1)]


def test_another_tool_on_the_same_object() -> None:
    tried = run(user("x"), step("lend", {"book": "B-1"}, NO), step("end", {"book": "B-1"}))
    assert fixes(tried) == [(0, Fix(RepairKind.FALLBACK_TOOL, tool="end"), 1)]
    elsewhere = run(user("x"), step("lend", {"book": "B-1"}, NO), step("end", {"book": "B-7"}))
    assert fixes(elsewhere) == []


def test_a_handover_resolves_only_in_a_run_that_succeeded() -> None:
    turns = user("x"), step("lend", {"book": "B-1"}, NO), step("ask_person", {"summary": "help"}, "on the way")
    assert is_handover("ask_person") is False  # asking is not handing over
    assert fixes(run(*turns)) == []
    effects = {"lend": Effect.WRITE, "transfer_to_human": Effect.OTHER}
    turns = (*turns[:2], step("transfer_to_human", {"summary": "help"}, "on the way"))
    for outcome, expected in ((Outcome.SUCCESS, 1), (Outcome.FAILURE, 0), (Outcome.UNKNOWN, 0)):
        credited = credit_run(run(*turns, outcome=outcome), effects.__getitem__)
        found = list(repairs_in_run(credited, outcome))
        assert [fix.kind for _, fix, _ in found] == [RepairKind.HANDOVER] * expected


def test_nothing_that_comes_too_late_is_a_repair() -> None:
    others = [step("look", {"book": f"B-{n}"}, {"n": n}) for n in range(10, 19)]
    tried = run(user("x"), step("lend", {"book": "B-1"}, NO), *others, step("lend", {"book": "B-1"}))
    assert fixes(tried) == []


def test_a_failure_that_nothing_followed_has_no_repair_of_its_own() -> None:
    assert fixes(run(user("x"), step("lend", {"book": "B-1"}, NO), says("Sorry"))) == []


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ({"a": 1, "b": 2}, {"a": 1.0, "b": "2"}, ()),
        ({"a": 1}, {"b": 1}, ("a", "b")),
        ({"a": ["x", "y"]}, {"a": ["y", "x"]}, ()),
        (None, {"a": 1}, ("a",)),
    ],
)
def test_which_arguments_changed(before: object, after: object, names: tuple[str, ...]) -> None:
    assert changed_arguments(before, after) == names  # type: ignore[arg-type]


@pytest.mark.parametrize("tool", ["transfer_to_human_agents", "escalate_case", "handover", "pass_to_supervisor"])
def test_handing_over(tool: str) -> None:
    assert is_handover(tool)


@pytest.mark.parametrize("tool", ["transfer_money", "get_agent", "pass_exam", "forward_email"])
def test_not_handing_over(tool: str) -> None:
    assert not is_handover(tool)


class TestInTheGraph:
    def test_an_error_leads_to_its_repair_and_on_to_what_worked(self) -> None:
        tried = run(user("x"), step("lend", {"book": "B-1"}, NO), step("lend", {"book": "B-2", "weeks": 2}))
        graph = mine([tried], effects={"lend": Effect.WRITE})
        error = graph.find(NodeType.ERROR, "lend: not found")
        assert error is not None
        assert graph.node(error).failure == 1
        ((repair, count),) = graph.successors(error, Relation.FIXED_BY)
        assert count == 1
        assert graph.node(repair).text == "after 'not found' from lend: change book, weeks and call lend again"
        assert graph.node(repair).success == 1
        ((action, _),) = graph.successors(repair, Relation.SUPPORTS)
        assert graph.node(action).key == "lend(book=<BOOK>, weeks=<WEEKS>)"

    def test_the_nearest_success_of_the_same_task_repairs_what_a_run_left_broken(self) -> None:
        broken = run(user("x"), step("lend", {"book": "B-1", "weeks": 9}, NO), name="a", outcome=Outcome.FAILURE)
        near = run(user("x"), step("lend", {"book": "B-1", "weeks": 2}), name="b")
        far = run(user("x"), step("lend", {"book": "B-2", "weeks": 2}), name="c")
        graph = mine([broken, far, near], effects={"lend": Effect.WRITE})
        (repair,) = graph.nodes(NodeType.REPAIR)
        assert repair.data["arguments"] == ["weeks"]
        assert [r.id for r in graph.runs_of(repair.index)] == ["b"]
        other_task = near.model_copy(update={"task_id": "another"})
        assert not list(mine([broken, other_task], effects={"lend": Effect.WRITE}).nodes(NodeType.REPAIR))
