"""Fitting a reranker to runs that are already in memory, without files or a command line."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any

from fresh.retrieval.corpus import Corpus
from fresh.retrieval.reranker import Reranker


def fit_reranker(
    corpus: Corpus,
    runs: Sequence[int],
    *,
    model: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    max_epochs: int = 15,
    patience: int = 4,
    seed: int = 0,
    progress: bool = False,
) -> tuple[Reranker, dict[str, float]]:
    """Trains on some runs of a corpus, with early stopping on tasks kept out of training.

    Args:
        corpus: The runs.
        runs: Which of them may be used.
        model: Options of `training.module.RerankerModule`.
        data: Options of `training.data.MemoryData`.
        max_epochs: Bound of the training.
        patience: Epochs without a better nDCG@10 before it stops.
        seed: Of everything random.
        progress: Whether to draw a progress bar.

    Returns:
        The best reranker by validation, and its validation metrics.
    """
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

    from training.data import MemoryData
    from training.module import RerankerModule

    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    pl.seed_everything(seed, verbose=False)
    source = MemoryData.of_corpus(corpus, runs, **({"seed": seed} | dict(data or {})))
    module = RerankerModule(**dict(model or {}))
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        noise = "num_workers|does not have many workers|log_every_n_steps|treespec"
        warnings.filterwarnings("ignore", message=f".*({noise}).*")
        best = ModelCheckpoint(folder, monitor="val/ndcg@10", mode="max", filename="best")
        trainer = pl.Trainer(
            max_epochs=max_epochs,
            accelerator="auto",
            devices=1,
            logger=False,
            callbacks=[best, EarlyStopping("val/ndcg@10", mode="max", patience=patience)],
            enable_progress_bar=progress,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            gradient_clip_val=1.0,
        )
        trainer.fit(module, datamodule=source)
        kept = RerankerModule.load_from_checkpoint(best.best_model_path, map_location="cpu", weights_only=True)
        measured = trainer.validate(kept, datamodule=source, verbose=False)[0]
        metrics = {name: float(value) for name, value in measured.items()} | {"epochs": float(trainer.current_epoch)}
    return kept.network.cpu().eval(), metrics
