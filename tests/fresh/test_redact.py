from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.redact import Redactor, hide_secrets, is_random, is_secret_name
from fresh.values import is_identifier


@pytest.mark.parametrize(
    ("text", "kind", "particular"),
    [
        ("order #W98765 is gone", "<ID>", "W98765"),
        ("write to jo@old.example now", "<EMAIL>", "jo@old"),
        ("paid $1,077.10 for it", "<AMOUNT>", "77.10"),
        ("on 2023-01-02 at noon", "<DATE>", "2023"),
        ("see https://x.example/a?b=c", "<URL>", "x.example"),
        ("the password is hunter2go", "<SECRET>", "hunter"),
        ("api_key: abcdefgh", "<SECRET>", "abcdefgh"),
        ("use sk-abcDEF123456789 here", "<SECRET>", "abcDEF"),
        ("token ghp_0123456789abcdefABCDEF", "<SECRET>", "ghp_"),
        ("blob 8fj2Kd9s0Qpz7Xw3Lm5Vb1Nc", "<SECRET>", "8fj2"),
        ("a total of 123456 items", "<ID>", "123456"),
        ("a total of 1234 items", "<NUMBER>", "1234"),
    ],
)
def test_particulars_become_their_kind(text: str, kind: str, particular: str):
    redactor = Redactor()
    clean = redactor.clean(text)
    assert kind in clean and particular not in clean
    assert sum(redactor.replaced.values()) == 1


def test_what_the_live_history_or_the_tools_show_stays():
    redactor = Redactor(lambda: ["cancel #W98765 for jo@old.example"], {"get_order_v2"})
    text = "call get_order_v2 with #W98765 for jo@old.example"
    assert redactor.clean(text) == text and not redactor.replaced


def test_part_of_a_longer_value_is_not_taken_for_the_value():
    assert Redactor(lambda: ["#W987650"]).clean("#W98765") == "<ID>"


def test_the_history_is_read_only_if_needed():
    def history() -> list[str]:
        raise AssertionError("read")

    assert (
        Redactor(history).clean("before cancel_order: call get_order first")
        == "before cancel_order: call get_order first"
    )


def test_placeholders_and_lines_stay_whole():
    assert Redactor().clean("total is <AMOUNT>,\n item <ITEM_IDS> gone") == "total is <AMOUNT>, item <ITEM_IDS> gone"


def test_long_names_are_not_keys():
    assert not is_random("update_reservation_passengers_v2") and is_random("8fj2Kd9s0Qpz7Xw3Lm5Vb1Nc")


@given(st.text(max_size=60))
def test_cleaning_again_changes_nothing_and_no_identifier_is_left(text: str):
    clean = Redactor().clean(text)
    assert Redactor().clean(clean) == clean
    assert not any(is_identifier(word) for word in clean.split() if word.isascii() and word.isalnum())


@pytest.mark.parametrize(
    ("text", "spoken", "expected"),
    [
        ("My password is correcthorse, thanks", True, "My password is <SECRET>, thanks"),
        ("the token is invalid", False, "the token is invalid"),
        ("login failed: password=swordfish", False, "login failed: password=<SECRET>"),
        ('{"api_key": "abcdefgh"}', False, '{"api_key": "<SECRET>"}'),
        ("sent Bearer abcdefghijklmnop", False, "sent Bearer <SECRET>"),
        ("no such key: plants", False, "no such key: plants"),
    ],
)
def test_secrets_that_a_text_tells_are_hidden(text: str, spoken: bool, expected: str):
    assert hide_secrets(text, spoken=spoken) == expected


@pytest.mark.parametrize("name", ["password", "api_key", "user.accessToken", "auth", "secretKey", "cards[].pin"])
def test_names_that_say_secret(name: str):
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["keyword", "key", "passenger", "order_id", "author", "spin"])
def test_names_that_do_not(name: str):
    assert not is_secret_name(name)


def test_a_path_of_names_that_the_history_shows_stays():
    redactor = Redactor(lambda: ['{"home": {"line1": "224 Elm Street"}}'])
    assert redactor.clean("line1 from field home.line1 of the result") == "line1 from field home.line1 of the result"
    assert redactor.clean("from field home.line9 of the result") == "from field <ID> of the result"
