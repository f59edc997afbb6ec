from __future__ import annotations

import pytest
from pydantic import ValidationError

from graph_schema import CallStatus, Observation, Outcome, Role, Source, ToolCall, Trajectory, Turn
from graph_schema.trajectory import Feedback


def call(call_id: str, observation: Observation | None = None, by_user: bool = False) -> ToolCall:
    return ToolCall(id=call_id, tool="t", arguments={}, raw_arguments="{}", observation=observation, by_user=by_user)


def run(*turns: Turn) -> Trajectory:
    return Trajectory(id="r", source=Source(file="f", record=0), format="x", domain="d", task_id="7", turns=turns)


def test_a_call_without_result_is_neither_success_nor_failure() -> None:
    assert call("a").status is CallStatus.UNANSWERED
    assert call("a", Observation(text="")).status is CallStatus.OK
    assert call("a", Observation(text="no", is_error=True)).status is CallStatus.ERROR


def test_outcome_is_unknown_unless_somebody_says() -> None:
    assert Feedback().outcome is Outcome.UNKNOWN
    assert run().feedback.outcome is Outcome.UNKNOWN


def test_parallel_calls_keep_their_order_and_their_turn() -> None:
    trajectory = run(
        Turn(role=Role.USER, text="hi"),
        Turn(role=Role.ASSISTANT, calls=(call("a"), call("b"))),
        Turn(role=Role.ASSISTANT, calls=(call("c"),)),
    )
    assert [(turn, c.id) for turn, c in trajectory.calls()] == [(1, "a"), (1, "b"), (2, "c")]


def test_the_users_own_calls_are_kept_apart() -> None:
    trajectory = run(
        Turn(role=Role.ASSISTANT, calls=(call("a"),)), Turn(role=Role.USER, calls=(call("u", by_user=True),))
    )
    assert [c.id for _, c in trajectory.calls()] == ["a"]
    assert [c.id for _, c in trajectory.calls(by_user=True)] == ["u"]
    assert [c.id for _, c in trajectory.calls(by_user=None)] == ["a", "u"]


def test_task_key_names_format_domain_and_task() -> None:
    assert run().task_key == "x:d/7"


def test_records_do_not_change_and_do_not_swallow_unknown_fields() -> None:
    with pytest.raises(ValidationError):
        Observation(text="a").text = "b"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        Observation(text="a", colour="red")  # type: ignore[call-arg]
