"""The training command: ``fit``, ``validate`` and ``test``, with everything in the config or on the command line."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

from fresh.traces.walk import find_files
from training.data import MemoryData, named_paths
from training.export import export_memory
from training.module import RerankerModule

_PLAIN = (str, int, float, bool, type(None))


class MemoryCLI(LightningCLI):
    """`LightningCLI` that ends a fit by exporting the frozen memory."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Adds where the frozen memory goes."""
        parser.add_argument(
            "--export", type=str | None, default=None, help="Folder of the frozen memory that fit writes."
        )

    def before_instantiate_classes(self) -> None:
        """Refuses what could not be read or written, before a trainer or a logger starts."""
        config = self.config[self.subcommand]
        find_files(named_paths(config["data"]["paths"]))
        if self.subcommand == "fit" and config["export"] is not None:
            check_target(config["export"])

    def after_fit(self) -> None:
        """Exports the best reranker with the final graph, on the first device's process only."""
        target = self.config["fit"]["export"]
        if target is None or not self.trainer.is_global_zero:
            return
        module, metrics = self._best()
        data: MemoryData = self.datamodule
        if data.corpus is None:
            return
        seed = self.config["fit"]["seed_everything"]
        settings = {"model": plain(module.hparams), "data": plain(data.hparams), "seed": seed}
        graph = export_memory(target, data.corpus, data.training_runs, module.network.cpu().eval(), metrics, settings)
        print(f"{target}: frozen memory of {len(graph)} nodes; validation nDCG@10 {metrics.get('val/ndcg@10', 0):.3f}")

    def _best(self) -> tuple[RerankerModule, dict[str, float]]:
        """The reranker of the best checkpoint, with what was measured for it."""
        checkpoint = self.trainer.checkpoint_callback
        kept = isinstance(checkpoint, ModelCheckpoint) and checkpoint.best_model_path
        if not kept:
            return self.model, _numbers(self.trainer.callback_metrics)
        module = RerankerModule.load_from_checkpoint(kept, map_location="cpu", weights_only=True)
        measured = self.trainer.validate(module, datamodule=self.datamodule, verbose=False)
        return module, _numbers(measured[0] if measured else {})


def _numbers(metrics: Any) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items() if name.startswith("val/")}


def plain(values: Any) -> dict[str, Any]:
    """The JSON-like part of a mapping of hyper-parameters."""

    def is_plain(value: Any) -> bool:
        if isinstance(value, (list, tuple)):
            return all(is_plain(item) for item in value)
        if isinstance(value, dict):
            return all(is_plain(item) for item in value.values())
        return isinstance(value, _PLAIN)

    return {name: value for name, value in dict(values).items() if not name.startswith("_") and is_plain(value)}


def check_target(path: str) -> None:
    """Raises what writing a memory there would raise in the end.

    Raises:
        MemoryFileError: ``path`` is a file, or a folder that holds something else.
    """
    from pathlib import Path

    from graph_schema.errors import MemoryFileError
    from graph_schema.storage import MANIFEST

    target = Path(path)
    if target.exists() and not target.is_dir():
        raise MemoryFileError(f"{target} is a file; name a folder for the memory")
    if target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).exists():
        raise MemoryFileError(f"{target} is not empty and not a memory; name another folder")


class _NoTips(logging.Filter):
    """Drops the trainer's advertisements."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "Tip:" not in record.getMessage()


def run(args: Sequence[str] | None = None) -> None:
    """Parses the command line and does what it says."""
    for name in ("lightning.pytorch.utilities.rank_zero", "lightning.fabric.utilities.rank_zero"):
        logging.getLogger(name).addFilter(_NoTips())
    for expected in ("does not have many workers", "LeafSpec", "log_every_n_steps", "args parameter is intended"):
        warnings.filterwarnings("ignore", message=f".*{expected}.*")
    MemoryCLI(
        RerankerModule,
        MemoryData,
        seed_everything_default=0,
        save_config_kwargs={"overwrite": True},
        args=None if args is None else list(args),
    )
