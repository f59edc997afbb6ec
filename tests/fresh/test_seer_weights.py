from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seer_builders import run

from fresh.history import History
from fresh.retrieval.encoder import HashedEncoder
from fresh.seer import ExperiencePool, Score, Weights, learn_weights, same_writes
from graph_schema.errors import ConfigError


def values(weights: Weights) -> tuple[float, float, float]:
    return weights.s1, weights.s2, weights.s3


def test_defaults_are_a_third_each() -> None:
    assert values(Weights()) == pytest.approx((1 / 3, 1 / 3, 1 / 3))


@pytest.mark.parametrize(
    ("score", "expected"), [("s1", (0, 0.5, 0.5)), (Score.TOOLS, (0.5, 0, 0.5)), ("s3", (0.5, 0.5, 0))]
)
def test_an_ablation_shares_out_the_dropped_weight(score: str, expected: tuple[float, float, float]) -> None:
    assert values(Weights().without(score)) == pytest.approx(expected)


def test_an_ablation_keeps_the_ratio_of_unequal_weights() -> None:
    assert values(Weights(0.5, 0.3, 0.2).without("s1")) == pytest.approx((0, 0.6, 0.4))


@pytest.mark.parametrize("wrong", [(-0.5, 1, 0.5), (1, 1, 1), (float("nan"), 0, 1), (0, 0, 0)])
def test_wrong_weights_are_refused(wrong: tuple[float, float, float]) -> None:
    with pytest.raises(ConfigError, match="weights must be"):
        Weights(*wrong)


def test_what_cannot_be_scaled_or_dropped_is_refused() -> None:
    for wrong in ((0, 0, 0), (-2, 1, 0), (-1, 1, 1), (float("inf"), 1, 1)):
        with pytest.raises(ConfigError, match="weights must be"):
            Weights.of(*wrong)
    with pytest.raises(ConfigError, match="no score 's4'"):
        Weights().without("s4")
    with pytest.raises(ConfigError, match="weights must be"):
        Weights(1, 0, 0).without("s1")


@given(st.tuples(*[st.floats(0, 1e6)] * 3).filter(lambda w: sum(w) > 1e-6))
def test_scaled_weights_are_one_together_in_the_same_ratio(given_weights: tuple[float, float, float]) -> None:
    scaled = Weights.of(*given_weights)
    assert sum(values(scaled)) == pytest.approx(1)
    assert np.array(values(scaled)) * sum(given_weights) == pytest.approx(np.array(given_weights))


@pytest.mark.parametrize("column", [0, 1, 2])
def test_learning_finds_the_score_that_tells(column: int) -> None:
    rng = np.random.default_rng(column)
    queries = []
    for _ in range(30):
        scores = rng.random((12, 3))
        queries.append((scores, scores[:, column] > 0.6))
    learnt = values(learn_weights(queries))
    assert learnt[column] > 0.8
    assert sum(learnt) == pytest.approx(1)


def test_a_misleading_score_gets_no_weight() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random((40, 3))
    learnt = learn_weights([(scores, scores[:, 0] - scores[:, 1] > 0)])
    assert learnt.s2 == 0
    assert learnt.s1 > 0.8


def test_scores_that_all_mislead_leave_the_defaults() -> None:
    scores = np.array([[0, 0, 0], [1, 1, 1]], float)
    assert learn_weights([(scores, [True, False])]) == Weights()


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000))
def test_order_of_runs_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, useful = rng.random((10, 3)), np.arange(10) < 4
    order = rng.permutation(10)
    first, second = learn_weights([(scores, useful)]), learn_weights([(scores[order], useful[order])])
    assert values(first) == pytest.approx(values(second), abs=1e-3)


def test_many_pairs_are_drawn_from() -> None:
    scores = np.random.default_rng(0).random((300, 3))
    learnt = learn_weights([(scores, scores[:, 1] > 0.5)])
    assert learnt == learn_weights([(scores, scores[:, 1] > 0.5)])
    assert learnt.s2 > 0.8


def test_nothing_to_learn_from_is_refused() -> None:
    for queries in ([], [(np.zeros((2, 3)), [True, True])], [(np.zeros((0, 3)), [])]):
        with pytest.raises(ConfigError, match="nothing to learn"):
            learn_weights(queries)
    with pytest.raises(ConfigError, match=r"\[n, 3\]"):
        learn_weights([(np.zeros((2, 2)), [True, False])])
    with pytest.raises(ConfigError, match=r"\[n, 3\]"):
        learn_weights([(np.zeros((2, 3)), [True])])


def test_the_pool_learns_from_runs_of_the_same_writes() -> None:
    """Requests all sound alike; what was called tells."""
    pool = ExperiencePool(HashedEncoder())
    tools = (["find", "cancel"], ["look", "pay"])
    pool.add([run(f"{i}", "Please see to my order", tools[i % 2]) for i in range(8)])
    examples = []
    for i in range(4):
        whole = run(f"q{i}", "Please see to my order", tools[i % 2])
        examples.append((History.live(whole.turns[:2]), same_writes(whole, {"cancel", "pay"})))
    learnt = pool.learn(examples)
    assert learnt.s2 > 0.6
    assert pool.settings.weights == learnt


def test_runs_of_the_same_task_are_not_learnt_from() -> None:
    pool = ExperiencePool(HashedEncoder())
    pool.add([run("a", "x", ["cancel"], task="t"), run("b", "x", ["cancel"]), run("c", "x", ["pay"])])
    useful = same_writes(run("q", "x", ["find", "cancel"], task="t"), {"cancel", "pay"})
    assert [useful(experience) for experience in pool.experiences] == [None, True, False]
