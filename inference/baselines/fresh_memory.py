"""FRESH itself behind the interface of all memories, and its ablations, each without one part.

A memory is mined, its reranker trained, both frozen into a folder and loaded from there, as a user would: what advises
is `inference.memory.FrozenMemory`. Training is the expensive part, so the runs with their encodings, and every network
trained on them, are shared by all arms that are built from the same runs; arms that differ in nothing the training sees
share one network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Self

import orjson

from fresh.frozen import freeze
from fresh.gate import GateSettings
from fresh.guidance import GuidanceSettings
from fresh.mining.evidence import RunEvidence
from fresh.mining.miner import MiningSettings, reduce_evidence
from fresh.retrieval.corpus import Corpus
from fresh.retrieval.view import GraphView
from graph_schema.errors import ConfigError
from graph_schema.trajectory import Outcome, Trajectory
from inference.baselines.base import Advice, Setting
from inference.baselines.kept import Kept
from inference.baselines.recall import encoder_of
from inference.memory import FrozenMemory, load

if TYPE_CHECKING:
    from fresh.retrieval.reranker import Reranker

_TRAINING = frozenset({"model", "data", "max_epochs"})
_NO_GATE = GateSettings(mode="off", min_support=10**9, unknown_tool="allow", ask_confirmation=False)
"""Lets every call pass, and leaves no condition to check or to put a look-up before an action for."""
_NO_FAILURES = GuidanceSettings(max_avoid=0, max_repair=0)


@dataclass(frozen=True)
class Parts:
    """The parts of FRESH that can be left out.

    Attributes:
        network: The trained reranker; without it BM25 and the success prior rank.
        convolutions: Message passing on the graph; without it the network is a perceptron on each node's own features.
        failures: Failed runs and failed calls in memory; without them no errors, repairs and failure counts, and no
            lines on what to avoid.
        expg: ExpG's statistics among the network's inputs.
        seer: SEER's scores among the network's inputs.
        gate: The gate, and what guidance takes from it: Check, and which look-up must come before a write.
        labels: Labels as feedback gives them; without, shuffled.
    """

    network: bool = True
    convolutions: bool = True
    failures: bool = True
    expg: bool = True
    seer: bool = True
    gate: bool = True
    labels: bool = True


class FreshMemory:
    """The product.

    Args:
        memory: The frozen memory.
        folder: Where it lies; removed with this object.

    Attributes:
        memory: Guides and, for a closed loop, gates.
    """

    name: ClassVar[str] = "fresh"
    parts: ClassVar[Parts] = Parts()

    def __init__(self, memory: FrozenMemory, folder: TemporaryDirectory[str]) -> None:
        self.memory = memory
        self._folder = folder

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.memory!r})"

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """Mines, trains, freezes and loads.

        Raises:
            ConfigError: There are no runs to learn from, feedback says nothing of them, there are too few tasks to
                validate on, or the setting has no fitter and the memory needs one.
        """
        parts = cls.parts
        prepared = _prepared(trajectories, setting, parts.failures)
        reranker, metrics = prepared.fitted(parts, setting) if parts.network else (None, {})
        folder = TemporaryDirectory(prefix="fresh-memory-")
        path = Path(folder.name) / "memory"
        view = prepared.whole
        freeze(view.graph, path, reranker=reranker, bm25=view.bm25, manifest={"metrics": dict(metrics)})
        memory = load(
            path,
            gate=None if parts.gate else _NO_GATE,
            guidance=None if parts.failures else _NO_FAILURES,
            encoder=encoder_of(setting),
        )
        return cls(memory, folder)

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        """The guidance for the step."""
        return Advice(self.memory.guide(messages, tools, budget=budget).text)

    def size(self) -> int:
        """Bytes of the folder."""
        return sum(file.stat().st_size for file in Path(self._folder.name).rglob("*") if file.is_file())


class HeuristicRetriever(FreshMemory):
    """Without the trained network: BM25 times the success prior ranks."""

    name = "fresh-heuristic"
    parts = Parts(network=False)


class NoGraphNetwork(FreshMemory):
    """Without the graph network: the reranker sees each node by itself."""

    name = "fresh-no-graph"
    parts = Parts(convolutions=False)


class NoFailureMemory(FreshMemory):
    """Without failure memory: successes alone are mined."""

    name = "fresh-no-failures"
    parts = Parts(failures=False)


class NoExpgFeatures(FreshMemory):
    """Without ExpG's statistics."""

    name = "fresh-no-expg"
    parts = Parts(expg=False)


class NoSeerFeatures(FreshMemory):
    """Without SEER's scores."""

    name = "fresh-no-seer"
    parts = Parts(seer=False)


class NoGate(FreshMemory):
    """Without the gate."""

    name = "fresh-no-gate"
    parts = Parts(gate=False)


class ShuffledLabels(FreshMemory):
    """The control: a network that was trained on shuffled labels."""

    name = "fresh-shuffled"
    parts = Parts(labels=False)


# -- what the arms share -----------------------------------------------------------------------------------------------


class _Prepared:
    """Runs ready to be learned from, the memory of all of them, and every network trained on them.

    Args:
        runs: The runs.
        corpus: What is to be seen of them.
    """

    def __init__(self, runs: Sequence[Trajectory], corpus: Corpus) -> None:
        self.runs = runs
        self.corpus = corpus
        self._fits: dict[bytes, tuple[Reranker, dict[str, float]]] = {}

    @cached_property
    def whole(self) -> GraphView:
        """The memory mined from all runs."""
        return self.corpus.view(range(len(self.corpus)))

    def fitted(self, parts: Parts, setting: Setting) -> tuple[Reranker, dict[str, float]]:
        """A network trained for these parts, with its validation metrics.

        Raises:
            ConfigError: The setting has no fitter, or the runs are too few or say too little.
        """
        if setting.fitter is None:
            raise ConfigError("a memory with a trained reranker needs a fitter: pass training.fit.fit_reranker")
        options = _options(parts, setting)
        key = orjson.dumps(options, option=orjson.OPT_SORT_KEYS)
        if key not in self._fits:
            self._fits[key] = setting.fitter(self.corpus, range(len(self.corpus)), **options)
        return self._fits[key]


def _options(parts: Parts, setting: Setting) -> dict[str, Any]:
    """What the fitter is told: the setting's options, changed by the parts left out."""
    unknown = sorted(set(setting.training) - _TRAINING)
    if unknown:
        raise ConfigError(f"unknown options of the training: {', '.join(unknown)}; there are model, data, max_epochs")
    model, data = dict(setting.training.get("model") or {}), dict(setting.training.get("data") or {})
    left_out = [name for name, kept in (("expg", parts.expg), ("seer", parts.seer)) if not kept]
    if left_out:
        data["without"] = [*(data.get("without") or ()), *left_out]
    if not parts.convolutions:
        model["layers"] = 0
    if not parts.labels:
        data |= {"shuffle_labels": True, "whole_runs": False}
    bound = {name: setting.training[name] for name in ("max_epochs",) if name in setting.training}
    return {"model": model, "data": data, "seed": setting.seed} | bound


_PREPARED: Kept[_Prepared] = Kept(2)


def _prepared(trajectories: Sequence[Trajectory], setting: Setting, failures: bool) -> _Prepared:
    """Runs made ready, shared by all arms that see the same of them."""
    subjects = setting.subject_arguments
    effects = tuple(sorted(setting.effects.items()))
    encoder = encoder_of(setting)
    runs = [run for _, run in sorted({run.id: run for run in trajectories}.items())]
    key = (tuple(map(id, runs)), failures, subjects, effects, encoder)  # what is kept holds the runs themselves
    kind = Corpus if failures else SuccessCorpus
    return _PREPARED.get(key, lambda: _Prepared(runs, kind(runs, encoder, subjects, setting.effects)))


class SuccessCorpus(Corpus):
    """Runs of which only what succeeded is remembered: runs that succeeded, and in them the calls that were worth it.

    Args:
        trajectories: Any runs; those not known to have succeeded are left out.
        options: As for `Corpus`.

    Raises:
        ConfigError: No run succeeded.
    """

    def __init__(self, trajectories: Sequence[Trajectory], *options: Any) -> None:
        successes = [run for run in trajectories if run.feedback.outcome is Outcome.SUCCESS]
        if not successes:
            raise ConfigError("no run is known to have succeeded: without failure memory there is nothing to learn")
        super().__init__(successes, *options)

    def view(self, runs: Any) -> GraphView:
        """A memory mined from the successes of some of the runs."""
        kept = [without_failures(self.evidence[i]) for i in runs]
        return GraphView(reduce_evidence(kept, self._resolver, self._specs, MiningSettings(), self.encoder))


def without_failures(evidence: RunEvidence) -> RunEvidence:
    """What a run shows, as if nothing in it had failed."""
    return replace(
        evidence,
        calls=tuple(call for call in evidence.calls if call.credit.sign > 0),
        uses=tuple(use for use in evidence.uses if use.sign > 0),
        fixes=(),
    )
