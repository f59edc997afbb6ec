"""Reranking 50 candidates: the graph reranker against a sentence-transformers CrossEncoder of the same width.

The CrossEncoder is built here with untrained weights (6 layers, 384 wide, as MiniLM's), since its time does not depend
on them. Ours scores the same 50 nodes as part of their candidate subgraph; its time holds the features, the plan and
the network, but not the embedding of the query, which a run pays once for each new turn.

Run: ``python benchmarks/bench_rerank.py [--candidates 50] [--width 384] [--rounds 15]``
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import CrossEncoder
from timing import interleaved, milliseconds, print_table, ratio
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

from fresh.retrieval.candidates import Candidates, Recall
from fresh.retrieval.encoder import HashedEncoder
from fresh.retrieval.features import MatchFeatures, encode_query
from fresh.retrieval.query import Query
from fresh.retrieval.reranker import Reranker, RerankerConfig, collate, make_example
from fresh.retrieval.view import GraphView
from graph_schema.builder import GraphBuilder
from graph_schema.graph import ExperienceGraph, Run
from graph_schema.types import NodeType, Relation

WORDS = tuple(
    "cancel order return item refund payment method address member loan renew hold fine room booking date".split()  # noqa: SIM905
)
QUERY = Query(
    parts=(
        "I would like to cancel the order and get a refund to the payment method that I used for it",
        "yes, please go ahead with the refund",
        "get order order id",
    ),
    said=("I would like to cancel the order and get a refund to the payment method that I used for it",),
)


def memory(candidates: int, width: int) -> ExperienceGraph:
    """A memory of so many Actions, with a Tool and an Error each and an order among them."""
    rng = np.random.default_rng(0)
    builder = GraphBuilder()
    run = builder.add_run(Run("run", "task", "shop", "success", "", "file", 0))
    before = None
    for i in range(candidates):
        tool = f"tool_{i}"
        text = f"{tool} " + " ".join(rng.choice(WORDS, 12))
        action = builder.add_node(NodeType.ACTION, f"{tool}(order_id=<ORDER_ID>)", text=text, tool=tool)
        builder.count(action, run, success=1)
        builder.add_edge(action, Relation.USES, builder.add_node(NodeType.TOOL, tool, text=text, tool=tool), run)
        if before is not None:
            builder.add_edge(before, Relation.PRECEDES, action, run)
        before = action
    graph = builder.build()
    features = {
        "text": HashedEncoder(width).encode(graph.texts).astype(np.float16),
        "stat": rng.random((len(graph), 20), dtype=np.float32),
    }
    return ExperienceGraph(graph.tables, features=features)


def cross_encoder(folder: Path, texts: list[str], width: int) -> CrossEncoder:
    """An untrained CrossEncoder over the words of these texts, one token a word."""
    words = sorted({word for text in texts for word in text.lower().replace(",", " ").replace("_", " ").split()})
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, "_", ","]))
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=30522,
        hidden_size=width,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=4 * width,
        num_labels=1,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return CrossEncoder(str(folder), device="cpu", local_files_only=True)


def ours(graph: ExperienceGraph, width: int) -> tuple[GraphView, Reranker, Candidates]:
    view = GraphView(graph)
    config = RerankerConfig(text_dim=width, stat_names=tuple(view.stat_names), hidden=width, text_hidden=width)
    return view, Reranker(config).eval(), Recall(view).find(QUERY)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=50)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=15)
    o = parser.parse_args()

    torch.manual_seed(0)
    graph = memory(o.candidates, o.width)
    view, network, found = ours(graph, o.width)
    features, encoded = MatchFeatures(view), encode_query(QUERY, HashedEncoder(o.width))
    pairs = [(QUERY.text, view.graph.texts[i]) for i in view.guidance]
    assert len(pairs) == o.candidates

    def graph_reranker() -> object:
        with torch.inference_mode():
            return network(collate([make_example(view, features, found, encoded)]))[0]

    with tempfile.TemporaryDirectory() as folder:
        other = cross_encoder(Path(folder), [QUERY.text, *view.graph.texts], o.width)
        variants = {
            "CrossEncoder, 6 layers": lambda: other.predict(pairs, batch_size=o.candidates, show_progress_bar=False),
            "graph reranker": graph_reranker,
        }
        seconds = interleaved(variants, o.rounds, warmup=2)
    slow = seconds["CrossEncoder, 6 layers"]
    rows = [[name, milliseconds(s), f"{ratio(slow, s):.1f}x"] for name, s in seconds.items()]
    print_table(
        f"Reranking {o.candidates} candidates, width {o.width}, {torch.get_num_threads()} threads",
        ["variant", "time", "speed"],
        rows,
        ["torch", "sentence-transformers"],
    )


if __name__ == "__main__":
    main()
