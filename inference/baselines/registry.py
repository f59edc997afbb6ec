"""Every memory there is to compare, by name and in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from graph_schema.trajectory import Trajectory
from inference.baselines.base import Memory, Setting


@dataclass(frozen=True, slots=True)
class Entry:
    """A memory that can be built; calling it builds it.

    Attributes:
        where: ``module:class``; imported when it is first built, so that listing names loads nothing.
        group: ``baselines``, ``controls``, ``ablations`` or ``packages``; ``product`` for FRESH itself.
        line: What it is.
    """

    where: str
    group: str
    line: str

    @property
    def extra(self) -> str:
        """The extra of this project that it needs; empty for none. What needs one is built only when asked for."""
        return "bench" if self.group == "packages" else ""

    def memory(self) -> type[Memory]:
        """The class."""
        module, name = self.where.split(":")
        found: type[Memory] = getattr(import_module(module), name)
        return found

    def __call__(self, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Memory:
        """Builds the memory; see `Memory.build`."""
        return self.memory().build(trajectories, setting)


def _entry(module: str, name: str, group: str, line: str) -> Entry:
    return Entry(f"inference.baselines.{module}:{name}", group, line)


MEMORIES: Mapping[str, Entry] = {
    "none": _entry("none", "NoMemory", "baselines", "no memory"),
    "train-text": _entry("train_text", "TrainText", "baselines", "the text of the nearest recorded runs"),
    "vector-rag": _entry("vector_rag", "VectorRag", "baselines", "pieces of runs from moments like this one"),
    "replay": _entry("replay", "Replay", "baselines", "the rest of the nearest successful runs (ExpeL)"),
    "distilled": _entry("distilled", "Distilled", "baselines", "strategies and lessons of runs (ReasoningBank)"),
    "facts": _entry("facts", "Facts", "baselines", "short facts on requests and tools (Mem0)"),
    "h-epm": _entry("hepm", "HybridMemory", "baselines", "tool graph with the episodes of its edges (H-EPM)"),
    "few-shot": _entry("few_shot", "FewShot", "baselines", "the same successful runs before every step"),
    "draft": _entry("draft", "Draft", "baselines", "tool descriptions rewritten from recorded calls (DRAFT)"),
    "seer": _entry("seer", "Seer", "baselines", "successful runs recalled step by step (SEER)"),
    "expg": _entry("expg", "ExpG", "baselines", "guidance distilled for each tool (ExpG)"),
    "fresh": _entry("fresh_memory", "FreshMemory", "product", "the trained graph memory"),
    "bm25": _entry("controls", "Bm25Notes", "controls", "notes on runs recalled by BM25, successes first"),
    "irrelevant": _entry("controls", "IrrelevantMemory", "controls", "FRESH's guidance for other tasks, as long"),
    "fresh-shuffled": _entry("fresh_memory", "ShuffledLabels", "controls", "FRESH trained on shuffled labels"),
    "fresh-heuristic": _entry("fresh_memory", "HeuristicRetriever", "ablations", "BM25 and success rank"),
    "fresh-no-graph": _entry("fresh_memory", "NoGraphNetwork", "ablations", "without message passing on the graph"),
    "fresh-no-failures": _entry("fresh_memory", "NoFailureMemory", "ablations", "successes alone are mined"),
    "fresh-no-expg": _entry("fresh_memory", "NoExpgFeatures", "ablations", "without ExpG's statistics"),
    "fresh-no-seer": _entry("fresh_memory", "NoSeerFeatures", "ablations", "without SEER's scores"),
    "fresh-no-gate": _entry("fresh_memory", "NoGate", "ablations", "without the gate, its checks and its order"),
    "langgraph-store": _entry("adapters", "LangGraphStore", "packages", "LangGraph's InMemoryStore"),
    "mem0ai": _entry("adapters", "Mem0Package", "packages", "mem0ai without its model"),
    "mimir-learn": _entry("adapters", "MimirPackage", "packages", "mimir-learn"),
    "reasoning-bank": _entry("adapters", "ReasoningBankPackage", "packages", "reasoning-bank without its model"),
}
"""Builders by name, in the order of tables."""

GROUPS: Mapping[str, Sequence[str]] = {
    group: tuple(name for name, entry in MEMORIES.items() if entry.group in (group, "product"))
    for group in ("baselines", "controls", "ablations", "packages")
}
"""Names of groups; FRESH itself is in each, for comparison."""
