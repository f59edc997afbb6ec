from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Plus
from safetensors.numpy import load, save

from fresh.retrieval.bm25 import BM25Index, tokenize
from graph_schema.errors import MemoryFileError

WORDS = st.sampled_from(["order", "cancel", "Refund", "user_id", "getOrder", "é", "!", "42", "total"])
TEXTS = st.lists(st.lists(WORDS, max_size=8).map(" ".join), max_size=12)

DOCUMENTS = ["cancel the order", "refund the order to a gift card", "look up a user", "", "order order order"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("?! ... __ --", []),
        ("cancel_pending_order", ["cancel", "pending", "order"]),
        ("getUserDetails", ["get", "user", "details"]),
        ("parseHTTPResponse", ["parse", "http", "response"]),
        ("order #W2378156, JG7FMM", ["order", "w2378156", "jg7fmm"]),
        ("$1,200.50", ["1", "200", "50"]),
        ("Žádost o vráceníPeněz", ["žádost", "o", "vrácení", "peněz"]),
        ("cafe\u0301 CAF\u00c9", ["caf\u00e9", "caf\u00e9"]),
        ("注文 キャンセル", ["注文", "キャンセル"]),
        ("lone \ud800 surrogate\udfff", ["lone", "surrogate"]),
    ],
)
def test_tokenize(text: str, expected: list[str]) -> None:
    assert tokenize(text) == expected


@given(st.text())
def test_tokens_are_lower_case_words_and_stay_whole(text: str) -> None:
    tokens = tokenize(text)
    assert all(token.isalnum() for token in tokens)
    assert all(tokenize(token) == [token] for token in tokens if token.isascii())


@settings(deadline=None)
@given(TEXTS, st.lists(WORDS, max_size=12).map(" ".join))
def test_scores_are_those_of_rank_bm25(texts: list[str], query: str) -> None:
    scores = BM25Index.build(texts).scores(query)
    corpus = [tokenize(text) for text in texts]
    if not any(corpus):
        assert scores.tolist() == [0.0] * len(texts)
        return
    expected = BM25Plus(corpus, delta=0).get_scores(tokenize(query))
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=0)


@settings(deadline=None)
@given(TEXTS, st.lists(WORDS, max_size=5).map(" ".join), st.integers(0, 15))
def test_hits_share_a_term_and_come_best_first(texts: list[str], query: str, k: int) -> None:
    index = BM25Index.build(texts)
    found, scores = index.top_k(query, k)
    terms = set(tokenize(query))
    sharing = [i for i, text in enumerate(texts) if terms & set(tokenize(text))]
    everything = index.scores(query)
    expected = sorted(sharing, key=lambda i: (-everything[i], i))[:k]
    assert found.tolist() == expected
    assert scores.tolist() == everything[found].tolist()
    assert (scores > 0).all()


def test_a_term_in_every_text_still_counts() -> None:
    """A memory of one text, and of texts that all share a term: where BM25Okapi goes negative."""
    assert BM25Index.build(["cancel order"]).scores("order")[0] > 0
    scores = BM25Index.build(["order a", "order b", "order order c"]).scores("order")
    assert (scores > 0).all()
    assert scores.argmax() == 2


def test_asking_again_gives_the_same_scores() -> None:
    """Rows of common terms are kept after the first query; no query may write into them."""
    index = BM25Index.build(DOCUMENTS)
    first = index.scores("order order gift").tolist()
    assert index.scores("order order gift").tolist() == first
    assert index.scores("order").tolist() == BM25Index.build(DOCUMENTS).scores("order").tolist()


def test_repeated_query_terms_count_each_time() -> None:
    index = BM25Index.build(DOCUMENTS)
    np.testing.assert_allclose(index.scores("order order order"), 3 * index.scores("order"), rtol=1e-12)


@pytest.mark.parametrize("texts", [[], [""], ["", "..."], ["cancel order"]])
@pytest.mark.parametrize("query", ["", "?!", "unheard"])
def test_nothing_in_common_gives_no_hits(texts: list[str], query: str) -> None:
    index = BM25Index.build(texts)
    found, scores = index.top_k(query, 5)
    assert found.shape == scores.shape == (0,)
    assert index.scores(query).tolist() == [0.0] * len(texts)


def test_k_beyond_the_corpus_and_zero() -> None:
    index = BM25Index.build(DOCUMENTS)
    assert index.top_k("order", 1000)[0].tolist() == [4, 0, 1]
    assert index.top_k("order", 0)[0].size == 0
    with pytest.raises(ValueError, match="-1"):
        index.top_k("order", -1)


def test_ties_go_to_the_lower_index() -> None:
    index = BM25Index.build(["same text"] * 7 + ["other"])
    assert index.top_k("text", 3)[0].tolist() == [0, 1, 2]


def test_one_string_is_refused() -> None:
    with pytest.raises(TypeError, match="list"):
        BM25Index.build("cancel order")


@pytest.mark.parametrize("texts", [[], ["", "!"], DOCUMENTS, ["ünïcode Ωmega"]])
def test_round_trip_through_safetensors(texts: list[str]) -> None:
    index = BM25Index.build(texts)
    again = BM25Index.from_arrays(load(save(index.to_arrays())))
    assert str(again) == str(index)
    for query in ("order", "ωmega card", ""):
        assert again.scores(query).tolist() == index.scores(query).tolist()


@pytest.mark.parametrize("name", ["size", "indptr", "indices", "weights", "vocabulary"])
def test_a_missing_array_is_named(name: str) -> None:
    arrays = BM25Index.build(DOCUMENTS).to_arrays()
    del arrays[name]
    with pytest.raises(MemoryFileError, match=name):
        BM25Index.from_arrays(arrays)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("size", lambda a: a - 2),
        ("size", lambda a: np.zeros(0, dtype=np.int64)),
        ("indptr", lambda a: a[:-1]),
        ("indptr", lambda a: a[::-1]),
        ("indices", lambda a: a - 1),
        ("weights", lambda a: a[:-1]),
        ("weights", lambda a: a * np.nan),
        ("weights", lambda a: -a),
        ("vocabulary", lambda a: a[:3]),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, change) -> None:  # type: ignore[no-untyped-def]
    arrays = BM25Index.build(DOCUMENTS).to_arrays()
    arrays[name] = change(arrays[name])
    with pytest.raises(MemoryFileError, match="do not fit"):
        BM25Index.from_arrays(arrays)
