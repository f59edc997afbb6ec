"""BM25Index against rank_bm25 on synthetic text with Zipf's word frequencies: same scores, how many times faster.

Run: ``python benchmarks/bench_bm25.py [--documents 10000 100000] [--rounds 7]``

A turn puts as many queries as keep rank_bm25 busy for about a second. It walks through every document, so that nothing
of the index is left in the processor's cache, and a turn of one query of 0.1 ms would time that cache.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from rank_bm25 import BM25Plus
from timing import interleaved, milliseconds, print_table, ratio

from fresh.retrieval.bm25 import BM25Index, tokenize

QUERY_LENGTHS = (12, 200)
WORDS_TIMES_DOCUMENTS = 3_600_000
"""Of one turn."""
MOST_QUERIES = 30
DOCUMENT_LENGTH = 30
WORDS = 50_000
EXPONENT = 1.07
HITS = 50


def zipf_texts(rng: np.random.Generator, texts: int, length: int) -> list[str]:
    weight = np.arange(1, WORDS + 1) ** -EXPONENT
    words = rng.choice(WORDS, size=(texts, length), p=weight / weight.sum())
    return [" ".join(f"w{word}" for word in row) for row in words]


def measure(documents: int, rounds: int) -> list[list[str]]:
    rng = np.random.default_rng(documents)
    texts = zipf_texts(rng, documents, DOCUMENT_LENGTH)
    start = time.perf_counter()
    index = BM25Index.build(texts)
    built = time.perf_counter() - start
    start = time.perf_counter()
    reference = BM25Plus([tokenize(text) for text in texts], delta=0)
    reference_built = time.perf_counter() - start

    rows = []
    for length in QUERY_LENGTHS:
        per_turn = min(MOST_QUERIES, max(1, WORDS_TIMES_DOCUMENTS // (documents * length)))
        queries = zipf_texts(rng, per_turn, length)
        for query in queries:
            expected = reference.get_scores(tokenize(query))
            np.testing.assert_allclose(index.scores(query), expected, rtol=1e-9, atol=0)
        seconds = interleaved(
            {
                "rank_bm25": lambda asked=queries: [reference.get_scores(tokenize(q)) for q in asked],
                "scores": lambda asked=queries: [index.scores(q) for q in asked],
                "top_k": lambda asked=queries: [index.top_k(q, HITS) for q in asked],
            },
            rounds,
        )
        each = {name: [s / per_turn for s in turns] for name, turns in seconds.items()}
        rows.append(
            [
                f"{documents:,}",
                str(length),
                *(milliseconds(each[name]) for name in ("rank_bm25", "scores", "top_k")),
                f"{ratio(each['rank_bm25'], each['scores']):.0f}x",
                f"{reference_built:.2f} s",
                f"{built:.2f} s",
            ]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    rows = [row for documents in options.documents for row in measure(documents, options.rounds)]
    columns = [
        "documents", "query words", "rank_bm25", "scores", f"top {HITS}", "ratio", "rank_bm25 build", "build",
    ]  # fmt: skip
    print_table("BM25: all scores of one query, asserted equal", columns, rows, ["numpy", "rank-bm25"])


if __name__ == "__main__":
    main()
