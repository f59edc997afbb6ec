"""The user: a script that agrees to what it wants alone, and a model in the user's role."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from chat_server import ChatServer, say

from inference.evaluate.executors import ChatModel, ModelUser, ScriptedUser
from inference.evaluate.executors.user import STOP, Scenario, asks_consent

WRITES = ["return_items", "cancel_order", "exchange_items"]
GOLD = SimpleNamespace(
    name="return_items",
    arguments={"order": "#R12", "items": ["111222", "333444"], "refund_to": "card_99"},
)


def task(**parts: str | None) -> Any:
    given = {"reason_for_call": "You want to return two lamps.", "known_info": "You are Ann Low, user ann_7."}
    instructions = SimpleNamespace(**{**given, "task_instructions": "Your patience is short.", **parts})
    return SimpleNamespace(user_scenario=SimpleNamespace(instructions=instructions))


def user(turns: int = 6) -> ScriptedUser:
    return ScriptedUser(task(), WRITES, turns)


def answer(text: str, waiting: Any = (GOLD,), speaker: ScriptedUser | None = None) -> str:
    return (speaker or user()).reply([{"role": "assistant", "content": text}], waiting).text


def test_the_scenario_is_told_in_the_first_person() -> None:
    scenario = Scenario.of(task(task_instructions="."))
    assert scenario == Scenario("I want to return two lamps.", "I am Ann Low, user ann_7.", "")
    assert user().opening() == "I want to return two lamps. I am Ann Low, user ann_7."


@pytest.mark.parametrize(
    "question",
    [
        "I will return items 111222 and 333444 of order #R12 to card_99. Do you confirm (yes/no)?",
        "Shall I return order #R12?",
        "Shall I go ahead with the return?",
        "ann_7, should I proceed with returning items 333444, 111222?",
        "Would you like me to return #r12 for $20.50?",
    ],
)
def test_a_question_about_what_is_wanted_gets_a_yes(question: str) -> None:
    assert answer(question) == "Yes, please go ahead."


@pytest.mark.parametrize(
    "question",
    [
        "I will return item 111222 of order #R12. Do you confirm (yes/no)?",
        "I will return items 111222, 333444 and 555666 of order #R12. Do you confirm?",
        "Shall I return order #R13?",
        "Shall I cancel order #R12?",
        "I return #R12 and refund to gift_1. Shall I proceed?",
        "Would you like to proceed?",
        "Do you want to exchange it?",
    ],
)
def test_any_other_question_for_consent_gets_a_no(question: str) -> None:
    assert answer(question) == "No. I want to return two lamps. My patience is short."


MOVE = SimpleNamespace(
    name="change_address", arguments={"user_id": "ann_7", "address1": "5 Low Road", "floor": 2, "reason": "moved"}
)


@pytest.mark.parametrize(
    ("question", "agrees"),
    [
        ("I am about to change address with user id ann_7, address1 5 Low Road, floor 2, reason moved. Proceed?", True),
        ("Shall I move ann_7 to 5 Low Road?", True),
        ("I am about to change address with user id ann_7, address1 6 Low Road, floor 2. Go ahead?", False),
        ("I am about to change address with address1 5 Low Road, floor 3. Go ahead?", False),
        ("Shall I change the address for ann_7, reason mistake?", False),
        ("I will change it to 5 Low Road for ann_7: address1 6 Low Road. Is this correct?", False),
    ],
)
def test_an_argument_that_a_question_names_must_have_the_gold_value(question: str, agrees: bool) -> None:
    assert answer(question, (MOVE,)).startswith("Yes" if agrees else "No")


def test_the_longest_name_is_the_one_that_a_question_means() -> None:
    swap = SimpleNamespace(name="exchange_items", arguments={"item_ids": ["111222"], "new_item_ids": ["333444"]})
    assert answer("Shall I exchange item ids 111222 (pot), new item ids 333444 (red, big)?", (swap,)).startswith("Yes")
    assert answer("Shall I exchange item ids 333444, new item ids 111222?", (swap,)).startswith("No")


def test_with_several_writes_waiting_each_can_be_agreed_to() -> None:
    other = SimpleNamespace(name="cancel_order", arguments={"order": "#R13"})
    assert answer("Shall I cancel order #R13?", (GOLD, other)) == "Yes, please go ahead."


def test_other_words_get_the_details_then_everything_again() -> None:
    speaker = user()
    assert answer("Who are you?", speaker=speaker) == "My patience is short."
    assert answer("And what do you want?", speaker=speaker).startswith(
        "As I said: I want to return two lamps. I am Ann"
    )


def test_the_user_hangs_up_when_done_or_tired() -> None:
    done = user().reply([{"role": "assistant", "content": "Done."}], ())
    assert done.ends
    assert done.text.endswith(STOP)
    tired = user(turns=0).reply([{"role": "assistant", "content": "Hm."}], (GOLD,))
    assert tired.ends
    assert tired.text.endswith(STOP)


@pytest.mark.parametrize(
    ("text", "asks"),
    [("Shall I go on?", True), ("Please confirm.", False), ("What is your name?", False), ("Is that correct?", True)],
)
def test_questions_for_consent_are_told_from_others(text: str, asks: bool) -> None:
    assert asks_consent(text) is asks


def test_a_model_plays_the_user_with_the_roles_turned(server: ChatServer, model: ChatModel) -> None:
    server.script([say("I want to return two lamps."), say("Yes."), say(f"Thanks. {STOP}")])
    speaker = ModelUser(model, task(), max_turns=5)
    assert speaker.opening() == "I want to return two lamps."
    history = [
        {"role": "system", "content": "policy"},
        {"role": "assistant", "content": "Hi!"},
        {"role": "user", "content": "I want to return two lamps."},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]},
        {"role": "tool", "content": "secret result"},
        {"role": "assistant", "content": "Shall I?"},
    ]
    assert not speaker.reply(history, (GOLD,)).ends
    sent = server.requests[1]["messages"]
    assert [m["role"] for m in sent] == ["system", "user", "assistant", "user"]
    assert "Ann Low" in sent[0]["content"]
    assert "secret result" not in str(sent)
    assert speaker.reply(history, (GOLD,)).ends


def test_a_model_that_says_nothing_hangs_up(server: ChatServer, model: ChatModel) -> None:
    server.script([say("")])
    speaker = ModelUser(model, task(), max_turns=5)
    assert speaker.opening() == "I want to return two lamps."
    assert speaker.reply([{"role": "assistant", "content": "Hm?"}], (GOLD,)).ends
