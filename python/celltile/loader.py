"""Shuffled minibatches of a dataset's cells, exactly resumable."""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from celltile import _native
from celltile._exceptions import ArgumentError
from celltile._layouts import LAYOUTS, Layout, build, pinned
from celltile._selection import choose

if TYPE_CHECKING:
    from celltile._dataset import Dataset
    from celltile._matrix import CountType

__all__ = ["Batch", "Loader"]

Shuffle: TypeAlias = Literal["tiles", "chunks", "cells", False]
Transform: TypeAlias = Literal["log1p_cp10k"] | Callable[["Batch"], Any]


class Batch:
    """Cells of a minibatch. Row ``i`` of everything belongs to the same cell.

    ``X`` is the counts, in the layout asked for; ``obs`` a dictionary of arrays (codes of categories, -1
    for missing ones; numbers; lists of texts); ``cells`` the cells' positions in the dataset; ``totals``
    each cell's sum of counts over all genes, if asked for; ``lost`` how many cells are missing because they
    are damaged.
    """

    __slots__ = ("X", "cells", "lost", "obs", "totals")

    def __init__(
        self,
        X: Any,
        obs: dict[str, Any],
        cells: NDArray[np.int64],
        totals: NDArray[np.int64] | None = None,
        lost: int = 0,
    ) -> None:
        self.X = X
        self.obs = obs
        self.cells = cells
        self.totals = totals
        self.lost = lost

    def __len__(self) -> int:
        return len(self.cells)

    def pin_memory(self) -> Batch:
        """The batch with tensors in pinned memory: what a data loader with ``pin_memory=True`` calls."""
        return Batch(pinned(self.X), self.obs, self.cells, self.totals, self.lost)

    def __repr__(self) -> str:
        return f"celltile.Batch of {len(self)} cells, X {tuple(self.X.shape)}, obs {list(self.obs)}"


class Loader:
    """Batches of a dataset's cells, one epoch a ``for`` loop; :meth:`celltile.Dataset.loader` makes one.

    The order is a function of the dataset, ``seed``, the epoch and the options, whatever the number of
    threads. Threads of its own decode ahead without the interpreter's lock, and arrays are handed over
    without copies.

    A loop that ends early is begun anew by the next one. To go on instead, load the state:
    ``loader.load_state_dict(loader.state_dict())``.

    batch_size
        Cells a batch.
    shuffle
        ``"chunks"`` draws groups of tile chunks at random from the whole dataset into the buffer, and cells
        from the buffer; ``"tiles"`` draws whole tiles; ``"cells"`` makes every order as likely as any other
        (at the price of a tile chunk a cell: for datasets with one cell a tile chunk); ``False`` keeps the
        dataset's order.
    buffer, buffer_bytes
        How much is mixed at a time: a number of cells, or of bytes of decoded cells.
    group
        Tile chunks that are drawn together.
    drop_last
        Leave out a last batch of fewer cells.
    seed
        Of everything random.
    columns
        Columns of obs that batches have.
    genes
        Genes by name or position, in the order of the columns of ``X``; all by default.
    cells
        A mask or indices of the cells to load, each once; all by default.
    weights, replacement, draws
        One weight a cell of the dataset: cells are drawn by weight, ``draws`` of them an epoch (as many as
        there are cells by default), each time from all cells, or from those left if not ``replacement``.
    balance
        A column of obs, each class of which is to be drawn equally often (instead of ``weights``). Cells
        without a class are never drawn.
    dtype
        Of the counts. ``float32`` holds counts up to 2^24 exactly; larger ones are an error unless
        ``round_counts``.
    totals
        Whether batches have each cell's sum over all genes.
    transform
        ``"log1p_cp10k"``, ln(1 + 10,000 count / total) by the total over all genes; or a function of the
        batch, whose result is handed out in its place.
    layout
        ``"csr"`` (SciPy), ``"numpy"`` (dense), ``"torch"`` (dense), ``"torch_csr"``, or ``"jax"`` (dense,
        through DLPack).
    pin_memory
        Put tensors of PyTorch into pinned memory.
    memory
        Bytes of decoded cells kept ready, at least the buffer; by default three times the buffer.
    threads
        That decode; the machine's cores by default, divided among worker processes.
    on_damage
        ``"raise"`` a :class:`CorruptTileError`, or ``"skip"`` damaged cells and count them.
    rank, world_size
        Of the processes that train together: those of ``torch.distributed`` if that is initialised.
        Every rank is given as many batches; where cells cannot be dealt evenly, fewer cells than there are
        ranks are given twice (``uneven="pad"``) or not at all (``"drop"``).
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int = 4096,
        shuffle: Shuffle = "chunks",
        seed: int = 0,
        columns: str | Sequence[str] = (),
        *,
        buffer: int | None = None,
        buffer_bytes: int | None = None,
        group: int = 1,
        drop_last: bool = False,
        genes: Any = None,
        cells: Any = None,
        weights: Any = None,
        replacement: bool = True,
        draws: int | None = None,
        balance: str | None = None,
        dtype: CountType = "float32",
        round_counts: bool = False,
        totals: bool = False,
        transform: Transform | None = None,
        layout: Layout = "csr",
        pin_memory: bool = False,
        memory: int | None = None,
        threads: int | None = None,
        on_damage: Literal["raise", "skip"] = "raise",
        rank: int | None = None,
        world_size: int | None = None,
        uneven: Literal["pad", "drop"] = "pad",
        _worker: tuple[int, int] = (0, 1),
    ) -> None:
        if dtype not in ("int32", "float32"):
            raise ArgumentError(f"dtype: found {dtype!r}, expected 'int32' or 'float32'")
        if layout not in LAYOUTS:
            raise ArgumentError(f"layout: found {layout!r}, expected one of {', '.join(map(repr, LAYOUTS))}")
        if buffer is not None and buffer_bytes is not None:
            raise ArgumentError("buffer: found both cells and bytes, expected one of them")
        if balance is not None and weights is not None:
            raise ArgumentError("balance: found weights too, expected one of them")
        if isinstance(transform, str) and transform != "log1p_cp10k":
            raise ArgumentError(f"transform: found {transform!r}, expected 'log1p_cp10k' or a function")
        rank, world_size = _ranks(rank, world_size)
        self._dataset = dataset
        self._columns = [columns] if isinstance(columns, str) else list(columns)
        self._transform = transform if callable(transform) else None
        self._layout: Layout = layout
        self._pin = pin_memory
        chosen = (
            None if cells is None else np.asarray(choose(cells, dataset.n_cells, "cell"), dtype=np.uint64)
        )
        if balance is not None:
            weights = _balanced(dataset, balance, chosen)
        self._options: dict[str, Any] = {
            "batch_size": batch_size,
            "shuffle": "none" if shuffle is False else shuffle,
            "seed": seed,
            "columns": self._columns,
            "buffer_cells": buffer,
            "buffer_bytes": buffer_bytes,
            "group": group,
            "drop_last": drop_last,
            "genes": None if genes is None else dataset.gene_positions(genes).astype(np.uint64),
            "cells": chosen,
            "weights": None if weights is None else np.ascontiguousarray(weights, dtype=np.float64),
            "replacement": replacement,
            "draws": draws,
            "float32": dtype == "float32",
            "totals": totals,
            "transform": transform if isinstance(transform, str) else None,
            "round_counts": round_counts,
            "on_damage": on_damage,
            "memory": memory,
            "threads": threads,
            "rank": rank,
            "world_size": world_size,
            "uneven": uneven,
            "worker": _worker[0],
            "workers": _worker[1],
        }
        self._running = 0
        self._categories: dict[str, list[Any]] | None = None
        self._open(None)

    def _open(self, state: str | None) -> None:
        self._process = os.getpid()
        self._native = _native.Loader(self._dataset._native, **self._options)
        # Where the epoch was begun: what a forked child, or another process, begins with.
        self._base = self._native.state()
        if state is not None:
            self._native.load_state(state)
            self._base = state

    def _own(self) -> _native.Loader:
        """The loader of this process: threads do not survive a fork, so a child makes its own."""
        if self._process != os.getpid():
            self._open(self._base)
        return self._native

    # Batches

    def __iter__(self) -> Iterator[Any]:
        native = self._own()
        self._running += 1
        epoch = json.loads(native.state())["epoch"]
        if epoch > json.loads(self._base)["epoch"]:
            # The loop before took the last batch, and did not ask for one more.
            native.set_epoch(epoch)
            self._base = native.state()
        else:
            native.restart()
        return self._batches(native, self._running)

    def _batches(self, native: _native.Loader, running: int) -> Iterator[Any]:
        try:
            while running == self._running and (parts := native.next()) is not None:
                yield self._batch(parts)
                # Nothing here holds on to the batch while its successor is waited for.
                del parts
            if running == self._running:
                self._base = native.state()
        finally:
            if running == self._running and self._process == os.getpid():
                native.stop()

    def _batch(self, parts: tuple[Any, ...]) -> Any:
        indptr, indices, data, cells, totals, obs, lost = parts
        X = build(self._layout, indptr, indices, data, self.n_genes, pin=self._pin)
        batch = Batch(X, dict(zip(self._columns, obs, strict=True)), cells, totals, lost)
        return batch if self._transform is None else self._transform(batch)

    def __len__(self) -> int:
        """Batches of this epoch, of each rank: with those from before a state was loaded."""
        return self._own().n_batches(self._options["workers"])

    @property
    def batch_size(self) -> int:
        """Cells a batch."""
        return self._options["batch_size"]

    @property
    def n_cells(self) -> int:
        """Cells of an epoch, over all ranks; draws, with weights."""
        return self._own().n_cells

    @property
    def n_genes(self) -> int:
        """Columns of ``X``."""
        genes = self._options["genes"]
        return self._dataset.n_genes if genes is None else len(genes)

    @property
    def var_names(self) -> NDArray[Any]:
        """Names of the columns of ``X``."""
        genes = self._options["genes"]
        names = self._dataset.var_names
        return names if genes is None else names[genes.astype(np.int64)]

    @property
    def categories(self) -> dict[str, list[Any]]:
        """What the codes of categorical columns stand for."""
        if self._categories is None:
            self._categories = categories(self._dataset, self._columns)
        return self._categories

    @property
    def dataset(self) -> Dataset:
        """The dataset."""
        return self._dataset

    def _of_worker(self, worker: int, workers: int) -> Loader:
        """This loader as one of several worker processes has it: a part of the rank's cells."""
        own = copy.copy(self)
        own._options = {**self._options, "worker": worker, "workers": workers}
        return own

    # Where it is

    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to."""
        return self._own().epoch

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch."""
        native = self._own()
        self._running += 1
        native.set_epoch(epoch)
        self._base = native.state()

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, as a few numbers: what :meth:`load_state_dict` takes, here or elsewhere, with
        another number of ranks or workers too. Batches that were decoded ahead do not count.
        """
        return json.loads(self._own().state())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to where a state says: the next loop begins after the last batch that was handed out."""
        native = self._own()
        self._running += 1
        self._base = json.dumps(state)
        native.load_state(self._base)

    def _state_after(self, workers: int, steps: int) -> dict[str, Any]:
        """Where a rank is that began where this loader began, after so many batches of so many workers."""
        return json.loads(self._own().state_after(workers, steps))

    def stats(self) -> dict[str, Any]:
        """Counters since the loader was made: ``cells``, ``batches``, ``cells_per_second``, ``bytes`` read,
        ``lost_cells``, ``damaged_chunks``, and seconds: ``wait_seconds`` that the caller waited (storage or
        decoding was too slow by that), ``decode_seconds`` over all threads, ``fetch_seconds`` of opening
        tiles and fetching from a remote storage.
        """
        return self._own().stats()

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_native", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Opened when it is first used.
        self._process = -1

    def __repr__(self) -> str:
        shuffle, size = self._options["shuffle"], self.batch_size
        return f"celltile.Loader of {self.n_cells:,} cells in batches of {size:,}, shuffle {shuffle}"


def categories(dataset: Dataset, columns: Sequence[str]) -> dict[str, list[Any]]:
    """The categories of those columns that have any."""
    frame = dataset.obs(columns, np.empty(0, dtype=np.int64))
    kept = {}
    for name in columns:
        values = getattr(frame[name], "cat", None)
        if values is not None:
            kept[name] = values.categories.tolist()
    return kept


def _ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Rank and number of ranks: as given, or those of torch.distributed."""
    if (rank is None) != (world_size is None):
        raise ArgumentError("rank and world_size: found one of them, expected both or none")
    if rank is not None and world_size is not None:
        return rank, world_size
    # Looked for only where it is in use already.
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def _balanced(dataset: Dataset, column: str, cells: NDArray[np.uint64] | None) -> NDArray[np.float64]:
    """Weights that make each value of a column of obs as likely as any other."""
    values = dataset.obs([column])[column]
    if hasattr(values, "cat"):
        codes = values.cat.codes.to_numpy().astype(np.int64)
    else:
        missing = values.isna().to_numpy()
        codes = np.full(len(values), -1, dtype=np.int64)
        codes[~missing] = np.unique(values[~missing].to_numpy(), return_inverse=True)[1]
    return _native.balanced_weights(codes, cells)
