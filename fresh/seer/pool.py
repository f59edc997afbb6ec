"""SEER on its own: successful runs go in, the best examples for a step come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fresh.history import History
from fresh.seer.eviction import Eviction, Stock, leaving
from fresh.seer.experience import Contents, Counters, Experience
from fresh.seer.intent import Intents, RuleIntents
from fresh.seer.text import Situation
from fresh.seer.weights import Weights, learn_weights
from graph_schema.errors import ConfigError
from graph_schema.trajectory import Outcome, Trajectory

if TYPE_CHECKING:
    from fresh.retrieval.encoder import Encoder

Judge = Callable[[Trajectory], bool]
"""Whether a run succeeded and may be an example."""

_BATCH = 64
"""Runs added at once: they are embedded together, and a full pool chooses who leaves after each batch."""


def succeeded(run: Trajectory) -> bool:
    """The judge by default: the run is recorded as a success, and no injected goal was reached in it."""
    return run.feedback.outcome is Outcome.SUCCESS and not run.feedback.attack_succeeded


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """How a pool keeps and recalls.

    Attributes:
        weights: Of the three scores.
        k: Runs recalled.
        capacity: Most runs kept.
        eviction: Which run leaves a full pool; see `ExperiencePool` for why this is the default.
        query_only: s1 compares the requests alone (E_q with E_q), the paper's query-based variant.

    Raises:
        ConfigError: ``k`` is negative, or ``capacity`` is below 1.
    """

    weights: Weights = field(default_factory=Weights)
    k: int = 4
    capacity: int = 1000
    eviction: Eviction = Eviction.LARGEST_INTENT
    query_only: bool = False

    def __post_init__(self) -> None:
        if self.k < 0 or self.capacity < 1:
            raise ConfigError(
                f"a SEER pool keeps at least 1 run and recalls 0 or more, got {self.capacity} and {self.k}"
            )


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A stored run that the next step may be modelled on.

    Attributes:
        experience: The run.
        scores: s1, s2 and s3, each from 0 to 1.
        total: Their weighted sum.
    """

    experience: Experience
    scores: tuple[float, float, float]
    total: float


class ExperiencePool:
    """Stepwise ExperiencE Recall (arXiv 2508.15214).

    A run enters if it is judged successful, as ``d = <E_tau, E_q, I, U>``: embeddings of its whole text
    (`fresh.seer.text.trajectory_text`) and of its request, the intent of the request, the set of tools called. For a
    history H_t every stored run is scored anew at every step:

    - ``s1 = (1 + cos(E_H, E_tau)) / 2``; with ``query_only`` the requests' embeddings instead. A text without any
      words has the zero vector, which gives 1/2.
    - ``s2 = |U_H & U| / |U_H|`` over sets. The paper leaves ``|U_H| = 0`` open. It is 0 for every run then: no
      call speaks for any run yet, and a constant changes no order.
    - ``s3 = 1`` if both intents are known and equal, else 0.

    Their weighted sum orders the runs; of equal sums the older run comes first.

    A pool that has reached its capacity drops a run for each that comes. The paper does not say which;
    `fresh.seer.eviction.Eviction` has the choices. The default drops the oldest run of the largest class of intents:
    rare kinds of requests keep an example, common ones stay recent, and where no intent is known it is the plain
    oldest. Dropping what was seldom recalled keeps what the pool happened to recall first, and loses the rare kinds.

    Args:
        encoder: Embeds the texts.
        settings: How to keep and recall.
        intents: Tells the intent of a request; the rules by default.
        judge: Which runs may enter; those recorded as successes by default.
        contents: What it holds from the start, as `contents` of another pool gives it.
    """

    def __init__(
        self,
        encoder: Encoder,
        settings: PoolSettings = PoolSettings(),
        *,
        intents: Intents | None = None,
        judge: Judge = succeeded,
        contents: Contents | None = None,
    ) -> None:
        self.encoder = encoder
        self.settings = settings
        self._intents = intents or RuleIntents()
        self._judge = judge
        nothing = np.zeros((0, encoder.dim), np.float32)
        self._fill(contents or Contents([], [], nothing, nothing))

    def __len__(self) -> int:
        return len(self.contents.experiences)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(runs={len(self)}, encoder={self.encoder.name!r}, settings={self.settings})"

    @property
    def experiences(self) -> tuple[Experience, ...]:
        """The stored runs, oldest first."""
        return tuple(self.contents.experiences)

    # -- growth -------------------------------------------------------------------------------------------------------

    def add(self, runs: Iterable[Trajectory], intents: Sequence[str | None] | None = None) -> int:
        """Takes in the runs that are judged successful and not in the pool; a full pool drops runs for them.

        Args:
            runs: Any runs.
            intents: Intent of each run's request where the caller knows it, None for an unknown one; by default the
                pool's own classifier tells.

        Returns:
            How many came in; some of them may have had to leave again.

        Raises:
            ConfigError: ``intents`` has another length than ``runs``.
        """
        given = list(runs)
        if intents is not None and len(intents) != len(given):
            raise ConfigError(f"SEER needs one intent a run, got {len(intents)} for {len(given)} runs")
        classes = dict(zip((run.id for run in given), intents, strict=True)) if intents is not None else None
        held = {experience.run_id for experience in self.contents.experiences}
        fresh = {run.id: run for run in given if run.id not in held and self._judge(run)}
        waiting = iter(fresh.values())
        while batch := list(islice(waiting, _BATCH)):
            self._take(batch, classes)
        return len(fresh)

    def _take(self, runs: Sequence[Trajectory], classes: dict[str, str | None] | None) -> None:
        situations = [Situation.of_run(run) for run in runs]
        told = self._classes(situations) if classes is None else [classes[run.id] for run in runs]
        new = [Experience.of(run, s.tools, i) for run, s, i in zip(runs, situations, told, strict=True)]
        vectors = self.encoder.encode([s.text for s in situations] + [s.request for s in situations])
        old = self.contents
        contents = Contents(
            old.experiences + new,
            old.counters + [Counters(entered=old.recalls) for _ in new],
            np.concatenate([old.runs, vectors[: len(new)]]),
            np.concatenate([old.requests, vectors[len(new) :]]),
            old.recalls,
        )
        self._fill(contents)
        surplus = len(self) - self.settings.capacity
        if surplus > 0:
            self._drop(leaving(self.settings.eviction, self._stock(), surplus))

    def _drop(self, numbers: NDArray[np.int64]) -> None:
        old = self.contents
        kept = np.setdiff1d(np.arange(len(self)), numbers)
        experiences, counters = [old.experiences[i] for i in kept], [old.counters[i] for i in kept]
        self._fill(Contents(experiences, counters, old.runs[kept], old.requests[kept], old.recalls))

    def _fill(self, contents: Contents) -> None:
        """Puts these runs in place of those there are, ready to be scored."""
        self.contents = contents
        experiences = contents.experiences
        tools = sorted(set().union(*(e.tools for e in experiences)))
        self._row = {tool: row for row, tool in enumerate(tools)}
        # Tools by rows: the sum over a few tools then reads a few rows, whatever the number of runs.
        self._uses = np.zeros((len(tools), len(experiences)), dtype=np.float32)
        for number, experience in enumerate(experiences):
            self._uses[[self._row[tool] for tool in experience.tools], number] = 1
        self._intent_codes: dict[str | None, int] = {}
        codes = [self._intent_codes.setdefault(e.intent, len(self._intent_codes)) for e in experiences]
        self._codes = np.array(codes, dtype=np.int64)

    @property
    def _vectors(self) -> NDArray[np.float32]:
        """What s1 compares, ``[n, d]``."""
        return self.contents.requests if self.settings.query_only else self.contents.runs

    def _stock(self) -> Stock:
        def column(name: str) -> NDArray[np.int64]:
            return np.array([getattr(counters, name) for counters in self.contents.counters], dtype=np.int64)

        return Stock(
            recalled=column("recalled"),
            chances=self.contents.recalls - column("entered"),
            helped=column("helped"),
            judged=column("judged"),
            intents=self._codes,
            likeness=self._likeness,
        )

    def _likeness(self) -> NDArray[np.float32]:
        """The weighted sum of the three scores of every two runs, with Jaccard's for s2, ``[n, n]``."""
        weights = self.settings.weights
        vectors = self._vectors
        shared = self._uses.T @ self._uses
        size = self._uses.sum(axis=0)
        either = np.maximum(size[:, None] + size - shared, 1)
        same = (self._codes[:, None] == self._codes) & (self._codes != self._intent_codes.get(None, -1))
        total = weights.s1 * (1 + vectors @ vectors.T) / 2 + weights.s2 * shared / either + weights.s3 * same
        return total.astype(np.float32)

    # -- recall -------------------------------------------------------------------------------------------------------

    def scores(self, now: History | Situation, intent: str | None = None) -> NDArray[np.float64]:
        """s1, s2 and s3 of every stored run, oldest first, ``[n, 3]``, each from 0 to 1.

        Args:
            now: The run in progress.
            intent: Intent of its request where the caller knows it; by default the pool's own classifier tells.
        """
        situation = now if isinstance(now, Situation) else Situation.of(now)
        own = situation.request if self.settings.query_only else situation.text
        told = self._classes([situation])[0] if intent is None else intent
        return self.score_vectors(self.encoder.encode_query(own), situation.tools, told)

    def score_vectors(
        self, embedding: NDArray[np.float32], tools: Iterable[str], intent: str | None
    ) -> NDArray[np.float64]:
        """As `scores`, of what is embedded and classified already: under a millisecond for a full pool.

        Args:
            embedding: Unit vector of the history's text, or of its request with ``query_only``, ``[d]``.
            tools: Tools called so far.
            intent: Intent of the request; None for an unknown one, which equals no other.

        Raises:
            ConfigError: The embedding is of another width than the stored ones.
        """
        stored = self._vectors
        query = np.asarray(embedding, dtype=np.float32)
        if query.shape != stored.shape[1:]:
            raise ConfigError(
                f"the pool's embeddings are {stored.shape[1]} wide, the query has shape {query.shape}: "
                "use one text encoder for both"
            )
        used = set(tools)
        out = np.zeros((len(self), 3))
        out[:, 0] = np.clip((1 + stored @ query) / 2, 0, 1)
        if used:
            rows = [self._row[tool] for tool in used if tool in self._row]
            out[:, 1] = self._uses[rows].sum(axis=0) / len(used)
        if intent is not None:
            out[:, 2] = self._codes == self._intent_codes.get(intent, -1)
        return out

    def recall(
        self,
        now: History | Situation,
        *,
        intent: str | None = None,
        k: int | None = None,
        weights: Weights | None = None,
    ) -> list[Exemplar]:
        """The best runs for the next step, best first; what was recalled is counted.

        Args:
            now: The run in progress.
            intent: See `scores`.
            k: At most this many; the pool's own number if left out.
            weights: Instead of the pool's own, for an ablation say.

        Raises:
            ConfigError: ``k`` is negative.
        """
        wanted = self.settings.k if k is None else k
        if wanted < 0:
            raise ConfigError(f"SEER recalls 0 runs or more, not {wanted}")
        scores = self.scores(now, intent)
        total = (weights or self.settings.weights).total(scores)
        best = np.argsort(-total, kind="stable")[:wanted]
        self.contents.recalls += 1
        for number in best:
            self.contents.counters[number].recalled += 1
        return [Exemplar(self.contents.experiences[i], tuple(scores[i].tolist()), float(total[i])) for i in best]

    def feedback(self, exemplars: Iterable[Exemplar], helped: bool) -> None:
        """Says whether recalled runs helped, for `Eviction.LEAST_HELPFUL`; runs that have left are passed over."""
        place = {experience.run_id: number for number, experience in enumerate(self.contents.experiences)}
        for exemplar in exemplars:
            number = place.get(exemplar.experience.run_id)
            if number is not None:
                self.contents.counters[number].judged += 1
                self.contents.counters[number].helped += helped

    def learn(
        self,
        examples: Iterable[tuple[History | Situation, Callable[[Experience], bool | None]]],
        *,
        ridge: float = 0.01,
    ) -> Weights:
        """Learns the pool's weights from which stored runs were of use, and recalls by them from now on.

        Args:
            examples: Histories, each with what says of a stored run that it is of use there, is not, or (None) must not
                be looked at, such as a run of the same task; see `fresh.seer.weights.same_writes`.
            ridge: See `fresh.seer.weights.learn_weights`.

        Raises:
            ConfigError: Nothing can be learnt: no history has both kinds of runs.
        """
        queries = []
        for now, useful in examples:
            marks = [useful(experience) for experience in self.contents.experiences]
            seen = np.array([mark is not None for mark in marks], dtype=np.bool_)
            queries.append((self.scores(now)[seen], [mark for mark in marks if mark is not None]))
        weights = learn_weights(queries, ridge=ridge)
        self.settings = replace(self.settings, weights=weights)
        return weights

    def _classes(self, situations: Sequence[Situation]) -> list[str | None]:
        """The intent of each request, or of what the user said first where the request alone has none."""
        said = [s.said or (s.request,) for s in situations]
        found = self._intents.classify([texts[0] for texts in said])
        later = [i for i, intent in enumerate(found) if intent is None and len(said[i]) > 1]
        for i, intent in zip(later, self._intents.classify(["\n".join(said[i]) for i in later]), strict=True):
            found[i] = intent
        return found
