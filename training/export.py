"""The end of a fit: the frozen memory, a folder that loads with neither Lightning nor pickle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fresh.expg.distillation import distil
from fresh.expg.evaluate import RuleEvaluator
from fresh.frozen import freeze
from fresh.retrieval.corpus import Corpus
from fresh.retrieval.reranker import Reranker
from fresh.versions import versions
from graph_schema.graph import ExperienceGraph


def export_memory(
    path: str | Path,
    corpus: Corpus,
    runs: Sequence[int],
    reranker: Reranker,
    metrics: Mapping[str, float],
    settings: Mapping[str, Any],
) -> ExperienceGraph:
    """Mines the final graph and writes it with the reranker and a card.

    Args:
        path: The folder.
        corpus: The runs.
        runs: Those that the memory is made of.
        reranker: Trained.
        metrics: What was measured on validation tasks.
        settings: Of the training; plain JSON values.

    Returns:
        The graph that was written.

    Raises:
        MemoryFileError: The folder cannot be written.
    """
    view = corpus.view(runs)
    data = _data(corpus, runs)
    freeze(
        view.graph,
        path,
        reranker=reranker,
        bm25=view.bm25,
        tool_guidance=_tool_guidance(corpus, runs),
        card=model_card(view.graph, reranker, data, metrics),
        manifest={
            "encoder": reranker.config.encoder,
            "data": data,
            "metrics": {name: round(value, 6) for name, value in sorted(metrics.items())},
            "training": dict(settings),
            "versions": versions(),
        },
    )
    return view.graph


def _tool_guidance(corpus: Corpus, runs: Sequence[int]) -> dict[str, Any]:
    """ExpG's guidance for each tool, distilled from the same runs."""
    experiences = RuleEvaluator().evaluate([corpus.runs[i] for i in runs])
    return {tool: found.model_dump(mode="json") for tool, found in distil(experiences).guidance.items()}


def _data(corpus: Corpus, runs: Sequence[int]) -> dict[str, Any]:
    chosen = [corpus.runs[i] for i in runs]
    return {
        "files": sorted({Path(run.source.file).name for run in chosen}),
        "domains": dict(sorted(Counter(run.domain or "unknown" for run in chosen).items())),
        "outcomes": dict(sorted(Counter(str(run.feedback.outcome) for run in chosen).items())),
        "runs": len(chosen),
        "tasks": len({run.task_key for run in chosen}),
    }


def model_card(
    graph: ExperienceGraph, reranker: Reranker, data: Mapping[str, Any], metrics: Mapping[str, float]
) -> str:
    """What a reader should know of a frozen memory, as Markdown."""
    config = reranker.config
    size = sum(parameter.numel() for parameter in reranker.parameters())
    counts = "\n".join(f"| {name} | {count} |" for name, count in graph.counts().items())
    measured = "\n".join(f"| {name} | {value:.3f} |" for name, value in sorted(metrics.items()))
    outcomes = ", ".join(f"{count} {name}" for name, count in data["outcomes"].items())
    domains = ", ".join(f"{name} ({count})" for name, count in data["domains"].items())
    return f"""# Frozen memory

Experience mined from {data["runs"]} recorded runs of {data["tasks"]} tasks ({outcomes}), with a graph network that
ranks it for the step an agent is about to take.

## Data

- domains: {domains}
- files: {", ".join(data["files"])}

## Counts

| what | number |
| --- | --- |
{counts}

## Measured

On tasks kept out of training (the first inner fold); the reranker with the best nDCG@10 was kept.

| metric | value |
| --- | --- |
{measured or "| none | |"}

## Settings

- text encoder: {config.encoder or "unknown"}, {config.text_dim} wide
- network: {config.layers} relational convolutions, {config.hidden} wide, {size} parameters
- statistics: {", ".join(config.stat_names)}

The settings of the training and the versions of the libraries are in `manifest.json`.

## Limits

- It knows the tools and tasks of these runs only; for others it falls back on likeness of words.
- The validation tasks are part of the graph, and the metrics above are of memories that did not hold them.
- Whether a run succeeded is as its traces say; where they are wrong, so is what was learned from them.
- It is frozen: evolving it is an error. Mine and fit again to take in new runs.
"""
