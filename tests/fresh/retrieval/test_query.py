from __future__ import annotations

from fresh.history import RunIndex
from fresh.retrieval.query import make_query, strip_identifiers
from graph_schema.trajectory import CallStatus
from tests.retrieval_world import run


def test_query_knows_only_what_came_before() -> None:
    index = RunIndex(run(0, "renew_loan", fails=True).turns)
    first = make_query(index.at(1))
    assert first.used == () and first.last_tool == "" and first.spoken and first.user_turns == 1
    assert "renew" in first.text and "find_member" not in first.text

    later = make_query(index.at(len(index.turns)))
    assert [tool for tool, _ in later.used] == ["find_member", "get_loan", "renew_loan", "renew_loan"]
    assert later.user_turns == 2 and not later.spoken


def test_last_error_stands_until_a_call_succeeds() -> None:
    turns = run(0, "renew_loan", fails=True).turns
    failed_at = next(i for i, turn in enumerate(turns) for call in turn.calls if call.status is CallStatus.ERROR)
    index = RunIndex(turns)
    assert make_query(index.at(failed_at + 1)).last_error == "Error: no such loan"
    assert make_query(index.at(failed_at)).last_error == ""
    assert make_query(index.at(len(turns))).last_error == ""


def test_identifiers_are_left_out() -> None:
    assert strip_identifiers("cancel order #W2378156, please: mia_li_3668 wants it") == "cancel order please: wants it"
    query = make_query(RunIndex(run(3, "pay_fine").turns).at(1))
    assert "C377" not in query.text and "C377" not in " ".join(query.said)


def test_confirmation_and_offered_tools() -> None:
    index = RunIndex(run(1, "cancel_hold").turns)
    confirmed = [make_query(index.at(i)).confirmed for i in range(1, len(index.turns) + 1)]
    assert confirmed[0] is False and confirmed[-1] is True
    assert make_query(index.at(1), ["a", "b", "a"]).offered == frozenset({"a", "b"})
    assert make_query(index.at(1)).offered is None


def test_long_texts_keep_start_and_end() -> None:
    turn = run(0, "pay_fine").turns[0].model_copy(update={"text": " ".join(["start"] + ["x"] * 900 + ["end"])})
    text = make_query(RunIndex([turn]).at(1)).text.split()
    assert len(text) <= 100 and text[0] == "start" and text[-1] == "end"
