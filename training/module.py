"""The LightningModule: the reranker, its loss, and how it is judged while it trains."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor

from fresh.retrieval.metrics import ndcg, ranked, recall, reciprocal_rank
from fresh.retrieval.reranker import Batch, Reranker, RerankerConfig
from graph_schema.errors import ConfigError
from training.data import LabelledBatch, MemoryData
from training.loss import choose_negatives, pairwise_loss

_METRICS = {"ndcg@10": ndcg, "recall@10": recall, "mrr": reciprocal_rank}
_WEIGHTINGS = ("none", "grade", "ndcg")


class RerankerModule(pl.LightningModule):
    """Trains a `Reranker` with a pairwise loss; validated by nDCG@10, MRR and Recall@10, means over tasks.

    Args:
        hidden: Width of the layers.
        layers: Rounds of message passing.
        type_dim: Width of the type embedding.
        text_hidden: Width that text embeddings are brought to.
        dropout: Share of inputs and activations dropped in training.
        lr: Learning rate of AdamW.
        weight_decay: Of AdamW.
        weighting: Weight of a pair in the loss: ``none``, ``grade`` or ``ndcg``.
        negatives: Negatives a query and step, half of them hard; 0 for all.
        run_weight: Weight of the loss of whole-run queries.
        sizes: Set by the data: widths and names of the features. Kept in checkpoints so that these load alone.
    """

    def __init__(
        self,
        hidden: int = 64,
        layers: int = 2,
        type_dim: int = 8,
        text_hidden: int = 32,
        dropout: float = 0.1,
        lr: float = 0.003,
        weight_decay: float = 0.01,
        weighting: str = "none",
        negatives: int = 64,
        run_weight: float = 0.5,
        sizes: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if weighting not in _WEIGHTINGS:
            raise ConfigError(f"model.weighting must be one of {', '.join(_WEIGHTINGS)}, got {weighting!r}")
        self.save_hyperparameters()
        self.reranker: Reranker | None = None
        self._sums: dict[str, Tensor] = {}
        if sizes is not None:
            self._make(sizes)

    def _make(self, sizes: dict[str, Any]) -> None:
        shape = {name: self.hparams[name] for name in ("hidden", "layers", "type_dim", "text_hidden", "dropout")}
        self.reranker = Reranker(RerankerConfig.from_plain(sizes | shape))

    @property
    def network(self) -> Reranker:
        """The reranker, once the data are known."""
        if self.reranker is None:
            raise ConfigError("the reranker has no shape yet: run fit, or load a checkpoint")
        return self.reranker

    def configure_model(self) -> None:
        """Makes the network when the data have said how wide their features are."""
        if self.reranker is not None:
            return
        data: MemoryData = self.trainer.datamodule  # type: ignore[attr-defined]
        sizes = data.sizes()
        self._make(sizes)
        self.hparams["sizes"] = sizes
        stat, match, history = data.measured()
        self.network.stat_norm.fit(stat)
        self.network.match_norm.fit(match)
        self.network.history_norm.fit(history)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """See `Reranker.forward`."""
        return self.network(batch)

    def training_step(self, batch: LabelledBatch, batch_idx: int) -> Tensor:
        """Mean pairwise loss over the queries of a batch."""
        guidance, tasks = self.network(batch.inputs)
        losses, weights = [], []
        for i, part in enumerate(batch.parts):
            scores = (tasks if batch.whole_run[i] else guidance)[part]
            grades, hard = batch.grades[part], batch.hard[part]
            chosen = choose_negatives(grades, hard, self.hparams["negatives"])
            losses.append(pairwise_loss(scores[chosen], grades[chosen], self.hparams["weighting"]))
            weights.append(self.hparams["run_weight"] if batch.whole_run[i] else 1.0)
        weight = torch.tensor(weights, device=losses[0].device)
        loss = (torch.stack(losses) * weight).sum() / weight.sum()
        self.log("train/loss", loss, batch_size=len(batch.parts), on_step=False, on_epoch=True)
        return loss

    # -- validation and test -------------------------------------------------------------------------------------------

    def on_validation_epoch_start(self) -> None:
        """Empties the sums."""
        self._sums = {}

    def on_test_epoch_start(self) -> None:
        """Empties the sums."""
        self._sums = {}

    def validation_step(self, batch: LabelledBatch, batch_idx: int) -> None:
        """Adds a batch's metrics to the sums by task."""
        self._judge(batch)

    def test_step(self, batch: LabelledBatch, batch_idx: int) -> None:
        """Adds a batch's metrics to the sums by task."""
        self._judge(batch)

    def on_validation_epoch_end(self) -> None:
        """Logs means over tasks."""
        self._log_means("val")

    def on_test_epoch_end(self) -> None:
        """Logs means over tasks."""
        self._log_means("test")

    def _judge(self, batch: LabelledBatch) -> None:
        guidance, tasks = (scores.detach().float().cpu().numpy() for scores in self.network(batch.inputs))
        all_grades = batch.grades.cpu().numpy()
        for i, part in enumerate(batch.parts):
            grades = all_grades[part]
            among = np.flatnonzero(grades >= 0)
            order = ranked((tasks if batch.whole_run[i] else guidance)[part][among])
            for name, metric in _METRICS.items():
                key = f"runs/{name}" if batch.whole_run[i] else name
                sums = self._sums.setdefault(key, torch.zeros(batch.num_tasks, 2))
                sums[batch.task[i]] += torch.tensor([metric(grades[among], order), 1.0])

    def _log_means(self, stage: str) -> None:
        names = [*_METRICS, *(f"runs/{name}" for name in _METRICS)]
        data: MemoryData = self.trainer.datamodule  # type: ignore[attr-defined]
        for name in names:
            sums = self._sums.get(name, torch.zeros(data.num_tasks, 2)).to(self.device)
            sums = self.trainer.strategy.reduce(sums, reduce_op="sum")  # tasks are spread over devices
            seen = sums[:, 1] > 0
            value = (sums[seen, 0] / sums[seen, 1]).mean() if bool(seen.any()) else torch.tensor(0.0)
            self.log(f"{stage}/{name}", value.to(self.device), rank_zero_only=False, sync_dist=False)

    def configure_optimizers(self) -> Any:
        """AdamW with a one-cycle learning rate."""
        optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=self.hparams["lr"], weight_decay=self.hparams["weight_decay"]
        )
        steps = max(int(self.trainer.estimated_stepping_batches), 1)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.hparams["lr"], total_steps=steps, pct_start=0.15)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
