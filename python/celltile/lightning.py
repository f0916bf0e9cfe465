"""Lightning: a data module of training and validation cells, whose state is part of checkpoints."""

from __future__ import annotations

from typing import Any

from celltile._dataset import Dataset
from celltile._optional import need
from celltile.torch import CellLoader, DataLoader

try:
    from lightning.pytorch import LightningDataModule
except ModuleNotFoundError:
    LightningDataModule = need("pytorch_lightning", "celltile.lightning").LightningDataModule

__all__ = ["CellDataModule"]


class CellDataModule(LightningDataModule):  # type: ignore[misc]
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
        super().__init__()
        self._dataset = dataset
        self._options = {"batch_size": batch_size, "layout": "torch", **options}
        self._cells = {"train": train, "val": val}
        self._workers = num_workers
        self._train: DataLoader | None = None
        self._state: dict[str, Any] | None = None

    def _ranks(self) -> dict[str, int]:
        trainer = getattr(self, "trainer", None)
        if trainer is None:
            return {}
        return {"rank": trainer.global_rank, "world_size": trainer.world_size}

    def train_dataloader(self) -> DataLoader:
        """Batches of training cells: another order each epoch."""
        if self._train is None:
            cells = CellLoader(self._dataset, **self._ranks(), **self._options, cells=self._cells["train"])
            self._train = DataLoader(cells, num_workers=self._workers)
            if self._state is not None:
                self._train.load_state_dict(self._state)
        return self._train

    def val_dataloader(self) -> DataLoader | list[Any]:
        """Batches of validation cells, all of them, in the dataset's order."""
        if self._cells["val"] is None:
            return []
        options = {**self._options, "shuffle": False, "weights": None, "balance": None, "drop_last": False}
        cells = CellLoader(self._dataset, **self._ranks(), **options, cells=self._cells["val"])
        return DataLoader(cells, num_workers=self._workers)

    def state_dict(self) -> dict[str, Any]:
        """Where training is."""
        if self._train is not None:
            return self._train.state_dict()
        return self._state or {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go to where a state says."""
        self._state = state_dict or None
        if self._train is not None and self._state is not None:
            self._train.load_state_dict(self._state)
