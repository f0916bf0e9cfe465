"""scvi-tools: batches as the dictionaries that its modules take, and a data module for its models."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from celltile._datamodule import Parts
from celltile._dataset import Dataset
from celltile._exceptions import ArgumentError
from celltile._selection import choose
from celltile.loader import Batch, categories
from celltile.torch import CellLoader, DataLoader, densify

try:
    from lightning.pytorch import LightningDataModule as _Module
except ModuleNotFoundError:
    # The dictionaries need nothing of it.
    _Module = object

__all__ = ["SCVIDataModule", "batch_dictionary"]

# The keys of scvi-tools' REGISTRY_KEYS, which need not be installed to make the dictionaries.
X_KEY = "X"
BATCH_KEY = "batch"
LABELS_KEY = "labels"


def batch_dictionary(
    batch: Batch, batch_key: str | None = None, labels_key: str | None = None
) -> dict[str, Any]:
    """What a module of scvi-tools takes: ``X`` (dense, float32) and columns of int64, ``batch`` and
    ``labels``, zeros for columns that are not named.

    A missing category is an error: these models have no code for it.
    """
    X = batch.X if isinstance(batch.X, torch.Tensor) else torch.as_tensor(batch.X)
    columns = {BATCH_KEY: batch_key, LABELS_KEY: labels_key}
    out = {X_KEY: densify(X).to(torch.float32)}
    for key, column in columns.items():
        out[key] = torch.zeros((len(batch), 1), dtype=torch.int64)
        if column is not None:
            codes = np.asarray(batch.obs[column])
            if codes.size and codes.min() < 0:
                cell = int(batch.cells[int(np.argmin(codes))])
                raise ArgumentError(
                    f"{column}: cell {cell} has no category, which the model needs of all cells"
                )
            out[key] = torch.from_numpy(codes.astype(np.int64)).reshape(-1, 1)
    return out


class _Dictionaries(DataLoader):
    """A data loader whose batches are dictionaries."""

    def __init__(self, cells: CellLoader, keys: tuple[str | None, str | None], **options: Any) -> None:
        super().__init__(cells, **options)
        self._keys = keys

    def _handed_out(self, batch: Any) -> Any:
        return batch_dictionary(batch, *self._keys)


class SCVIDataModule(Parts, _Module):  # type: ignore[misc]
    """Training, validation and inference batches for ``scvi.model.SCVI``, in place of AnnData. ::

        module = SCVIDataModule(ds, batch_key="batch", train=train, val=val)
        model = scvi.model.SCVI(registry=module.registry)
        model.train(datamodule=module, max_epochs=1)
        latent = model.get_latent_representation(dataloader=module.inference_dataloader())

    ``batch_key`` and ``labels_key`` are columns of obs with categories; other options are those of
    :class:`celltile.loader.Loader`. Ranks are those of the trainer's strategy, and checkpoints hold the
    place in the epoch.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int = 128,
        *,
        batch_key: str | None = None,
        labels_key: str | None = None,
        train: Any = None,
        val: Any = None,
        num_workers: int = 0,
        **options: Any,
    ) -> None:
        self._keys = (batch_key, labels_key)
        names = list(dict.fromkeys(key for key in self._keys if key is not None))
        options = {"layout": "torch_csr", **options, "batch_size": batch_size, "dtype": "float32"}
        super().__init__(dataset, {**options, "columns": names}, train, val, num_workers)
        self._genes = np.asarray(dataset.gene_positions(options.get("genes")))
        self._categories = categories(dataset, names)
        for key in names:
            if key not in self._categories:
                raise ArgumentError(f"{key}: is not a column of categories")

    def _loader(self, cells: Any, options: dict[str, Any]) -> _Dictionaries:
        loader = CellLoader(self._dataset, **options, cells=cells)
        return _Dictionaries(loader, self._keys, num_workers=self._workers)

    @property
    def n_obs(self) -> int:
        """Cells to train on."""
        return len(choose(self._cells["train"], self._dataset.n_cells, "cell"))

    @property
    def n_vars(self) -> int:
        """Genes."""
        return len(self._genes)

    @property
    def var_names(self) -> NDArray[Any]:
        """Names of the genes."""
        return self._dataset.var_names[self._genes]

    def _n(self, key: str | None) -> int:
        return 1 if key is None else max(1, len(self._categories[key]))

    @property
    def n_batch(self) -> int:
        """Categories of ``batch_key``."""
        return self._n(self._keys[0])

    @property
    def n_labels(self) -> int:
        """Categories of ``labels_key``."""
        return self._n(self._keys[1])

    @property
    def registry(self) -> dict[str, Any]:
        """What scvi-tools wants to know of the data before it makes a model."""
        field_registries: dict[str, Any] = {
            X_KEY: {
                "data_registry": {"attr_name": "X", "attr_key": None},
                "state_registry": {
                    "n_obs": self.n_obs,
                    "n_vars": self.n_vars,
                    "column_names": np.asarray(self.var_names, dtype=object),
                },
                "summary_stats": {"n_vars": self.n_vars, "n_cells": self.n_obs},
            }
        }
        for name, count, key, width in (
            (BATCH_KEY, "n_batch", self._keys[0], self.n_batch),
            (LABELS_KEY, "n_labels", self._keys[1], self.n_labels),
        ):
            mapping = np.array([0] if key is None else self._categories[key], dtype=object)
            field_registries[name] = {
                "data_registry": {"attr_name": "obs", "attr_key": f"_scvi_{name}"},
                "state_registry": {"categorical_mapping": mapping, "original_key": key or f"_scvi_{name}"},
                "summary_stats": {count: width},
            }
        for name, summary in (
            ("size_factor", {}),
            ("extra_categorical_covs", {"n_extra_categorical_covs": 0}),
            ("extra_continuous_covs", {"n_extra_continuous_covs": 0}),
        ):
            field_registries[name] = {"data_registry": {}, "state_registry": {}, "summary_stats": summary}
        return {
            "scvi_version": _scvi_version(),
            "model_name": "SCVI",
            "setup_args": {
                "layer": None,
                "batch_key": self._keys[0],
                "labels_key": self._keys[1],
                "size_factor_key": None,
                "categorical_covariate_keys": None,
                "continuous_covariate_keys": None,
            },
            "field_registries": field_registries,
            "setup_method_name": "setup_datamodule",
        }

    def inference_dataloader(self) -> DataLoader:
        """All cells in the dataset's order, on every rank."""
        return self._in_order(None, {"rank": 0, "world_size": 1})


def _scvi_version() -> str:
    try:
        import scvi  # noqa: PLC0415
    except ModuleNotFoundError:
        return "0"
    return str(scvi.__version__)
