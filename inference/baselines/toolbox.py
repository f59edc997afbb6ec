"""The tools of recorded runs, and which of them a moment is about: for memories of tools without an order of calls."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fresh.mining.patterns import in_words
from fresh.retrieval.encoder import Encoder
from fresh.retrieval.features import encode_query
from graph_schema.trajectory import ToolSpec
from inference.baselines.recall import Moment, best_first
from inference.baselines.recorded import Recorded, Step


class Toolbox:
    """Tools by likeness of their descriptions.

    Args:
        runs: The runs whose tools these are.
        encoder: Embeds the descriptions.
    """

    def __init__(self, runs: Sequence[Recorded], encoder: Encoder) -> None:
        self.steps: dict[str, list[Step]] = defaultdict(list)
        for step in (step for run in runs for step in run.steps):
            self.steps[step.tool].append(step)
        self.specs = _specs(runs)
        self.names = sorted(self.steps)
        self._encoder = encoder
        self.vectors: NDArray[np.float32] = encoder.encode([self._words(name) for name in self.names])

    def _words(self, name: str) -> str:
        spec = self.specs.get(name)
        arguments = Counter(argument for step in self.steps[name] for argument, _ in step.sources)
        purpose = first_sentence(spec.description) if spec else ""
        return f"{in_words(name)}. {purpose} {', '.join(in_words(a) for a, _ in arguments.most_common(4))}".strip()

    def likely(self, moment: Moment, count: int) -> list[str]:
        """Tools most like what has been said, that the agent may call; those called already come last."""
        scores = self.vectors @ encode_query(moment.query, self._encoder).request
        ranked = [self.names[i] for i in best_first(scores) if moment.may_call(self.names[i])]
        return sorted(ranked[: 2 * count], key=lambda name: name in moment.done)[:count]


def _specs(runs: Iterable[Recorded]) -> Mapping[str, ToolSpec]:
    """The longest description of each tool that a run lists."""
    found: dict[str, ToolSpec] = {}
    for spec in (spec for run in runs for spec in run.run.tools or ()):
        known = found.get(spec.name)
        if known is None or len(spec.description) > len(known.description):
            found[spec.name] = spec
    return found


def first_sentence(text: str) -> str:
    """The first sentence of a description, on one line."""
    return " ".join(text.split("\n\n", 1)[0].split()).split(". ", 1)[0].rstrip(".")
