"""The trained reranker as guidance uses it: a query in, a score for every candidate node out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fresh.retrieval.candidates import Recall
from fresh.retrieval.features import MatchFeatures, encode_query
from fresh.retrieval.query import Query
from fresh.retrieval.view import GraphView

if TYPE_CHECKING:
    from fresh.retrieval.encoder import Encoder
    from fresh.retrieval.reranker import Reranker


class TrainedRanker:
    """Scores nodes with a trained reranker.

    Args:
        view: The memory.
        reranker: Trained on the same features.
        encoder: Text encoder that the graph's embeddings were made with.

    Raises:
        SchemaError: The graph's features differ from those that the reranker reads.
    """

    def __init__(self, view: GraphView, reranker: Reranker, encoder: Encoder) -> None:
        from fresh.retrieval.reranker import stat_columns

        self._view = view
        self._reranker = reranker
        self._encoder = encoder
        self._columns = stat_columns(reranker.config, view)
        self._features = MatchFeatures(view)
        self._finder = Recall(view)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._reranker!r})"

    def scores(self, query: Query) -> NDArray[np.float64]:
        """Relevance of every node, [N], between 0 and 1; 0 for nodes that are no candidates."""
        import torch

        from fresh.retrieval.reranker import collate, make_example

        out = np.zeros(len(self._view))
        candidates = self._finder.find(query)
        if not len(candidates.nodes):
            return out
        encoded = encode_query(query, self._encoder)
        batch = collate([make_example(self._view, self._features, candidates, encoded)], self._columns)
        device = next(self._reranker.parameters()).device
        with torch.inference_mode():
            scores, _ = self._reranker(batch.to(device))
        values = scores.cpu().numpy().astype(np.float64)
        out[candidates.nodes] = 1 / (1 + np.exp(-(values - values.max())))  # the best at one half, order kept
        return out
