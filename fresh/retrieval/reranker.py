"""The trained reranker: a relational graph network over a candidate subgraph, and a score for each node of it.

Needs PyTorch and nothing else; a frozen memory carries its weights as safetensors and its settings as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fresh.retrieval.candidates import NUM_RELATIONS, Candidates
from fresh.retrieval.features import HISTORY_NAMES, MATCH_NAMES, EncodedQuery, MatchFeatures
from fresh.retrieval.rgcn import RelationalPlan, RGCNLayer
from fresh.retrieval.view import GraphView
from graph_schema.errors import ConfigError, MemoryFileError, SchemaError
from graph_schema.types import NODE_TYPES


@dataclass(frozen=True)
class RerankerConfig:
    """Shape of the network; plain values only.

    Attributes:
        text_dim: Width of the text embedding.
        stat_names: Columns of e_stat that it reads, in order.
        match_names: Columns of e_match that it reads, in order.
        history_names: Columns of the moment that it reads, in order.
        hidden: Width of the layers.
        layers: Rounds of message passing.
        type_dim: Width of the learned type embedding.
        text_hidden: Width that text embeddings are first brought to.
        dropout: Applied to the inputs and between layers, in training only.
        encoder: Name of the text encoder whose embeddings it was trained on.
        match_left_out: Columns of e_match that it does not see, for ablations; they are computed and blanked.
    """

    text_dim: int
    stat_names: tuple[str, ...]
    match_names: tuple[str, ...] = MATCH_NAMES
    history_names: tuple[str, ...] = HISTORY_NAMES
    hidden: int = 64
    layers: int = 2
    type_dim: int = 8
    text_hidden: int = 32
    dropout: float = 0.1
    encoder: str = ""
    match_left_out: tuple[str, ...] = ()

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> RerankerConfig:
        """Reads what `plain` wrote.

        Raises:
            MemoryFileError: A setting is missing or unknown.
        """
        unknown = sorted(set(values) - {field.name for field in fields(cls)})
        if unknown:
            names = ", ".join(unknown)
            raise MemoryFileError(f"this version does not know the reranker's {names}: upgrade fresh-memory")
        plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        try:
            return cls(**plain)
        except TypeError as error:
            raise MemoryFileError(f"the reranker's settings are incomplete ({error}); export it again") from None

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


@dataclass
class Batch:
    """Candidate subgraphs of some queries, side by side.

    n nodes in all, B queries. Without a plan, `Reranker` builds it.

    Attributes:
        text: float32 [n, d].
        types: int64 [n].
        stat: float32 [n, S], as `GraphView.stat` gives it.
        match: float32 [n, M].
        plan: Message passing of all subgraphs.
        query_text: float32 [B, 2 d]: the query's two text vectors.
        history: float32 [B, H].
        query_of: Which query a node is a candidate of, int64 [n].
    """

    text: Tensor
    types: Tensor
    stat: Tensor
    match: Tensor
    plan: RelationalPlan
    query_text: Tensor
    history: Tensor
    query_of: Tensor

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        return Batch(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})


class Reranker(nn.Module):
    r"""Scores the nodes of candidate subgraphs for their queries.

    .. math::
        h_v^{(0)} &= W_{in} [e_{text} \| e_{type} \| e_{stat} \| e_{match}] \\
        h_v^{(l+1)} &= h_v^{(l)} + \sigma\Big(\mathrm{LN}\big(W_0 h_v^{(l)} +
            \sum_r \tfrac{1}{|\mathcal{N}_r(v)|} \sum_{u \in \mathcal{N}_r(v)} W_r h_u^{(l)}\big)\Big) \\
        s_\phi(q, v) &= \mathrm{MLP}([h_v \| q \| h_v \odot q]) + w^\top e_{match}

    The last term lets what the query and the node share reach the score undiluted; few training tasks suffice for it.
    Each relation is passed both ways, with weights of its own for the inverse. A second head of the same form scores
    the Task nodes, for the retrieval of whole runs.

    Args:
        config: The shape.
    """

    match_seen: Tensor

    def __init__(self, config: RerankerConfig) -> None:
        super().__init__()
        self.config = config
        seen = [float(name not in config.match_left_out) for name in config.match_names]
        self.register_buffer("match_seen", torch.tensor(seen), persistent=False)
        hidden, narrow = config.hidden, config.text_hidden
        self.text_in = nn.Linear(config.text_dim, narrow)
        self.type_in = nn.Embedding(len(NODE_TYPES), config.type_dim)
        self.stat_norm = Standardise(len(config.stat_names))
        self.match_norm = Standardise(len(config.match_names))
        self.history_norm = Standardise(len(config.history_names))
        width = narrow + config.type_dim + len(config.stat_names) + len(config.match_names)
        self.node_in = nn.Linear(width, hidden)
        self.query_in = nn.Linear(2 * narrow + len(config.history_names), hidden)
        self.convolutions = nn.ModuleList(RGCNLayer(hidden, hidden, NUM_RELATIONS) for _ in range(config.layers))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(config.layers))
        self.dropout = nn.Dropout(config.dropout)
        self.node_head = _head(hidden)
        self.task_head = _head(hidden)
        self.direct = nn.Linear(len(config.match_names), 2)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Scores every node twice.

        Returns:
            Relevance as guidance and relevance as a recorded task, [n] each; which of the two means something depends
            on the node's type.
        """
        match = self.match_norm(batch.match) * self.match_seen
        text = self.dropout(self.text_in(batch.text))
        query_text = self.dropout(self.text_in(batch.query_text.view(-1, 2, self.config.text_dim)).flatten(1))
        inside = [text, self.type_in(batch.types), self.stat_norm(batch.stat), match]
        h = torch.relu(self.node_in(self.dropout(torch.cat(inside, dim=1))))
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            h = h + self.dropout(torch.relu(norm(convolution(h, batch.plan))))
        query = torch.relu(self.query_in(torch.cat([query_text, self.history_norm(batch.history)], dim=1)))
        query = query[batch.query_of]
        joint = torch.cat([h, query, h * query], dim=1)
        direct = self.direct(match)
        return self.node_head(joint).squeeze(1) + direct[:, 0], self.task_head(joint).squeeze(1) + direct[:, 1]

    def __repr__(self) -> str:
        size = sum(parameter.numel() for parameter in self.parameters())
        return f"{type(self).__name__}(hidden={self.config.hidden}, layers={self.config.layers}, parameters={size})"

    # -- files ----------------------------------------------------------------------------------------------------

    def write_weights(self, path: Path) -> None:
        """Writes the weights as safetensors."""
        from safetensors.torch import save_file

        save_file({name: value.detach().cpu().contiguous() for name, value in self.state_dict().items()}, path)

    @classmethod
    def read(cls, config: Mapping[str, Any], path: Path, device: str = "cpu") -> Reranker:
        """Reads a reranker, ready for use.

        Args:
            config: What `RerankerConfig.plain` gave.
            path: The weights.
            device: Where it shall run.

        Raises:
            MemoryFileError: Settings and weights do not fit, or the file is damaged.
            ConfigError: There is no such device.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        model = cls(RerankerConfig.from_plain(config))
        try:
            model.load_state_dict(load_file(path))
        except (OSError, SafetensorError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise MemoryFileError(f"the reranker in {path} cannot be read: {reason}; export it again") from None
        try:
            return model.to(device).eval()
        except (RuntimeError, AssertionError) as error:  # PyTorch raises either, by device and build
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(
                f"the reranker cannot run on {device!r} here ({reason}): load with device='cpu'"
            ) from None


def _head(hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))


class Standardise(nn.Module):
    """Shifts and scales columns by what was measured in training; stored with the weights.

    Args:
        width: Number of columns.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))

    def fit(self, rows: Tensor) -> None:
        """Takes mean and deviation of the columns, [n, width]; a constant column is only shifted."""
        deviation = rows.std(dim=0, correction=0)
        self.mean.copy_(rows.mean(dim=0))
        self.scale.copy_(torch.where(deviation > 1e-6, deviation, torch.ones_like(deviation)))

    def forward(self, rows: Tensor) -> Tensor:
        """Standardised columns, cut off at eight deviations."""
        return ((rows - self.mean) / self.scale).clamp(-8, 8)


# -- from a memory to a batch ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    """One query over its candidates, as arrays."""

    candidates: Candidates
    match: np.ndarray
    history: np.ndarray
    query_text: np.ndarray
    view: GraphView


def make_example(view: GraphView, features: MatchFeatures, candidates: Candidates, encoded: EncodedQuery) -> Example:
    """Works out what the network needs to know of a query."""
    return Example(
        candidates=candidates,
        match=features.match(encoded, candidates.nodes, candidates.bm25),
        history=features.history(encoded.query),
        query_text=np.concatenate([encoded.text, encoded.request]),
        view=view,
    )


def collate(examples: Sequence[Example], stat_columns: Sequence[int] | None = None) -> Batch:
    """Lays examples side by side; they may come from different memories of the same features.

    Args:
        examples: At least one.
        stat_columns: Columns of e_stat to keep; all when None.
    """
    sizes = [len(e.candidates.nodes) for e in examples]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    edges = [e.candidates.edge_index + offset for e, offset in zip(examples, offsets, strict=False)]
    stat = np.concatenate([e.view.stat[e.candidates.nodes] for e in examples])
    total = int(offsets[-1])
    return Batch(
        text=torch.from_numpy(np.concatenate([e.view.text[e.candidates.nodes] for e in examples]).astype(np.float32)),
        types=torch.from_numpy(np.concatenate([e.view.types[e.candidates.nodes] for e in examples])),
        stat=torch.from_numpy(stat if stat_columns is None else stat[:, list(stat_columns)]),
        match=torch.from_numpy(np.concatenate([e.match for e in examples])),
        plan=RelationalPlan.build(
            torch.from_numpy(np.concatenate(edges, axis=1)),
            torch.from_numpy(np.concatenate([e.candidates.relation for e in examples])),
            total,
            NUM_RELATIONS,
        ),
        query_text=torch.from_numpy(np.stack([e.query_text for e in examples])),
        history=torch.from_numpy(np.stack([e.history for e in examples])),
        query_of=torch.from_numpy(np.repeat(np.arange(len(examples)), sizes)),
    )


def stat_columns(config: RerankerConfig, view: GraphView) -> list[int]:
    """Where a graph has the statistics that the reranker reads.

    Raises:
        SchemaError: The graph's features differ from those the reranker was trained on.
    """
    width = view.text.shape[1]
    if width != config.text_dim:
        raise SchemaError(
            f"the reranker reads text embeddings {config.text_dim} wide ({config.encoder or 'unknown encoder'}), the "
            f"graph has {width}: mine the graph with that encoder, or fit a reranker on this graph"
        )
    for what, wanted, known in (
        ("statistics", config.stat_names, view.stat_names),
        ("match features", config.match_names, MATCH_NAMES),
        ("history features", config.history_names, HISTORY_NAMES),
    ):
        missing = [name for name in wanted if name not in known]
        if missing:
            raise SchemaError(
                f"the reranker reads {what} that this graph lacks ({', '.join(missing[:5])}): "
                "mine the graph again with this version, or fit a reranker on it"
            )
    if config.match_names != MATCH_NAMES or config.history_names != HISTORY_NAMES:
        raise SchemaError("the reranker was trained on other match features than this version computes: fit it again")
    return [view.stat_names.index(name) for name in config.stat_names]
