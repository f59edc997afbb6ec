from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from fresh.seer import SeerIndex
from graph_schema.errors import ConfigError, MemoryFileError

CHAINS = [["find", "read", "cancel"], ["read", "read", "refund"], [], ["cancel", "read", "find"]]
EMBEDDINGS = np.array([[1, 0], [0.6, 0.8], [0, 1], [-1, 0]], dtype=np.float32)
QUERY = np.array([1, 0], dtype=np.float32)

NAMES = st.sampled_from(["find", "read", "cancel", "refund", "unheard"])


@pytest.fixture
def index() -> SeerIndex:
    return SeerIndex.build(EMBEDDINGS, None, CHAINS)


def test_similarity_is_the_cosine_from_zero(index: SeerIndex) -> None:
    assert index.scores(QUERY)[:, 0].tolist() == pytest.approx([1, 0.6, 0, 0])


def test_coverage_is_the_share_of_the_tools_used(index: SeerIndex) -> None:
    """Repetitions and order do not matter, tools nobody stored do."""
    assert index.scores(QUERY, ["read", "cancel", "read"])[:, 1].tolist() == [1, 0.5, 0, 1]
    assert index.scores(QUERY, ["read", "unheard"])[:, 1].tolist() == [0.5, 0.5, 0, 0.5]


def test_before_the_first_call_coverage_asks_what_is_on_offer(index: SeerIndex) -> None:
    assert index.scores(QUERY)[:, 1].tolist() == [0, 0, 0, 0]
    offered = index.scores(QUERY, [], ["read", "refund", "unheard"])[:, 1]
    assert offered.tolist() == pytest.approx([1 / 3, 1, 0, 1 / 3])


def test_order_of_calls_stands_in_for_the_intent(index: SeerIndex) -> None:
    assert index.scores(QUERY, ["find", "cancel"])[:, 2].tolist() == [1, 0, 0, 0.5]
    assert index.scores(QUERY)[:, 2].tolist() == [0, 0, 0, 0]


def test_known_intents_are_compared() -> None:
    index = SeerIndex.build(EMBEDDINGS, None, CHAINS, ["cancel", "refund", None, "cancel"])
    assert index.scores(QUERY, ["find"], intent="cancel")[:, 2].tolist() == [1, 0, 0, 1]
    assert index.scores(QUERY, ["read"], intent="never seen")[:, 2].tolist() == [0, 0, 0, 0]
    assert index.scores(QUERY, ["find"])[:, 2].tolist() == [1, 0, 0, 1]


def test_tool_sets_may_be_given_apart_from_the_chains() -> None:
    index = SeerIndex.build(EMBEDDINGS[:2], [{"a"}, {"a", "b"}], [["a"], []])
    assert index.scores(QUERY, ["a", "b"])[:, 1].tolist() == [0.5, 1]


@settings(deadline=None)
@given(st.lists(st.lists(NAMES, max_size=6), max_size=6), st.lists(NAMES, max_size=6))
def test_scores_stay_within_bounds_and_own_chain_scores_one(chains: list[list[str]], used: list[str]) -> None:
    rng = np.random.default_rng(len(chains))
    vectors = rng.standard_normal((len(chains) + 1, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = SeerIndex.build(vectors, None, [*chains, used])
    scores = index.scores(vectors[-1], used, ["read"])
    assert scores.shape == (len(chains) + 1, 3)
    assert scores.min() >= 0
    assert scores.max() <= 1
    assert scores[-1, 0] == pytest.approx(1)
    if used:
        assert scores[-1, 1:].tolist() == [1, 1]


def test_rank_sums_with_weights_and_breaks_ties_by_age(index: SeerIndex) -> None:
    order, total = index.rank(QUERY, ["find", "cancel"])
    assert order.tolist() == [0, 3, 1, 2]
    assert total.tolist() == pytest.approx([3, 1.5, 0.6, 0])
    assert index.rank(QUERY, ["find", "cancel"], weights=(0, 1, 0))[0].tolist() == [0, 3, 1, 2]
    assert index.rank(QUERY, weights=(1, 0, 0), k=2)[0].tolist() == [0, 1]


def test_adding_one_by_one_is_building_at_once(index: SeerIndex) -> None:
    grown = SeerIndex.build(EMBEDDINGS[:0], [], [])
    for row, chain in zip(EMBEDDINGS, CHAINS, strict=True):
        grown.add(row[None], None, [chain])
        grown.scores(QUERY, ["read"])
    used = ["cancel", "read", "find"]
    assert np.array_equal(grown.scores(QUERY, used), index.scores(QUERY, used))
    assert len(grown) == 4


def test_empty_index() -> None:
    index = SeerIndex.build(np.zeros((0, 2)), [], [])
    assert index.scores(QUERY, ["read"], ["read"]).shape == (0, 3)
    assert index.rank(QUERY)[0].tolist() == []


@pytest.mark.parametrize("chains", [CHAINS, [[], []], []])
def test_round_trip_through_safetensors(chains: list[list[str]]) -> None:
    intents = ["a\nb", None, "ü", "a\nb"][: len(chains)]
    index = SeerIndex.build(EMBEDDINGS[: len(chains)], None, chains, intents)
    again = SeerIndex.from_arrays(load(save({k: np.ascontiguousarray(v) for k, v in index.to_arrays().items()})))
    assert str(again) == str(index)
    for used, intent in ((["read", "refund"], None), ([], "ü"), (["unheard"], "a\nb")):
        assert np.array_equal(
            again.scores(QUERY, used, CHAINS[0], intent), index.scores(QUERY, used, CHAINS[0], intent)
        )
    again.add(EMBEDDINGS[:1], None, [["new tool"]])
    assert again.scores(QUERY, ["new tool"])[-1].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("embeddings", EMBEDDINGS[:3]),
        ("embeddings", EMBEDDINGS * np.nan),
        ("set_codes", np.array([9] * 8, np.int32)),
        ("chain_start", np.array([0, 3], np.int64)),
        ("chain_codes", np.zeros(9, np.float32)),
        ("intent_codes", np.array([0, 0, 0, 0], np.int32)),
        ("tools", np.frombuffer(b"[1]", np.uint8)),
        ("tools", np.frombuffer(b"\xff", np.uint8)),
        ("tools", np.frombuffer(b'["find"', np.uint8)),
    ],
)
def test_damaged_arrays_are_refused(index: SeerIndex, name: str, value: np.ndarray) -> None:
    arrays = index.to_arrays()
    with pytest.raises(MemoryFileError, match="SEER index"):
        SeerIndex.from_arrays(arrays | {name: value})
    with pytest.raises(MemoryFileError, match=name):
        SeerIndex.from_arrays({k: v for k, v in arrays.items() if k != name})


def test_wrong_lengths_and_widths_are_refused_and_change_nothing(index: SeerIndex) -> None:
    with pytest.raises(ConfigError, match="one embedding"):
        index.add(EMBEDDINGS, None, CHAINS[:2])
    with pytest.raises(ConfigError, match="one text encoder"):
        index.add(np.zeros((1, 3)), None, [["x"]])
    with pytest.raises(ConfigError, match="one text encoder"):
        index.scores(np.zeros(3))
    with pytest.raises(ConfigError, match="runs, width"):
        SeerIndex.build(np.zeros(3), None, [])
    assert len(index) == 4
    assert str(index) == "SeerIndex(runs=4, tools=4, intents=0)"
