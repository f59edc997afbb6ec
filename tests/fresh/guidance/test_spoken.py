"""The words of a request against the names of tools."""

import pytest

from fresh.guidance.spoken import ToolNames

NAMES = ["modify_pending_order", "cancelPendingOrder", "get_order", "sendMail", "x1"]
WRITES = [True, True, False, True, True]


@pytest.mark.parametrize(
    ("request_", "asked"),
    [
        ("I want to modify my order", [1, 0, 0, 0, 0]),
        ("please cancel it; it was modified twice", [1, 1, 0, 0, 0]),
        ("do not cancel anything", [0, 0, 0, 0, 0]),
        ("get the order", [0, 0, 0, 0, 0]),  # only what changes something is asked for by its verb
        ("", [0, 0, 0, 0, 0]),
    ],
)
def test_a_verb_asks_for_the_tools_that_do_it(request_, asked):
    assert ToolNames(NAMES, WRITES).asked(request_).tolist() == asked


def test_a_rare_word_makes_up_more_of_a_name():
    share = ToolNames(NAMES, WRITES).share("modify the order")
    assert share[0] > 0.5 > share[1] > 0
    assert share[2] > share[1]  # of two words, one
    assert share[3] == share[4] == 0
    assert ToolNames(NAMES, WRITES).share("modify pending orders")[0] == pytest.approx(1)


def test_without_tools_or_words_nothing_is_named():
    assert ToolNames([], []).share("a word").tolist() == []
    assert ToolNames(["", "_", "ab"], [True] * 3).share("ab").tolist() == [0, 0, 0]
    assert ToolNames(["", "_"], [True] * 2).asked("ab").tolist() == [0, 0]
