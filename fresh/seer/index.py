"""SEER's three scores as features of a memory's tasks: see `fresh.seer` for the method itself.

Here they tell a trained ranker how close a stored task is, and differ from the method in what helps it there. For a
history H with the tools U it has called, and a stored run with the tools U' it called:

- **s1, similarity.** Cosine of the text embeddings of what was asked, negative ones counted as 0. The method's own is
  (1 + cos) / 2, the same order on another scale; rankers were trained on this one.
- **s2, coverage.** ``|U & U'| / |U|``, as sets. Before the first call it is the share of the stored run's tools that
  the agent has been offered, so that runs it could not repeat fall behind; 0 without a list of offered tools.
- **s3, intent.** 1 if both requests were put into the same class of intent, else 0, where the caller knows intents.
  Where it does not, the order of the calls stands in: the longest common subsequence of both chains of calls, as a
  share of the history's chain, so that a run that took the same steps in the same order gets 1. An empty chain gets 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fresh.chains import UNKNOWN, DistinctChains, Ragged
from graph_schema.errors import ConfigError, MemoryFileError


class SeerIndex:
    """The three scores against every stored run, with no loop over runs.

    Attributes:
        embeddings: Unit vectors of the stored runs' texts, ``[n, d]``.
    """

    def __init__(
        self,
        embeddings: NDArray[np.float32],
        tools: Sequence[str],
        tool_sets: Ragged,
        chains: Ragged,
        intents: Sequence[str],
        intent_codes: NDArray[np.int32],
    ) -> None:
        """Takes the parts as they are; use :meth:`build` or :meth:`from_arrays`."""
        self.embeddings = embeddings
        self._tools = {name: code for code, name in enumerate(tools)}
        self._tool_sets = tool_sets
        self._chains = chains
        self._intents = {name: code for code, name in enumerate(intents)}
        self._intent_codes = intent_codes

    def __len__(self) -> int:
        return len(self.embeddings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(runs={len(self)}, tools={len(self._tools)}, intents={len(self._intents)})"

    @classmethod
    def build(
        cls,
        request_embeddings: ArrayLike,
        tool_sets: Sequence[Sequence[str]] | Sequence[frozenset[str]] | None,
        tool_sequences: Sequence[Sequence[str]],
        intents: Sequence[str | None] | None = None,
    ) -> SeerIndex:
        """Indexes runs; run i keeps the number i.

        Args:
            request_embeddings: Unit vectors, ``[n, d]``.
            tool_sets: The tools each run called; None takes them from the sequences.
            tool_sequences: The tools each run called, in order.
            intents: Class of each run's request, where known.

        Raises:
            ConfigError: The lengths differ.
        """
        embeddings = np.array(request_embeddings, dtype=np.float32)
        if embeddings.ndim != 2:
            raise ConfigError(f"SEER needs embeddings as [runs, width], got shape {embeddings.shape}")
        none = Ragged.of([])
        index = cls(embeddings[:0], (), none, none, (), np.zeros(0, np.int32))
        index.add(embeddings, tool_sets, tool_sequences, intents)
        return index

    def add(
        self,
        request_embeddings: ArrayLike,
        tool_sets: Sequence[Sequence[str]] | Sequence[frozenset[str]] | None,
        tool_sequences: Sequence[Sequence[str]],
        intents: Sequence[str | None] | None = None,
    ) -> None:
        """Appends runs, as :meth:`build` takes them: the pool's continual growth.

        Raises:
            ConfigError: The lengths, or the widths of the embeddings, differ; nothing is added then.
        """
        embeddings = np.asarray(request_embeddings, dtype=np.float32)
        sets = [frozenset(s) for s in (tool_sequences if tool_sets is None else tool_sets)]
        classes = [None] * len(tool_sequences) if intents is None else list(intents)
        if embeddings.ndim != 2 or not len(embeddings) == len(sets) == len(tool_sequences) == len(classes):
            raise ConfigError(
                f"SEER needs one embedding, tool set, tool sequence and intent a run, got {embeddings.shape} "
                f"embeddings, {len(sets)} sets, {len(tool_sequences)} sequences, {len(classes)} intents"
            )
        if embeddings.shape[1] != self.embeddings.shape[1]:
            raise ConfigError(
                f"SEER's stored embeddings are {self.embeddings.shape[1]} wide, the new ones {embeddings.shape[1]}: "
                "use one text encoder for both"
            )
        coded_sets = [sorted(_codes(self._tools, sorted(s))) for s in sets]
        coded_chains = [_codes(self._tools, chain) for chain in tool_sequences]
        known = [UNKNOWN if c is None else self._intents.setdefault(c, len(self._intents)) for c in classes]
        self.embeddings = np.concatenate([self.embeddings, embeddings])
        self._tool_sets = self._tool_sets.join(Ragged.of(coded_sets))
        self._chains = self._chains.join(Ragged.of(coded_chains))
        self._intent_codes = np.concatenate([self._intent_codes, np.array(known, np.int32)])
        self.__dict__.pop("_distinct_chains", None)

    def scores(
        self,
        query_embedding: ArrayLike,
        used_tools: Sequence[str] = (),
        available_tools: Sequence[str] | None = None,
        intent: str | None = None,
    ) -> NDArray[np.float64]:
        """Scores every stored run: s1, s2 and s3, ``[n, 3]``, each from 0 to 1.

        Args:
            query_embedding: Unit vector of the query's text, ``[d]``.
            used_tools: Tools called so far, in order, with repetitions.
            available_tools: Tools on offer; matters before the first call.
            intent: Class of the request, if known.

        Raises:
            ConfigError: The query is of another width than the stored embeddings.
        """
        query = np.asarray(query_embedding, dtype=np.float32)
        if query.shape != self.embeddings.shape[1:]:
            raise ConfigError(
                f"SEER's stored embeddings are {self.embeddings.shape[1]} wide, the query has shape {query.shape}: "
                "use one text encoder for both"
            )
        out = np.empty((len(self), 3))
        out[:, 0] = np.clip(self.embeddings @ query, 0, 1)
        out[:, 1] = self._coverage(used_tools, available_tools)
        out[:, 2] = self._intent_match(used_tools, intent)
        return out

    def rank(
        self,
        query_embedding: ArrayLike,
        used_tools: Sequence[str] = (),
        available_tools: Sequence[str] | None = None,
        intent: str | None = None,
        *,
        weights: tuple[float, float, float] = (1.0, 1.0, 1.0),
        k: int | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Orders the stored runs by the weighted sum of the three scores.

        Args:
            query_embedding: See :meth:`scores`, as for the next three.
            used_tools: Tools called so far.
            available_tools: Tools on offer.
            intent: Class of the request, if known.
            weights: Of s1, s2 and s3.
            k: At most this many; None for all.

        Returns:
            Numbers of the runs and their sums, best first, equal sums in the order they were added.
        """
        total = self.scores(query_embedding, used_tools, available_tools, intent) @ np.asarray(weights, float)
        order = np.argsort(-total, kind="stable")[:k]
        return order, total[order]

    def _coverage(self, used: Sequence[str], available: Sequence[str] | None) -> NDArray[np.float64]:
        if used:
            return self._tool_sets.count(self._mark(used)) / len(set(used))
        if available is None:
            return np.zeros(len(self))
        return self._tool_sets.count(self._mark(available)) / np.maximum(np.diff(self._tool_sets.start), 1)

    def _mark(self, names: Sequence[str]) -> NDArray[np.bool_]:
        marked = np.zeros(len(self._tools), dtype=np.bool_)
        marked[[self._tools[name] for name in set(names) if name in self._tools]] = True
        return marked

    def _intent_match(self, used: Sequence[str], intent: str | None) -> NDArray[np.float64]:
        """Same class where both are known, the shared order of calls elsewhere."""
        order = self._chain_overlap(used)
        if intent is None:
            return order
        same = self._intent_codes == self._intents.get(intent, UNKNOWN - 1)
        return np.where(self._intent_codes == UNKNOWN, order, same)

    def _chain_overlap(self, used: Sequence[str]) -> NDArray[np.float64]:
        if not used:
            return np.zeros(len(self))
        return self._distinct_chains.common([self._tools[name] for name in used if name in self._tools]) / len(used)

    @cached_property
    def _distinct_chains(self) -> DistinctChains:
        return DistinctChains(self._chains)

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Everything the index holds, as plain arrays for a safetensors file."""
        return {
            "embeddings": self.embeddings,
            "tools": _pack(self._tools),
            "set_start": self._tool_sets.start,
            "set_codes": self._tool_sets.codes,
            "chain_start": self._chains.start,
            "chain_codes": self._chains.codes,
            "intents": _pack(self._intents),
            "intent_codes": self._intent_codes,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> SeerIndex:
        """Takes back what :meth:`to_arrays` gave.

        Raises:
            MemoryFileError: An array is missing, or the arrays do not fit together.
        """
        try:
            index = cls(
                np.asarray(arrays["embeddings"], dtype=np.float32),
                _unpack(arrays["tools"]),
                Ragged(_integers(arrays["set_start"], np.int64), _integers(arrays["set_codes"], np.int32)),
                Ragged(_integers(arrays["chain_start"], np.int64), _integers(arrays["chain_codes"], np.int32)),
                _unpack(arrays["intents"]),
                _integers(arrays["intent_codes"], np.int32),
            )
        except KeyError as error:
            raise MemoryFileError(f"SEER index: array {error} is missing; mine or export the memory again") from error
        except ValueError as error:
            raise MemoryFileError(f"SEER index: {error}; mine or export the memory again") from error
        if not index._sound():
            raise MemoryFileError("SEER index: the arrays do not fit together; mine or export the memory again")
        return index

    def _sound(self) -> bool:
        intents = self._intent_codes
        return (
            self.embeddings.ndim == 2
            and bool(np.isfinite(self.embeddings).all())
            and all(lists.fits(len(self), len(self._tools)) for lists in (self._tool_sets, self._chains))
            and intents.shape == (len(self),)
            and bool(((intents >= UNKNOWN) & (intents < len(self._intents))).all())
        )


def _codes(known: dict[str, int], names: Sequence[str]) -> list[int]:
    """Codes of the names, new names numbered on."""
    return [known.setdefault(name, len(known)) for name in names]


def _pack(names: Mapping[str, int]) -> NDArray[np.uint8]:
    """Names in the order of their codes, as the bytes of a JSON list: names may hold any character."""
    return np.frombuffer(json.dumps(list(names)).encode(), dtype=np.uint8)


def _unpack(packed: NDArray[np.generic]) -> list[str]:
    names = json.loads(_integers(packed, np.uint8).tobytes())
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names) or len(set(names)) < len(names):
        raise ValueError("the names are not a list of distinct strings")
    return names


def _integers(array: NDArray[np.generic], dtype: type[np.integer]) -> NDArray:
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"integers were expected, got {array.dtype}")
    return np.asarray(array, dtype=dtype)
