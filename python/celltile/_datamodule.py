"""What data modules have in common: loaders of training and validation cells, and a state."""

from __future__ import annotations

from typing import Any

from celltile._dataset import Dataset
from celltile.torch import CellLoader, DataLoader


class Parts:
    """The methods of a data module; goes before Lightning's class.

    Loaders are made when they are asked for: only then are ranks known.
    """

    def __init__(
        self, dataset: Dataset, options: dict[str, Any], train: Any, val: Any, num_workers: int
    ) -> None:
        super().__init__()
        self._dataset = dataset
        self._options = options
        self._cells = {"train": train, "val": val}
        self._workers = num_workers
        self._train: DataLoader | None = None
        self._train_ranks: dict[str, int] = {}
        self._state: dict[str, Any] | None = None

    def _ranks(self) -> dict[str, int]:
        """Those of Lightning's strategy; those of torch.distributed, or none, without a trainer."""
        trainer = getattr(self, "trainer", None)
        if trainer is None:
            return {}
        return {"rank": trainer.global_rank, "world_size": trainer.world_size}

    def _loader(self, cells: Any, options: dict[str, Any]) -> DataLoader:
        return DataLoader(CellLoader(self._dataset, **options, cells=cells), num_workers=self._workers)

    def _in_order(self, cells: Any, ranks: dict[str, int]) -> DataLoader:
        """All of these cells, each once, in the dataset's order, whatever training draws."""
        options = {**self._options, "shuffle": False, "drop_last": False}
        for name in ("weights", "balance", "draws", "replacement"):
            options.pop(name, None)
        return self._loader(cells, {**options, **ranks})

    def train_dataloader(self) -> DataLoader:
        """Batches of training cells: another order each epoch."""
        ranks = self._ranks()
        if self._train is not None and ranks != self._train_ranks:
            # Another trainer, of other ranks: the place in the epoch is the same.
            self._state = self._train.state_dict()
            self._train = None
        if self._train is None:
            self._train = self._loader(self._cells["train"], {**self._options, **ranks})
            self._train_ranks = ranks
            if self._state is not None:
                self._train.load_state_dict(self._state)
        return self._train

    def val_dataloader(self) -> DataLoader | list[Any]:
        """All validation cells in the dataset's order; an empty list if there are none."""
        cells = self._cells["val"]
        return [] if cells is None else self._in_order(cells, self._ranks())

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
