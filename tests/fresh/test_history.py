from __future__ import annotations

import pytest
from hand_made import Refused, call, calls, says, step, user
from hypothesis import given
from hypothesis import strategies as st

from fresh.history import History, RunIndex, agrees
from graph_schema import Turn

STOCK = {"copies": [{"copy_id": f"CP-{n}"} for n in range(1, 9)]}
LOAN = {"loan_id": "LN-7", "member_id": "MB-1", "items": [{"copy_id": "CP-1", "state": "in"}]}


def live(*turns: Turn) -> History:
    return History.live(turns)


class TestOrigin:
    def test_from_the_user(self) -> None:
        assert str(live(user("It is LN-7, please")).origin("ln-7")) == "request"

    def test_only_as_a_whole_word(self) -> None:
        assert live(user("It is LN-77")).origin("LN-7").kind == "nowhere"
        assert live(user("It is LN-77 or LN-7.")).origin("LN-7").kind == "request"

    def test_from_an_observation_rather_than_the_user(self) -> None:
        history = live(user("LN-7"), step("look", {"loan_id": "LN-7"}, LOAN))
        assert str(history.origin("LN-7")) == "look:loan_id"
        assert str(history.origin("CP-1")) == "look:items[].copy_id"

    def test_from_a_short_text_or_a_long_one(self) -> None:
        assert str(live(step("find", {}, "MB-1")).origin("MB-1")) == "find:"
        assert str(live(step("find", {}, "the member is MB-1 " + "and so on " * 30)).origin("MB-1")) == "find:text"

    def test_a_refusal_shows_nothing(self) -> None:
        assert live(step("look", {}, Refused('{"loan_id": "LN-7"}'))).origin("LN-7").kind == "nowhere"

    def test_what_the_agent_said_itself_grounds_nothing(self) -> None:
        assert live(says("Is it LN-7?"), step("look", {"loan_id": "LN-7"}, "done")).origin("LN-7").kind == "nowhere"

    def test_the_newest_sighting_counts(self) -> None:
        history = live(step("first", {}, {"a": "LN-7"}), step("second", {}, {"b": "LN-7"}))
        assert str(history.origin("LN-7")) == "second:b"
        assert [s.call.tool for s in history.sightings("LN-7")] == ["first", "second"]


class TestSource:
    def test_the_place_with_the_fewest_values_counts(self) -> None:
        history = live(step("look", {}, LOAN), step("stock", {}, STOCK))
        assert str(history.origin("CP-1")) == "stock:copies[].copy_id"
        assert str(history.source("CP-1")) == "look:items[].copy_id"
        assert str(history.source("CP-5")) == "stock:copies[].copy_id"

    def test_of_equally_narrow_places_the_newest_and_in_it_the_first(self) -> None:
        history = live(step("old", {}, {"a": "LN-7"}), step("new", {}, {"b": "LN-7", "c": "LN-7"}))
        assert str(history.source("LN-7")) == "new:b"

    def test_without_a_choice_it_is_the_origin(self) -> None:
        assert str(live(user("LN-7")).source("LN-7")) == "request"
        assert live(user("hi")).source("LN-7").kind == "nowhere"

    def test_values_shown_later_do_not_count(self) -> None:
        index = RunIndex(
            [step("look", {}, LOAN), step("look", {}, {"items": [{"copy_id": f"CP-{n}"} for n in range(9)]})]
        )
        assert [index.at(turn)._values_at(("look", "items[].copy_id")) for turn in (0, 1, 2)] == [0, 1, 9]


def test_later_turns_are_unknown() -> None:
    index = RunIndex([user("hi"), step("look", {"loan_id": "LN-7"}, LOAN), user("LN-9")])
    assert index.at(1).origin("LN-7").kind == "nowhere"
    assert index.at(2).origin("LN-7").kind == "observation"
    assert index.at(2).said("LN-9") is False
    assert index.at(3).said("LN-9") is True
    assert index.at(1).answered("look") is None
    assert index.at(1).object_of("LN-7") is None


def test_a_result_of_the_same_turn_is_not_known_yet() -> None:
    both = calls(call("look", {"loan_id": "LN-7"}, LOAN), call("renew", {"loan_id": "LN-7"}))
    assert RunIndex([both]).at(0).origin("LN-7").kind == "nowhere"


class TestObjects:
    def test_an_identifier_names_its_object(self) -> None:
        found = live(step("look", {"loan_id": "LN-7"}, LOAN)).object_of("LN-7")
        assert found is not None and found[1] == LOAN

    def test_another_identifier_inside_does_not(self) -> None:
        assert live(step("look", {"loan_id": "LN-7"}, LOAN)).object_of("MB-1") is None

    def test_the_whole_object_is_preferred_to_a_later_mention(self) -> None:
        mention = {"recent": [{"loan_id": "LN-7", "note": "x"}], "page": 1}
        history = live(step("look", {"loan_id": "LN-7"}, LOAN), step("list_all", {}, mention))
        found = history.object_of("LN-7")
        assert found is not None and found[1] == LOAN

    def test_the_newest_whole_object_counts(self) -> None:
        late = LOAN | {"state": "late"}
        history = live(step("look", {"loan_id": "LN-7"}, LOAN), step("look", {"loan_id": "LN-7"}, late))
        found = history.object_of("LN-7")
        assert found is not None and found[1] == late

    def test_an_entry_under_its_own_key(self) -> None:
        found = live(step("look", {}, {"cards": {"card_17": {"kind": "chip"}}})).object_of("card_17")
        assert found is not None and found[1] == {"kind": "chip"}


class TestAnswered:
    def test_success_with_these_arguments_among_its_own(self) -> None:
        history = live(
            step("look", {"loan_id": "LN-7", "full": True}, LOAN), step("look", {"loan_id": "LN-8"}, Refused("no"))
        )
        assert history.answered("look", {"loan_id": "ln-7"}) is not None
        assert history.answered("look", {"loan_id": "LN-8"}) is None
        assert history.answered("look", {"full": False}) is None
        assert history.answered("look", {"other": 1}) is None
        assert history.answered("find") is None

    def test_the_same_call_before(self) -> None:
        history = live(step("look", {"a": 1, "b": 2}, Refused("no")))
        assert history.last_same("look", {"b": "2", "a": 1.0}) is not None
        assert history.last_same("look", {"a": 1}) is None


class TestConfirmed:
    def test_a_yes_after_the_agents_question(self) -> None:
        assert live(user("Renew it"), says("Shall I?"), user("Yes, go ahead")).confirmed()

    def test_a_yes_to_nothing(self) -> None:
        assert not live(user("Yes please, renew my loan")).confirmed()

    def test_a_later_question_takes_it_back(self) -> None:
        said = (user("Renew it"), says("Shall I?"), user("Yes"), says("For 2 weeks?"), user("Hm, how much is it?"))
        assert not live(*said).confirmed()
        assert live(*said[:3]).confirmed()

    def test_calls_in_between_do_not(self) -> None:
        asked = (user("Renew it"), says("Shall I?"), user("Yes"))
        assert live(*asked, step("look", {"loan_id": "LN-7"}, LOAN)).confirmed()

    def test_a_request_after_a_greeting_is_no_answer(self) -> None:
        assert not live(says("How can I help?"), user("Yes, hello, please renew my loan")).confirmed()

    @pytest.mark.parametrize("text", ["yes", "Sure!", "OK then", "please do", "sí", "Sounds good", "I confirm"])
    def test_agreement(self, text: str) -> None:
        assert agrees(text)

    @pytest.mark.parametrize(
        "text",
        [
            "no",
            "No, that is not ok",
            "wait",
            "Don't do it",
            "stop",
            "what?",
            "yesterday",
            "",
            "I'm not sure yet",
            "That isn't quite correct",
            "Hm, I am unsure; okay?",
        ],
    )
    def test_no_agreement(self, text: str) -> None:
        assert not agrees(text)


_TURNS = st.lists(
    st.one_of(
        st.builds(user, st.sampled_from(["LN-7 please", "yes", "no"])),
        st.builds(says, st.sampled_from(["Shall I?", "Good day"])),
        st.builds(
            step,
            st.sampled_from(["look", "renew"]),
            st.sampled_from([{"loan_id": "LN-7"}, {"loan_id": "LN-8"}, None]),
            st.sampled_from([LOAN, {"loan_id": "LN-8", "owner": "MB-9"}, "MB-1", Refused("LN-7"), None]),
        ),
    ),
    max_size=7,
)


@given(_TURNS, st.data())
def test_a_view_of_the_past_is_the_live_view_of_that_time(turns: list[Turn], data: st.DataObject) -> None:
    now = data.draw(st.integers(0, len(turns)))
    then, view = History.live(turns[:now]), RunIndex(turns).at(now)
    for value in ("LN-7", "LN-8", "MB-1", "MB-9", "CP-1", "none"):
        assert view.origin(value) == then.origin(value)
        assert view.said(value) == then.said(value)
        found, expected = view.object_of(value), then.object_of(value)
        assert (found and found[1]) == (expected and expected[1])
    assert view.confirmed() == then.confirmed()
    assert view.answered("look", {"loan_id": "LN-7"}) == then.answered("look", {"loan_id": "LN-7"})
    assert view.request == then.request
