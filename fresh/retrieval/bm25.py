"""BM25 recall over node texts, with the scores worked out before the query comes.

``rank_bm25`` builds the statistics (document frequencies, lengths, idf); what is stored is its score of every
(term, document) pair as a sparse matrix by term. A query then adds a few columns, with no loop over documents.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from graph_schema.errors import MemoryFileError

K1 = 1.5
"""Saturation of the term frequency, ``rank_bm25``'s default."""
B = 0.75
"""Weight of the document length, ``rank_bm25``'s default."""
_COMMON = 0.25
"""A term in more than this share of the texts is added as a dense row; a query of 12 words is 1.5 times faster."""

_WORD = re.compile(r"[^\W_]+")
# Only lower-to-upper and "HTTPServer"-like joints: identifiers such as "JG7FMM" must stay in one piece.
_CAMEL_ASCII = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def tokenize(text: str) -> list[str]:
    """Splits a text into lower-case terms.

    Text is brought to Unicode form NFKC, split at everything that is neither letter nor digit (underscores
    included, so snake_case falls apart) and at camelCase joints. Nothing is stemmed and no word is dropped: in
    texts as short as a node's, "not" and "all" carry meaning, and idf takes care of the rest. Scripts written
    without spaces give one term per run of letters.

    >>> tokenize("cancelOrder(order_id=<ORDER_ID>) via HTTPServer")
    ['cancel', 'order', 'order', 'id', 'order', 'id', 'via', 'http', 'server']
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    if text.islower():
        return _WORD.findall(text)
    # Lower-casing some letters yields a combining mark ("İ"), hence the second look for words.
    return _WORD.findall(_separate_camel_case(text).lower())


def _separate_camel_case(text: str) -> str:
    """Puts a space at every joint of a camelCase word."""
    if text.isascii():
        return _CAMEL_ASCII.sub(" ", text)
    pieces: list[str] = []
    for i, letter in enumerate(text):
        after_lower = i > 0 and text[i - 1].islower()
        before_lower = i + 1 < len(text) and text[i + 1].islower()
        if letter.isupper() and (after_lower or (i > 0 and text[i - 1].isupper() and before_lower)):
            pieces.append(" ")
        pieces.append(letter)
    return "".join(pieces)


class BM25Index:
    r"""BM25 scores of a fixed list of texts.

    The statistics are those of ``rank_bm25.BM25Plus(corpus, delta=0)``:

    .. math::
        s(q, d) = \sum_{t \in q} \log\frac{N + 1}{n_t} \cdot
                  \frac{f_{t,d}\,(k_1 + 1)}{f_{t,d} + k_1\,(1 - b + b\,|d| / \overline{|d|})}

    with :math:`N` texts, :math:`n_t` of them holding term :math:`t`, :math:`f_{t,d}` its count in :math:`d`. A term
    repeated in the query counts as often as it stands there.

    Why this class of the three:

    - ``BM25Okapi``'s idf turns negative for a term in more than half of the texts, and the floor it then puts in
      is a quarter of an average that is itself negative in a small memory: with one text, or three that share
      their words, matching texts score *below* those that match nothing.
    - ``BM25L``'s idf is positive, but its score grows with the plain product of the term frequency, without
      saturation, so a text that repeats one word outranks one that has all of them.
    - ``BM25Plus``'s idf, :math:`\log((N + 1) / n_t)`, is positive for every term of every corpus and its frequency
      saturates. Its ``delta`` is added there to *every* text, matching or not, which changes no ranking; with
      ``delta=0`` a text that shares no term with the query scores exactly 0 and any other scores above 0.

    Attributes:
        size: Number of texts.

    Source: Trotman, Puurula and Burgess, "Improvements to BM25 and Language Models Examined" (2014), for the
    variants; ``tests/fresh/retrieval/test_bm25.py`` holds the scores to ``rank_bm25``'s own.
    """

    def __init__(
        self,
        size: int,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int64],
        weights: NDArray[np.float64],
        vocabulary: bytes,
    ) -> None:
        """Takes the parts as they are; use :meth:`build` or :meth:`from_arrays`.

        Args:
            size: Number of texts n.
            indptr: Start of each term's postings, ``[terms + 1]``.
            indices: Texts holding the term, ascending within a term, ``[postings]``.
            weights: Score of the term in the text, ``[postings]``.
            vocabulary: The terms in the order of ``indptr``, UTF-8, one a line.
        """
        self.size = size
        self._indptr = indptr
        self._indices = indices
        self._weights = weights
        self._vocabulary = vocabulary
        self._columns: dict[str, int] | None = None
        self._common: dict[int, NDArray[np.float64]] = {}

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"{type(self).__name__}(texts={self.size}, terms={len(self._indptr) - 1})"

    @classmethod
    def build(cls, texts: Sequence[str]) -> BM25Index:
        """Indexes the texts; text i keeps the number i.

        Raises:
            TypeError: ``texts`` is one string, which would be read letter by letter.
        """
        if isinstance(texts, str):
            raise TypeError("BM25Index.build takes a sequence of texts, not one string: wrap it in a list")
        corpus = [tokenize(text) for text in texts]
        if not any(corpus):  # rank_bm25 divides by the number of texts and by their mean length
            none = np.zeros(0, dtype=np.int64)
            return cls(len(corpus), np.zeros(1, dtype=np.int64), none, none.astype(np.float64), b"")
        return cls._from_corpus(corpus)

    @classmethod
    def _from_corpus(cls, corpus: list[list[str]]) -> BM25Index:
        from rank_bm25 import BM25Plus

        statistics = BM25Plus(corpus, k1=K1, b=B, delta=0)
        terms = sorted(statistics.idf)
        column = {term: j for j, term in enumerate(terms)}
        counts = statistics.doc_freqs
        distinct = np.fromiter(map(len, counts), dtype=np.int64, count=len(counts))
        postings = int(distinct.sum())
        columns = np.fromiter((column[t] for t in chain.from_iterable(counts)), np.int32, count=postings)
        frequency = np.fromiter(chain.from_iterable(c.values() for c in counts), np.float64, count=postings)
        rows = np.repeat(np.arange(len(counts), dtype=np.int64), distinct)

        idf = np.array([statistics.idf[term] for term in terms])[columns]
        length = np.array(statistics.doc_len)[rows]
        norm = K1 * (1 - B + B * length / statistics.avgdl)
        weights = idf * (frequency * (K1 + 1) / (norm + frequency))

        order = np.argsort(columns, kind="stable")  # rows are ascending already and stay so within a term
        indptr = np.zeros(len(terms) + 1, dtype=np.int64)
        np.cumsum(np.bincount(columns, minlength=len(terms)), out=indptr[1:])
        return cls(len(corpus), indptr, rows[order], weights[order], "\n".join(terms).encode())

    def scores(self, query: str) -> NDArray[np.float64]:
        """Scores every text: ``[n]``, 0 exactly where a text shares no term with the query."""
        return self._accumulate(self._matched(query))

    def top_k(self, query: str, k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The best texts that share at least one term with the query.

        Args:
            query: Any text; one without known terms has no hits.
            k: At most this many; more than n is the same as n.

        Returns:
            Indices and scores, both ``[min(k, hits)]``, best first, equal scores in the order of the index.

        Raises:
            ValueError: ``k`` is negative.
        """
        if k < 0:
            raise ValueError(f"k must not be negative, got {k}")
        scores = self.scores(query)
        hits = np.flatnonzero(scores)
        if 0 < k < len(hits):  # everything tied with the k-th stays in, so that the index decides below
            bar = np.partition(scores[hits], len(hits) - k)[len(hits) - k]
            hits = hits[scores[hits] >= bar]
        best = hits[np.argsort(-scores[hits], kind="stable")[:k]]
        return best, scores[best]

    def _matched(self, query: str) -> dict[int, int]:
        """Columns of the query's known terms, with how often each stands there, in order of appearance."""
        if self._columns is None:
            # Split on first use: a memory loads without it, and 100k terms take 15 ms.
            terms = self._vocabulary.decode().split("\n") if self._vocabulary else []
            self._columns = {term: j for j, term in enumerate(terms)}
        columns = self._columns
        return {columns[t]: count for t, count in Counter(tokenize(query)).items() if t in columns}

    def _accumulate(self, matched: Mapping[int, int]) -> NDArray[np.float64]:
        out = np.zeros(self.size)
        for column, count in matched.items():
            postings = slice(self._indptr[column], self._indptr[column + 1])
            indices, weights = self._indices[postings], self._weights[postings]
            if len(indices) > self.size * _COMMON:
                row = self._common_row(column, indices, weights)
                out += row if count == 1 else count * row
            else:
                # Measured at 60k postings: add.at 0.10 ms, "out[i] += w" 0.17 ms, int32 indices 0.11 and 0.39 ms.
                np.add.at(out, indices, weights if count == 1 else count * weights)
        return out

    def _common_row(self, column: int, indices: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weights of a common term for every text, ``[n]``: kept once asked for."""
        row = self._common.get(column)
        if row is None:
            row = np.zeros(self.size)
            row[indices] = weights
            self._common[column] = row
        return row

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Everything the index holds, as plain arrays for a safetensors file."""
        return {
            "size": np.array([self.size], dtype=np.int64),
            "indptr": self._indptr,
            "indices": self._indices.astype(np.int32),
            "weights": self._weights,
            "vocabulary": np.frombuffer(self._vocabulary, dtype=np.uint8),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> BM25Index:
        """Takes back what :meth:`to_arrays` gave.

        Raises:
            MemoryFileError: An array is missing, or the arrays do not fit together.
        """
        missing = {"size", "indptr", "indices", "weights", "vocabulary"} - arrays.keys()
        if missing:
            raise MemoryFileError(f"BM25 index: array {min(missing)!r} is missing; mine or export the memory again")
        size = int(arrays["size"][0]) if arrays["size"].size == 1 else -1
        index = cls(
            size,
            np.asarray(arrays["indptr"], dtype=np.int64),
            np.asarray(arrays["indices"], dtype=np.int64),
            np.asarray(arrays["weights"], dtype=np.float64),
            np.asarray(arrays["vocabulary"], dtype=np.uint8).tobytes(),
        )
        index._check()
        return index

    def _check(self) -> None:
        indptr, indices, weights = self._indptr, self._indices, self._weights
        terms = self._vocabulary.count(b"\n") + 1 if self._vocabulary else 0
        sound = (
            self.size >= 0
            and indptr.shape == (terms + 1,)
            and indices.shape == weights.shape == (int(indptr[-1]),)
            and indptr[0] == 0
            and bool((np.diff(indptr) > 0).all())
            and (indices.size == 0 or (int(indices.min()) >= 0 and int(indices.max()) < self.size))
            and bool((weights > 0).all())
            and bool(np.isfinite(weights).all())
        )
        if not sound:
            raise MemoryFileError("BM25 index: the arrays do not fit together; mine or export the memory again")
