"""What is asked of a memory, and the runs nearest to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from fresh.history import History
from fresh.live import LiveParser
from fresh.retrieval.corpus import RememberingEncoder
from fresh.retrieval.encoder import Encoder, load_encoder
from fresh.retrieval.features import encode_queries, encode_query
from fresh.retrieval.query import Query, make_query
from fresh.retrieval.relevance import opening_query
from graph_schema.trajectory import CallStatus, ToolSpec, Trajectory
from inference.baselines.base import Setting
from inference.baselines.recorded import Recorded, Step, read, to_come
from inference.baselines.wording import Writer

_PARSER = LiveParser()
"""Shared, so that the same moment asked of many memories is parsed once."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment at which advice is asked for.

    Attributes:
        history: The run so far.
        query: What retrieval sees of it.
        done: Tools of the calls that went through, oldest first.
        failed: Tools of the calls that failed, oldest first.
        specs: The tools the agent may call, by name; None when unknown.
    """

    history: History
    query: Query
    done: tuple[str, ...]
    failed: tuple[str, ...]
    specs: dict[str, ToolSpec] | None

    @classmethod
    def of(cls, messages: Sequence[Any], tools: Sequence[Any] | None) -> Moment:
        """Reads a chat and a tool list as any caller holds them.

        Raises:
            ConfigError: They are no lists of messages and of tool descriptions.
        """
        specs = _PARSER.tools(tools)
        history = _PARSER.history(messages).history
        query = make_query(history, specs)
        done = tuple(tool for tool, status in query.used if status is CallStatus.OK)
        failed = tuple(tool for tool, status in query.used if status is CallStatus.ERROR)
        return cls(history, query, done, failed, specs)

    @property
    def empty(self) -> bool:
        """Whether nothing has been said or done yet."""
        return not (self.query.said or self.query.used)

    @property
    def last(self) -> str:
        """Tool of the newest call that went through; empty before the first."""
        return self.done[-1] if self.done else ""

    def may_call(self, *tools: str) -> bool:
        """Whether the agent is offered all of these tools, or nobody said what it is offered."""
        return self.query.offered is None or self.query.offered.issuperset(tools)

    def left(self, steps: Sequence[Step]) -> list[Step]:
        """The part of a chain that is still to come here."""
        return to_come(steps, self.done, self.query.offered)


class SharedEncoder:
    """An encoder that embeds each text of recorded runs once, however many memories are built from them.

    What is asked of a built memory goes to the encoder itself: no memory's latency may gain from another's questions.

    Args:
        encoder: The one that does the work.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._remembering = RememberingEncoder(encoder)

    @property
    def name(self) -> str:
        """Name of the encoder behind."""
        return self._encoder.name

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return self._encoder.dim

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of the texts, [n, dim]."""
        return self._remembering.encode(texts)

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """Unit vector of one text, [dim]."""
        return self._encoder.encode_query(text)


_shared: Callable[[Any], SharedEncoder] = lru_cache(maxsize=2)(SharedEncoder)
_default: Callable[[], Encoder] = lru_cache(maxsize=1)(load_encoder)


def encoder_of(setting: Setting) -> Encoder:
    """The setting's encoder, else the default one, shared by all memories that are built with it."""
    return _shared(setting.encoder or _default())


class RunStore:
    """Recorded runs with the vectors of their openings.

    Args:
        trajectories: The runs.
        setting: Encoder and effects.
        keep: Which of them to keep; all when None.
    """

    def __init__(
        self,
        trajectories: Sequence[Trajectory],
        setting: Setting,
        keep: Callable[[Recorded], bool] | None = None,
    ) -> None:
        everything = read(trajectories, setting.effects)
        self.runs = [run for run in everything if keep is None or keep(run)]
        self.writer = Writer.of(everything)
        self.encoder = encoder_of(setting)
        openings = encode_queries([opening_query(run.run) for run in self.runs], self.encoder)
        self.vectors = _stack([query.request for query in openings], self.encoder.dim)

    def __len__(self) -> int:
        return len(self.runs)

    def likeness(self, moment: Moment) -> NDArray[np.float32]:
        """Cosine of what the user has said so far with each run's opening, [n]."""
        return self.vectors @ encode_query(moment.query, self.encoder).request

    def nearest(self, moment: Moment, as_like: float = 0.0) -> list[Recorded]:
        """Runs, the nearest first; equal ones in order of content.

        Args:
            moment: The moment.
            as_like: Likeness relative to the best from which a run counts; 0 for all runs.
        """
        likeness = self.likeness(moment)
        best = float(likeness.max(initial=0.0))
        return [self.runs[i] for i in best_first(likeness) if not as_like or likeness[i] >= as_like * best]

    def size(self) -> int:
        """Bytes of the runs in words and of their vectors."""
        return len(orjson.dumps([run.plain() for run in self.runs])) + self.vectors.nbytes


def _stack(vectors: Sequence[NDArray[np.float32]], width: int) -> NDArray[np.float32]:
    return np.stack(vectors) if vectors else np.zeros((0, width), np.float32)


def encoded(queries: Sequence[Query], encoder: Encoder) -> NDArray[np.float32]:
    """Unit vectors of moments as wholes (words, last call, last error), [n, d]."""
    return _stack([query.text for query in encode_queries(queries, encoder)], encoder.dim)


def best_first(scores: NDArray[np.floating], k: int | None = None) -> list[int]:
    """Positions in order of score; equal ones keep their order."""
    return [int(i) for i in np.argsort(-scores, kind="stable")[:k]]
