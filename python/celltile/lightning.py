"""Lightning: a data module of training and validation cells, whose state is part of checkpoints."""

from __future__ import annotations

from typing import Any

from celltile._datamodule import Parts
from celltile._dataset import Dataset
from celltile._optional import need
from celltile.loader import Batch
from celltile.torch import to_device

try:
    from lightning.pytorch import LightningDataModule
except ModuleNotFoundError:
    LightningDataModule = need("pytorch_lightning", "celltile.lightning").LightningDataModule

__all__ = ["CellDataModule"]


class CellDataModule(Parts, LightningDataModule):  # type: ignore[misc]
    """Shuffled training cells, and validation cells in the dataset's order.

    ``train`` and ``val`` are masks or indices of cells (see :meth:`celltile.Dataset.split`); all cells and
    none by default. ``options`` are those of :class:`celltile.loader.Loader`; ranks are those of Lightning's
    strategy. Checkpoints hold the place in the epoch: training goes on with the batch after the last one,
    with another number of devices too. Set ``use_distributed_sampler=False`` in the trainer (there is no
    sampler), and ``reload_dataloaders_every_n_epochs=0`` as it is by default.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int = 4096,
        *,
        train: Any = None,
        val: Any = None,
        num_workers: int = 0,
        **options: Any,
    ) -> None:
        options = {"batch_size": batch_size, "layout": "torch", **options}
        super().__init__(dataset, options, train, val, num_workers)

    def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
        """Puts ``X`` of a batch on a device; what a transform made goes where Lightning puts it."""
        if isinstance(batch, Batch):
            return to_device(batch, device)
        return super().transfer_batch_to_device(batch, device, dataloader_idx)
