"""PyTorch: a dataset of batches, a data loader that counts them, and tensors on devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import data

from celltile._dataset import Dataset
from celltile._exceptions import ArgumentError
from celltile.loader import Batch, Loader

__all__ = ["CellLoader", "DataLoader", "densify", "to_device"]


class CellLoader(data.IterableDataset[Any]):
    """Batches of a dataset's cells for PyTorch: give it to a data loader with ``batch_size=None``.

    Takes the options of :class:`celltile.loader.Loader`; ``layout`` is ``"torch_csr"`` unless given. Without
    worker processes it is used as it is, in a loop: it has threads of its own. With worker processes
    each takes its own part of the cells.

    With :class:`celltile.torch.DataLoader` the epoch advances by itself, and the state counts the batches
    that were handed out. torchdata's ``StatefulDataLoader`` keeps the state of each worker, and goes on with
    as many workers only. With PyTorch's own, call :meth:`set_epoch` before each epoch, as for a
    ``DistributedSampler``.
    """

    def __init__(self, dataset: Dataset, batch_size: int = 4096, **options: Any) -> None:
        super().__init__()
        options.setdefault("layout", "torch_csr")
        # In the process that makes it: where an epoch begins, and how long it is. Workers have its ranks,
        # since they know nothing of torch.distributed.
        self._loader = Loader(dataset, batch_size, **options)
        self._worker: Loader | None = None

    def _active(self) -> Loader:
        """The loader of this process."""
        info = data.get_worker_info()
        if info is None:
            return self._loader
        if self._worker is None:
            self._worker = self._loader._of_worker(info.id, info.num_workers)
        return self._worker

    def __iter__(self) -> Iterator[Any]:
        return iter(self._active())

    def __len__(self) -> int:
        return len(self._loader)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_worker": None}

    @property
    def loader(self) -> Loader:
        """The loader behind it, of this process."""
        return self._active()

    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to."""
        return self._active().epoch

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch. Workers that are running already do not hear of it."""
        self._active().set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where this process's loader is. In a worker process, the state is good for that worker."""
        return self._active().state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to where a state says."""
        if data.get_worker_info() is None and "lane" in state:
            raise ArgumentError("the state is one worker's; load it in that worker, or load a rank's")
        self._active().load_state_dict(state)

    def _state_after(self, workers: int, steps: int) -> dict[str, Any]:
        return self._loader._state_after(workers, steps)


class DataLoader(data.DataLoader[Any]):
    """PyTorch's data loader over a :class:`CellLoader`, with a state that counts the batches handed out.

    Takes the arguments of ``torch.utils.data.DataLoader`` but for ``batch_size``, which is the cell loader's,
    and ``persistent_workers``. Each loop is an epoch; the next one is another. A loop that ends early
    is begun anew. A loop ends when another one is begun, or a state is loaded.
    """

    def __init__(self, dataset: CellLoader, **options: Any) -> None:
        for name in ("batch_size", "persistent_workers", "shuffle", "sampler", "batch_sampler", "drop_last"):
            if options.pop(name, None):
                raise ArgumentError(f"{name}: is an option of the cell loader, or makes no sense for one")
        super().__init__(dataset, batch_size=None, **options)
        self._cells = dataset
        self._steps = 0
        # Number of the newest loop: older ones have nothing to say any more.
        self._newest = 0

    def __iter__(self) -> Iterator[Any]:
        epoch = self.state_dict()["epoch"]
        if epoch > self._cells._state_after(1, 0)["epoch"]:
            # The loop before took the last batch, and did not ask for one more.
            self._cells.set_epoch(epoch)
        self._forget()
        return self._counted(self._newest, self._cells._state_after(1, 0)["epoch"])

    def _counted(self, loop: int, epoch: int) -> Iterator[Any]:
        if loop != self._newest:
            return
        for batch in super().__iter__():
            if loop != self._newest:
                return
            self._steps += 1
            yield self._handed_out(batch)
        if loop == self._newest:
            self._cells.set_epoch(epoch + 1)
            self._forget()

    def _forget(self) -> None:
        self._newest += 1
        self._steps = 0

    def _handed_out(self, batch: Any) -> Any:
        return batch

    def __len__(self) -> int:
        return self._cells._loader._own().n_batches(max(1, self.num_workers))

    def state_dict(self) -> dict[str, Any]:
        """Where this rank is: counts the batches that were handed out, not those that workers made ahead."""
        return self._cells._state_after(max(1, self.num_workers), self._steps)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to where a state says, with any number of workers and ranks."""
        self._forget()
        self._cells.load_state_dict(state)


def to_device(batch: Batch, device: Any, non_blocking: bool = True) -> Batch:
    """The batch with ``X`` on a device; from pinned memory without waiting."""
    X = batch.X.to(device, non_blocking=non_blocking)
    return Batch(X, batch.obs, batch.cells, batch.totals, batch.lost)


def densify(X: Any, device: Any = None) -> torch.Tensor:
    """A dense tensor of a batch's counts, made on the device: only the nonzeros travel.

    ``X`` is a sparse tensor of PyTorch or a SciPy matrix.
    """
    if not isinstance(X, torch.Tensor):
        parts = [torch.from_numpy(array) for array in (X.indptr, X.indices, X.data)]
        X = torch.sparse_csr_tensor(*parts, size=X.shape, check_invariants=False)
    if device is not None:
        X = X.to(device, non_blocking=True)
    return X if X.layout == torch.strided else X.to_dense()
