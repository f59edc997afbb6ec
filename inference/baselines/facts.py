"""Mem0-style facts: short statements, each kept once, recalled by dense similarity with the moment.

Mem0 has a model extract facts from conversations and decide for each whether it is new, changes a known one or says
nothing new, and keeps what concerns the user apart from what concerns the agent. Here rules extract them from runs, in
these two scopes: with which calls a request was met; and of tools, what they show, what must be called before them,
where an argument's value comes from, and how they fail. A fact that is met again is the same fact with one more run
behind it, and what most runs do not bear out is none. Facts on requests are recalled by the moment alone, those on
tools by the moment together with the tools that the first have named.

Source: Chhikara et al., "Mem0: Building Production-Ready AI Agents with Scalable Long-Term Memory" (arXiv 2504.19413).
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from fresh.mining.patterns import in_words
from fresh.retrieval.encoder import Encoder
from fresh.retrieval.features import encode_query
from graph_schema.trajectory import Effect, Trajectory
from inference.baselines.base import Advice, Setting
from inference.baselines.recall import Moment, best_first, encoder_of
from inference.baselines.recorded import Recorded, read
from inference.baselines.wording import Writer, failure_line, fix_words, head

_REQUESTS, _TOOLS = 3, 10
"""Facts recalled of each of the two scopes."""
_MOSTLY = 0.6
"""Share of the cases in which something must have been so for it to be a fact."""
_MIN_RUNS = 2
"""Runs behind a fact about a tool."""
_MAX_FIELDS = 8


@dataclass(frozen=True)
class Fact:
    """A statement.

    Attributes:
        about: The text that is embedded: the statement in plain words.
        text: The statement.
        tools: The tools it speaks of.
        first: A tool that it tells to call first; no use once that is done.
    """

    about: str
    text: str
    tools: frozenset[str]
    first: str = ""


class Scope:
    """Facts with their vectors.

    Args:
        facts: The facts.
        encoder: Embeds them.
    """

    def __init__(self, facts: Iterable[Fact], encoder: Encoder) -> None:
        self.facts = list(facts)
        self.vectors: NDArray[np.float32] = encoder.encode([fact.about for fact in self.facts])

    def recall(self, vector: NDArray[np.float32], moment: Moment, count: int) -> list[Fact]:
        """The facts most like a vector that are of use now."""
        ranked = (self.facts[i] for i in best_first(self.vectors @ vector))
        usable = (f for f in ranked if moment.may_call(*f.tools) and f.first not in moment.done)
        return list(itertools.islice(usable, count))


class Facts:
    """Recalls facts."""

    name: ClassVar[str] = "facts"

    def __init__(self, requests: Scope, tools: Scope, writer: Writer, encoder: Encoder) -> None:
        self._requests = requests
        self._tools = tools
        self._writer = writer
        self._encoder = encoder

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """Extracts the facts of all runs."""
        runs, encoder = read(trajectories, setting.effects), encoder_of(setting)
        tools = [*_orders(runs), *_sources(runs), *_shown(runs), *_failures(runs)]
        return cls(Scope(_requests(runs), encoder), Scope(tools, encoder), Writer.of(runs), encoder)

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        """How the most similar requests were met, then what is known of the tools that this takes."""
        moment = Moment.of(messages, tools)
        if moment.empty:
            return Advice()
        vector = encode_query(moment.query, self._encoder).text
        requests = self._requests.recall(vector, moment, _REQUESTS)
        named = sorted({in_words(tool) for fact in requests for tool in fact.tools})
        if named:
            vector = vector + self._encoder.encode_query(", ".join(named))
        recalled = [*requests, *self._tools.recall(vector, moment, _TOOLS)]
        return self._writer.advice((fact.text for fact in recalled), budget)

    def size(self) -> int:
        """Bytes of the facts and their vectors."""
        scopes = (self._requests, self._tools)
        return sum(len(orjson.dumps([f.text for f in scope.facts])) + scope.vectors.nbytes for scope in scopes)


def _requests(runs: Iterable[Recorded]) -> Iterator[Fact]:
    """With which tools a request was met: the writes of a run that succeeded, or what it looked up last."""
    known: set[tuple[str, tuple[str, ...]]] = set()
    for run in runs:
        if not run.succeeded or not run.good_steps:
            continue
        writes = [step for step in run.good_steps if step.effect is Effect.WRITE] or list(run.good_steps[-1:])
        tools = tuple(dict.fromkeys(step.tool for step in writes))
        if (run.request, tools) not in known:
            known.add((run.request, tools))
            text = f'A request like "{head(run.request)}" was met with {", ".join(tools)}'
            yield Fact(run.request, text, frozenset(tools))


def _orders(runs: Sequence[Recorded]) -> Iterator[Fact]:
    """What nearly every good use of a tool had called before."""
    uses: Counter[str] = Counter()
    before: dict[str, Counter[str]] = defaultdict(Counter)
    for run in (run for run in runs if run.succeeded):
        seen: list[str] = []
        for step in run.good_steps:
            if step.tool not in seen:
                uses[step.tool] += 1
                before[step.tool].update(seen)
                seen.append(step.tool)
    for tool, counts in sorted(before.items()):
        for other, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            if count >= _MIN_RUNS and count >= _MOSTLY * uses[tool]:
                about = f"before {in_words(tool)} call {in_words(other)}"
                yield Fact(about, f"before {tool}: call {other}", frozenset((tool, other)), first=other)


def _sources(runs: Iterable[Recorded]) -> Iterator[Fact]:
    """Where the values of an argument come from, if mostly from one place."""
    places: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for step in (step for run in runs for step in run.good_steps):
        for argument, source in step.sources:
            places[step.tool, argument][source] += 1
    for (tool, argument), counts in sorted(places.items()):
        source, count = min(counts.items(), key=lambda item: (-item[1], item[0]))
        if source == "nowhere" or count < _MIN_RUNS or count < _MOSTLY * counts.total():
            continue
        name = argument.replace("[]", "")
        where = "what the user says" if source == "request" else f"the result of {source.split(':', 1)[0]}"
        about = f"{in_words(tool)} takes {in_words(name)} from {in_words(where)}"
        other = () if source == "request" else (source.split(":", 1)[0],)
        yield Fact(about, f"{tool} takes {name} from {where}", frozenset((tool, *other)))


def _shown(runs: Iterable[Recorded]) -> Iterator[Fact]:
    """The fields that a look-up brings."""
    fields: dict[str, Counter[str]] = defaultdict(Counter)
    times: Counter[str] = Counter()
    for step in (step for run in runs for step in run.good_steps):
        if step.effect is Effect.READ and step.fields and step.fields != ("text",):
            times[step.tool] += 1
            fields[step.tool].update(step.fields)
    for tool, counts in sorted(fields.items()):
        usual = sorted(name for name, count in counts.items() if count >= _MOSTLY * times[tool])[:_MAX_FIELDS]
        if usual and times[tool] >= _MIN_RUNS:
            shown = ", ".join(usual)
            yield Fact(f"{in_words(tool)} shows {in_words(shown)}", f"{tool} shows {shown}", frozenset((tool,)))


def _failures(runs: Iterable[Recorded]) -> Iterator[Fact]:
    """How tools fail, with what has resolved it most often."""
    first: dict[tuple[str, str], str] = {}
    seen: dict[tuple[str, str], set[str]] = defaultdict(set)
    for run in runs:
        fixes = {position: fix for position, fix, _ in run.fixes}
        for position, step in enumerate(run.steps):
            if not step.failed:
                continue
            key = (step.tool, step.failed)
            seen[key].add(run.run.id)
            fix = fixes.get(position)
            if key not in first or fix is not None:
                first[key] = failure_line(step.tool, step.failed, fix_words(step.tool, fix) if fix else "")
    for (tool, message), text in sorted(first.items()):
        if len(seen[tool, message]) >= _MIN_RUNS:
            yield Fact(f"{in_words(tool)} fails: {message}", text, frozenset((tool,)))
