"""The method as the paper defines it, and the pool that grows."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seer_builders import ChosenEncoder, made, run

from fresh.history import History
from fresh.retrieval.encoder import HashedEncoder
from fresh.seer import Eviction, ExperiencePool, PoolSettings, Score, Situation, Weights, succeeded
from graph_schema.errors import ConfigError
from graph_schema.trajectory import Outcome, Role, Trajectory, Turn

TOOLS = st.lists(st.sampled_from(["find", "read", "cancel", "refund", "наход", "ünïcode 🛠"]), max_size=5)
REQUESTS = st.text(max_size=30) | st.sampled_from(["Please cancel my order", "I want a refund", "Привет, отмени заказ"])


def unit(cosine: float) -> list[float]:
    """A vector at this cosine from [1, 0]."""
    return [cosine, math.sqrt(1 - cosine**2)]


def pool_with(cosine: float, tools: list[str], intent: str | None, **more: Any) -> ExperiencePool:
    """A pool of one run whose text lies at this cosine from the text "now"."""
    stored = run("stored", "stored", tools)
    text = Situation.of_run(stored).text
    encoder = ChosenEncoder({text: unit(cosine), "now": [1, 0]})
    pool = ExperiencePool(encoder, **more)
    pool.add([stored], [intent])
    return pool


def now(*tools: str) -> Situation:
    return Situation(request="now", text="now", tools=tools)


def ids(pool: ExperiencePool) -> list[str]:
    return [experience.run_id for experience in pool.experiences]


# -- the three scores ------------------------------------------------------------------------------------------------


def test_worked_case_of_all_three_scores() -> None:
    pool = pool_with(0.64, ["a", "b", "c"], "move")
    (best,) = pool.recall(now("a", "b", "c", "b"), intent="move")
    assert best.scores == pytest.approx((0.82, 1, 1))
    assert best.total == pytest.approx(0.940, abs=1e-4)


def test_worked_case_without_the_intent() -> None:
    pool = pool_with(0.91, ["a", "b", "d"], "move")
    (best,) = pool.recall(now("a", "b", "c"), intent="move", weights=Weights().without(Score.INTENT))
    assert best.scores[:2] == pytest.approx((0.955, 2 / 3))
    assert best.total == pytest.approx(0.8108, abs=1e-4)


def test_similarity_reaches_from_opposite_to_equal() -> None:
    for cosine, expected in ((-1, 0), (0, 0.5), (1, 1)):
        assert pool_with(cosine, [], None).scores(now())[0, 0] == pytest.approx(expected, abs=1e-6)


def test_coverage_is_over_sets_and_of_the_history() -> None:
    """A stored run is not the worse for more tools; repetitions do not count; a tool nobody stored does."""
    pool = pool_with(0, ["a", "a", "b", "c", "d"], None)
    assert pool.scores(now("a", "a", "a"))[0, 1] == 1
    assert pool.scores(now("a", "x"))[0, 1] == 0.5


def test_before_the_first_call_coverage_is_zero_for_all() -> None:
    pool = ExperiencePool(HashedEncoder())
    pool.add([run("a", "Please cancel my order", ["x"]), run("b", "Please cancel my order", [])])
    assert pool.scores(now())[:, 1].tolist() == [0, 0]


def test_unknown_intents_equal_nothing() -> None:
    pool = pool_with(0, [], None)
    assert pool.scores(now())[0, 2] == 0
    assert pool.scores(now(), intent="move")[0, 2] == 0
    assert pool_with(0, [], "move").scores(now(), intent="other")[0, 2] == 0


def test_query_only_compares_requests_whatever_happened_since() -> None:
    stored = run("stored", "stored", ["a"])
    encoder = ChosenEncoder({"stored": unit(0.5), "now": [1, 0]})
    pool = ExperiencePool(encoder, PoolSettings(query_only=True))
    pool.add([stored])
    later = Situation(request="now", text="now and much later", tools=("a",))
    assert pool.scores(later)[0, 0] == pytest.approx(0.75)


def test_whole_trajectory_counts_by_default() -> None:
    """Two runs of one request: the one that went on as this history did comes first, also by s1 alone."""
    request = "Please look after my order"
    pool = ExperiencePool(HashedEncoder(), PoolSettings(weights=Weights(1, 0, 0)))
    pool.add([run("a", request, ["find_user", "refund"]), run("b", request, ["find_user", "change_address"])])
    history = History.live(run("x", request, ["find_user", "change_address"]).turns)
    assert [e.experience.run_id for e in pool.recall(history)] == ["b", "a"]
    asks_only = ExperiencePool(HashedEncoder(), PoolSettings(weights=Weights(1, 0, 0), query_only=True))
    asks_only.add([run("a", request, ["find_user", "refund"]), run("b", request, ["find_user", "change_address"])])
    assert [e.experience.run_id for e in asks_only.recall(history)] == ["a", "b"]


def test_a_history_and_its_whole_run_are_the_same_situation() -> None:
    whole = run("a", "Please cancel order #W1234567", ["find", made("cancel", {"order_id": "#W1234567"})])
    assert Situation.of(History.live(whole.turns)) == Situation.of_run(whole)


def test_situation_shows_steps_and_hides_values() -> None:
    error = made("pay", {"order_id": "#W1234567"}, "Error: order #W1234567 cannot be paid")
    whole = run("a", "Please pay #W1234567", ["find_user", error, "find_user", made("walk", by_user=True)])
    situation = Situation.of_run(whole)
    assert situation.text.splitlines() == [
        "Please pay",
        "find user",
        "pay: order id",
        "failed: order <ORDER_ID> cannot be paid",
    ]
    assert situation.tools == ("find_user", "pay", "find_user")


def test_intent_is_looked_for_in_later_words_where_the_request_has_none() -> None:
    turns = (
        Turn(role=Role.USER, text="Hello!"),
        Turn(role=Role.ASSISTANT, text="How can I help?"),
        Turn(role=Role.USER, text="I want to cancel my order."),
    )
    pool = ExperiencePool(HashedEncoder())
    pool.add([run("a", "Please cancel the order")])
    assert pool.scores(History.live(turns[:1]))[0, 2] == 0
    assert pool.scores(History.live(turns))[0, 2] == 1


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(REQUESTS, TOOLS), max_size=6), REQUESTS, TOOLS, st.integers(0, 8))
def test_recall_holds_for_any_runs(stored: list[tuple[str, list[str]]], request: str, tools: list[str], k: int) -> None:
    pool = ExperiencePool(HashedEncoder())
    pool.add([run(str(i), text, used) for i, (text, used) in enumerate(stored)])
    history = History.live(run("now", request, tools).turns)
    found = pool.recall(history, k=k)
    assert len(found) == min(k, len(stored))
    assert all(a.total >= b.total for a, b in pairwise(found))
    for exemplar in found:
        assert all(0 <= score <= 1 for score in exemplar.scores)
        assert exemplar.total == pytest.approx(sum(exemplar.scores) / 3)
    scores = pool.scores(history)
    own = {i: len(set(tools) & set(used)) / len(set(tools)) if tools else 0 for i, (_, used) in enumerate(stored)}
    assert scores[:, 1].tolist() == pytest.approx([own[i] for i in range(len(stored))])


@settings(deadline=None, max_examples=40)
@given(REQUESTS, TOOLS)
def test_a_run_recalls_itself(request: str, tools: list[str]) -> None:
    """Nothing scores above the very same run."""
    own = run("own", request, tools)
    pool = ExperiencePool(HashedEncoder())
    pool.add([run("other", "Something else entirely", ["zzz"]), own])
    scores = pool.scores(History.live(own.turns))
    assert (scores[1] >= scores[0] - 1e-6).all()
    if tools:
        assert scores[1, 1] == 1


# -- what comes in ---------------------------------------------------------------------------------------------------


def test_only_successes_come_in_and_each_once() -> None:
    pool = ExperiencePool(HashedEncoder())
    runs = [
        run("a", "Cancel my order", ["cancel"]),
        run("b", "Cancel my order", ["cancel"], Outcome.FAILURE),
        run("c", "Cancel my order", ["cancel"], Outcome.UNKNOWN),
        run("d", "Cancel my order", ["cancel"], attack_succeeded=True),
        run("e", "Cancel my order", ["cancel"], attack_succeeded=False),
    ]
    assert pool.add([*runs, runs[0]]) == 2
    assert pool.add(runs) == 0
    assert ids(pool) == ["a", "e"]


def test_another_judge_decides_alone() -> None:
    pool = ExperiencePool(HashedEncoder(), judge=lambda seen: "tip" in seen.request)
    assert pool.add([run("a", "No"), run("b", "With a tip", outcome=Outcome.UNKNOWN)]) == 1
    assert ids(pool) == ["b"]
    assert succeeded(run("a", "No"))


def test_wrong_number_of_intents_is_refused_and_changes_nothing() -> None:
    pool = ExperiencePool(HashedEncoder())
    with pytest.raises(ConfigError, match="one intent a run"):
        pool.add([run("a", "x")], [])
    assert len(pool) == 0


def test_empty_pool() -> None:
    pool = ExperiencePool(HashedEncoder())
    assert pool.recall(now("a")) == []
    assert pool.scores(now("a")).shape == (0, 3)
    assert pool.add([]) == 0


def test_k_is_four_by_default_and_may_exceed_the_pool() -> None:
    pool = ExperiencePool(HashedEncoder())
    pool.add([run(str(i), f"Cancel order {i}") for i in range(6)])
    assert len(pool.recall(now())) == 4
    assert len(pool.recall(now(), k=50)) == 6
    assert pool.recall(now(), k=0) == []
    with pytest.raises(ConfigError, match="0 runs or more"):
        pool.recall(now(), k=-1)


def test_equal_scores_are_in_order_of_age() -> None:
    pool = ExperiencePool(HashedEncoder())
    pool.add([run(name, "Cancel the order", ["cancel"]) for name in "cab"])
    assert [e.experience.run_id for e in pool.recall(now("cancel"))] == ["c", "a", "b"]


def test_wrong_settings_and_vectors_are_refused() -> None:
    for wrong in ({"k": -1}, {"capacity": 0}):
        with pytest.raises(ConfigError, match="at least 1 run"):
            PoolSettings(**wrong)
    with pytest.raises(ConfigError, match="one text encoder"):
        ExperiencePool(HashedEncoder()).score_vectors(np.zeros(3, np.float32), (), None)


# -- what leaves -----------------------------------------------------------------------------------------------------


def full(policy: Eviction, capacity: int = 3) -> ExperiencePool:
    return ExperiencePool(HashedEncoder(), PoolSettings(capacity=capacity, eviction=policy))


def test_oldest_leaves_first() -> None:
    pool = full(Eviction.OLDEST)
    pool.add([run(name, f"Do {name}") for name in "abcde"])
    assert ids(pool) == ["c", "d", "e"]
    assert pool.add([run("a", "Do a")]) == 1, "a run that has left may come again"
    assert ids(pool) == ["d", "e", "a"]


def test_least_recalled_leaves_and_a_newcomer_is_given_time() -> None:
    pool = full(Eviction.LEAST_RECALLED)
    pool.add([run("a", "Cancel the order", ["cancel"]), run("b", "Pay", ["pay"]), run("c", "Walk the dog", ["walk"])])
    for tool in ("cancel", "cancel", "walk"):
        pool.recall(now(tool), k=1)
    pool.add([run("d", "Sing", ["sing"])])
    assert ids(pool) == ["a", "c", "d"]
    for tool in ("cancel", "cancel", "walk", "cancel"):
        pool.recall(now(tool), k=1)
    pool.add([run("e", "Dance", ["dance"])])
    assert ids(pool) == ["a", "c", "e"], "nobody asked for d since it came: 1/6, against 3/9 for c"


def test_least_helpful_leaves() -> None:
    pool = full(Eviction.LEAST_HELPFUL)
    pool.add([run("a", "Cancel", ["cancel"]), run("b", "Pay", ["pay"]), run("c", "Walk", ["walk"])])
    for tool, helped in (("cancel", True), ("pay", False), ("walk", True)):
        pool.feedback(pool.recall(now(tool), k=1), helped)
    pool.add([run("d", "Sing", ["sing"])])
    assert ids(pool) == ["a", "c", "d"]


def test_feedback_on_a_run_that_has_left_is_passed_over() -> None:
    pool = full(Eviction.OLDEST, capacity=1)
    pool.add([run("a", "Cancel")])
    gone = pool.recall(now())
    pool.add([run("b", "Pay")])
    pool.feedback(gone, helped=True)
    assert pool.contents.counters[0].judged == 0


def test_older_of_the_nearest_duplicates_leaves() -> None:
    pool = full(Eviction.NEAREST_DUPLICATE)
    pool.add(
        [
            run("rare", "Please walk the dog", ["walk"]),
            run("old", "Please cancel my order", ["find", "cancel"]),
            run("young", "Please cancel my order", ["find", "cancel"]),
            run("pays", "Please pay the bill", ["pay"]),
        ]
    )
    assert ids(pool) == ["rare", "young", "pays"]


def test_nearest_duplicates_are_found_anew_after_each_that_leaves() -> None:
    """Three alike and two apart, room for three: two of the three go."""
    pool = full(Eviction.NEAREST_DUPLICATE)
    alike = [run(name, "Please cancel my order", ["cancel"]) for name in ("x", "y", "z")]
    pool.add([run("a", "Please walk the dog", ["walk"]), *alike, run("b", "Please pay the bill", ["pay"])])
    assert ids(pool) == ["a", "z", "b"]


def test_largest_intent_loses_its_oldest() -> None:
    pool = full(Eviction.LARGEST_INTENT)
    runs = [run(name, f"Do {name}") for name in "abcde"]
    pool.add(runs, ["rare", "many", "many", "few", "many"])
    assert ids(pool) == ["a", "d", "e"]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(list(Eviction)), st.integers(1, 5), st.lists(st.tuples(REQUESTS, TOOLS), max_size=9))
def test_capacity_holds_under_every_policy(
    policy: Eviction, capacity: int, given_runs: list[tuple[str, list[str]]]
) -> None:
    pool = full(policy, capacity)
    runs = [run(str(i), text, tools) for i, (text, tools) in enumerate(given_runs)]
    for one in runs:
        pool.add([one])
        assert len(pool) <= capacity
        pool.recall(now("read"), k=2)
    assert len(pool) == min(capacity, len(runs))
    assert ids(pool) == sorted(set(ids(pool)), key=int), "the order of age is kept"
    assert len(pool.contents.counters) == len(pool.contents.runs) == len(pool.contents.requests) == len(pool)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from([Eviction.OLDEST, Eviction.LEAST_RECALLED, Eviction.LEAST_HELPFUL]), st.integers(1, 4))
def test_one_by_one_is_all_at_once_where_nothing_is_recalled_between(policy: Eviction, capacity: int) -> None:
    runs = [run(str(i), f"Do {i}", ["a"] * (i % 3)) for i in range(8)]
    at_once, one_by_one = full(policy, capacity), full(policy, capacity)
    at_once.add(runs)
    for one in runs:
        one_by_one.add([one])
    assert ids(at_once) == ids(one_by_one)


# -- what is kept, and how fast --------------------------------------------------------------------------------------


def particular_run() -> Trajectory:
    result = '{"user": {"first_name": "Yusuf", "user_id": "yusuf_rossi_9620"}}'
    return run(
        "a",
        "I am Yusuf, please cancel order #W2378156, card ending 4421",
        [
            made("find_user", {"user_id": "yusuf_rossi_9620"}, result),
            made("cancel", {"order_id": "#W2378156"}, "Error: too late for #W2378156"),
            made("cancel", {"order_id": "#W2378156"}, None),
            made("refund", {"order_id": "#W2378156", "amount": 12.5}),
        ],
    )


def test_experience_holds_no_particulars_and_only_steps_that_worked() -> None:
    pool = ExperiencePool(HashedEncoder())
    pool.add([particular_run()])
    (kept,) = pool.experiences
    assert [step.text for step in kept.steps] == [
        "find_user(user_id=<USER_ID>)",
        "refund(amount=<AMOUNT>, order_id=<ORDER_ID>)",
    ]
    assert kept.tools == {"find_user", "cancel", "refund"}
    assert kept.intent == "cancel order"
    for particular in ("Yusuf", "yusuf", "2378156", "9620", "12.5", "4421"):
        assert particular not in str(kept)


def test_a_thousand_runs_are_scored_within_a_millisecond() -> None:
    rng = np.random.default_rng(0)
    tools = [f"tool_{i}" for i in range(60)]
    pool = ExperiencePool(HashedEncoder(384), PoolSettings(eviction=Eviction.OLDEST))
    pool.add([run(str(i), f"Change thing {i % 7}", list(rng.choice(tools, 6))) for i in range(1000)])
    vector = pool.encoder.encode_query("Change thing")
    seconds = []
    for _ in range(30):
        start = time.perf_counter()
        pool.score_vectors(vector, tools[:5], "change thing")
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 1e-3
