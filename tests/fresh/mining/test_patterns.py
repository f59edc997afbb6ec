from __future__ import annotations

import re

import pytest
from hand_made import call
from hypothesis import given
from hypothesis import strategies as st

from fresh.mining.patterns import action_pattern, choice, choice_at, error_message, in_words, placeholder, request_text
from fresh.values import is_identifier

_PLACEHOLDER = re.compile(r"<[A-Z_]+>")


def particulars(text: str) -> list[str]:
    """Tokens left in a text that name something particular."""
    rest = _PLACEHOLDER.sub(" ", text)
    return [token.strip(".,;:!?()'\"") for token in rest.split() if is_identifier(token.strip(".,;:!?()'\""))]


class TestPatterns:
    def test_values_become_the_names_of_their_arguments(self) -> None:
        pattern = action_pattern("end_loan", {"reason": "lost", "loan_id": "LN-7"})
        assert pattern == "end_loan(loan_id=<LOAN_ID>, reason=<REASON>)"

    def test_order_of_arguments_does_not_matter(self) -> None:
        assert action_pattern("t", {"a": 1, "b": 2}) == action_pattern("t", {"b": 3, "a": 4})

    def test_unreadable_arguments_are_a_pattern_of_their_own(self) -> None:
        assert action_pattern("t", None) == "t(?)"
        assert action_pattern("t", {}) == "t()"

    @pytest.mark.parametrize("name", ["cancelOrder", "cancel_order", "cancel-order", "Cancel.Order"])
    def test_names_in_words(self, name: str) -> None:
        assert in_words(name) == "cancel order"
        assert placeholder(name) == "<CANCEL_ORDER>"


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "arguments", "kind"),
        [
            ("Error: total is 52, paid 40", {}, "total is <NUMBER>, paid <NUMBER>"),
            ("Error: loan LN-70312 not found", {"loan_id": "LN-70312"}, "loan <LOAN_ID> not found"),
            ("Error: loan LN-70312 not found", {}, "loan <ID> not found"),
            ("ValueError: Room is taken until 2031-04-02.", {}, "room is taken until <DATE>"),
            ('{"error": "the fine is $12.50"}', {}, "the fine is <AMOUNT>"),
            ('{"error": {"message": "Ask anna@x.example"}}', {}, "ask <EMAIL>"),
            ("<<>>\nValueError: Nothing found", {}, "nothing found"),
            ("Traceback (most recent call last):\n  File 'a.py', line 3\nKeyError: 'shelf'", {}, "'shelf'"),
            ("see https://desk.example/a?b=1 for more", {}, "see <URL> for more"),
            ("items [1, 2, 3] are gone", {}, "items <LIST> are gone"),
            ("no member sofia-li-4821 or anna.berg.77", {}, "no member <ID> or <ID>"),
            ("", {}, "no message"),
        ],
    )
    def test_kinds(self, text: str, arguments: dict[str, object], kind: str) -> None:
        assert error_message(text, arguments) == kind

    def test_two_services_that_differ_in_case_say_the_same(self) -> None:
        assert error_message("Error: Loan not found") == error_message("loan Not Found.")

    def test_a_long_message_is_cut(self) -> None:
        assert len(error_message("word " * 10_000)) <= 200

    @given(
        st.lists(st.sampled_from(["loan", "not", "found", "for", "member", "pays"]), min_size=1, max_size=4),
        st.lists(
            st.one_of(
                st.from_regex(r"[A-Z]{2,3}-?[0-9]{3,6}", fullmatch=True),
                st.from_regex(r"#?[A-Z][0-9]{4,7}", fullmatch=True),
                st.from_regex(r"[a-z]{3,6}_[a-z]{3,6}_[0-9]{2,4}", fullmatch=True),
                st.from_regex(r"[a-z]{3,6}-[a-z]{3,6}-[0-9]{2,4}", fullmatch=True),
                st.from_regex(r"[a-z.]{1,8}[a-z]@[a-z]{2,8}\.(com|example)", fullmatch=True),
                st.from_regex(r"[0-9]{5,12}", fullmatch=True),
                st.dates().map(str),
                st.datetimes().map(lambda d: d.isoformat(timespec="seconds")),
                st.from_regex(r"[$€£][0-9]{1,4}(\.[0-9]{2})?", fullmatch=True),
                st.uuids().map(str),
            ),
            min_size=1,
            max_size=4,
        ),
    )
    def test_no_particular_survives(self, words: list[str], values: list[str]) -> None:
        text = " ".join(word for pair in zip(words * 4, values, strict=False) for word in pair)
        kind = error_message(f"Error: {text}", {})
        assert particulars(kind) == []
        assert not re.search(r"\d|@|[$€£]", _PLACEHOLDER.sub("", kind))
        assert not any(value.lower() in kind for value in values)

    @given(st.text(max_size=300))
    def test_any_text_has_a_kind_on_one_line(self, text: str) -> None:
        kind = error_message(text)
        assert kind and "\n" not in kind and len(kind) <= 200


class TestRequests:
    def test_identifiers_and_values_of_calls_become_placeholders(self) -> None:
        made = [call("find", {"email": "odile@letters.example", "branch": "Harbour Hill"})]
        text = request_text("I am at Harbour Hill (odile@letters.example), loan LN-77, 3 weeks.", made)
        assert text == "I am at <BRANCH> (<EMAIL>), loan <ID>, <NUMBER> weeks."

    def test_who_asks_is_left_out(self) -> None:
        assert "Odile" not in request_text("Hello, my name is Odile Farrow, renew it please", [])
        assert "Farrow" not in request_text("This is Odile Farrow.", [])

    def test_names_that_the_run_shows_are_left_out(self) -> None:
        shown = [{"sunniva": ("guests[].first_name",), "xkcdqz": ("booking_id",), "harbour": ("branch.name",)}]
        text = request_text("Please take Sunniva off XKCDQZ at Harbour", [], shown)
        assert text == "Please take <NAME> off <ID> at Harbour"

    def test_codes_of_letters_alone_are_left_out(self) -> None:
        assert request_text("Please cancel XKCDQZ for me, ASAP.", []) == "Please cancel <ID> for me, ASAP."
        assert request_text("PLEASE CANCEL IT!", []) == "PLEASE CANCEL IT!"

    def test_a_plain_word_that_was_an_argument_stays(self) -> None:
        assert request_text("it was lost", [call("end", {"reason": "lost"})]) == "it was lost"
        changed = [call("end", {"reason": "changed my mind"})]
        assert request_text("I changed my mind", changed) == "I changed my mind"

    def test_it_is_short(self) -> None:
        assert len(request_text("please " * 500, [])) <= 300


@pytest.mark.parametrize("value", ["lost", "No Longer Needed", True, "two words"])
def test_a_choice(value: object) -> None:
    assert choice(value) == str(value).lower()


@pytest.mark.parametrize(
    "value", ["LN-7", "2031-01-01", 12, "a" * 31, "notes.docx", "a@b.example", "/home/x", None, "", "room 4"]
)
def test_no_choice(value: object) -> None:
    assert choice(value) is None


def test_a_secret_is_no_choice_however_plain() -> None:
    assert choice_at("reason", "swordfish") == "swordfish"
    assert choice_at("password", "swordfish") is None
    assert choice("bearer abcdefghijklmnop") is None


def test_secrets_of_words_alone_leave_requests_and_errors() -> None:
    login = call("login", {"user": "ann", "password": "swordfish"})
    assert "swordfish" not in request_text("Log me in, swordfish it is", [login])
    assert "correct" not in request_text("My password is correcthorse", [])
    assert error_message("Error: password swordfish rejected", login.arguments) == "password <PASSWORD> rejected"
    assert error_message("Error: cannot open postgres://admin:swordfish@db/x") == "cannot open <URL>"
