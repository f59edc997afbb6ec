from __future__ import annotations

import json
import random
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_shop import ORDERS, Chat, call

from fresh.history import History
from fresh.live import LiveParser
from fresh.traces.messages import parse_messages


def fresh_view(messages: list[dict[str, Any]]) -> History:
    """The view of a parser that has read nothing else."""
    return History.live(parse_messages(messages))


def known(history: History) -> dict[str, Any]:
    """What a view says, index by index, later turns left out as every question leaves them out."""
    index, now = history.index, history.now
    return {
        "turns": history.turns,
        "calls": history.calls,
        "shown": [(t, c.id, dict(p)) for t, c, p in index.shown if t < now],
        "speech": [entry for entry in index.speech if entry[0] < now],
        "raw": [(t, c.id, text) for t, c, text in index.raw_observations if t < now],
        "objects": {
            key: [(o.turn, o.call.id, o.fields, o.whole) for o in found if o.turn < now]
            for key, found in sorted(index.objects.items())
            if any(o.turn < now for o in found)
        },
    }


call_ids = st.sampled_from(["a", "b", "", None])
message = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, st.sampled_from(["cancel #W111", "yes", ""])),
    st.builds(lambda text: {"role": "assistant", "content": text}, st.sampled_from(["Shall I?", ""])),
    st.builds(
        lambda ids, order: {
            "role": "assistant",
            "content": None,
            "tool_calls": [call("get_order", {"order_id": order}) | {"id": one} for one in ids],
        },
        st.lists(call_ids, min_size=1, max_size=3),
        st.sampled_from(list(ORDERS)),
    ),
    st.builds(
        lambda one, text: {"role": "tool", "tool_call_id": one, "content": text},
        call_ids,
        st.sampled_from([*map(json.dumps, ORDERS.values()), "Error: not found", "words " * 40]),
    ),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(message, max_size=12), st.lists(message, min_size=1, max_size=4), st.integers(0, 12), st.randoms())
def test_going_on_from_an_earlier_step_says_what_reading_anew_says(
    messages: list[Any], branch: list[Any], cut: int, rng: random.Random
):
    parser = LiveParser()
    views = []
    for end in sorted(rng.sample(range(len(messages) + 1), rng.randint(0, len(messages)))):
        view = parser.history(messages[:end]).history
        assert known(view) == known(fresh_view(messages[:end]))
        views.append((view, messages[:end]))
    for path in (messages[:cut] + branch, messages + branch):
        assert known(parser.history(path).history) == known(fresh_view(path))
    for view, path in views:  # earlier views have not changed
        assert known(view) == known(fresh_view(path))


def test_the_next_step_shares_what_was_read():
    parser, chat = LiveParser(), Chat().read("#W111")
    before = parser.history(chat.messages).history
    assert before.object_of("#W111") is not None
    objects = before.index.objects
    after = parser.history(chat.read("#W222").messages).history
    assert after.index.objects is objects and after.turns[0] is before.turns[0]
    assert after.object_of("#W222") is not None and before.object_of("#W222") is None


def test_a_message_changed_in_place_is_read_anew():
    parser, chat = LiveParser(), Chat("cancel #W111")
    parser.history(chat.messages)
    chat.messages[0]["content"] = "cancel #W222"
    view = parser.history(chat.agent("Shall I?").messages).history
    assert view.said("#W222") and not view.said("#W111")


def test_the_same_messages_are_read_once_and_few_are_kept():
    parser = LiveParser(size=2)
    first = parser.history(Chat("one").messages)
    assert parser.history(Chat("one").messages) is first
    parser.history(Chat("two").messages)
    parser.history(Chat("three").messages)
    assert parser.history(Chat("one").messages) is not first


@pytest.mark.parametrize("threads", [4])
def test_threads_that_share_a_parser_see_their_own_chat(threads: int):
    parser, wrong = LiveParser(), []

    def work(seed: int) -> None:
        rng, chat = random.Random(seed), Chat(f"cancel #W{seed}00")
        for _ in range(30):
            chat.read(rng.choice(list(ORDERS)))
            if known(parser.history(chat.messages).history) != known(fresh_view(chat.messages)):
                wrong.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
