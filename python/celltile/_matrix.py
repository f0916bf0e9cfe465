"""Cells as the three arrays of a CSR matrix."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from celltile import _native
from celltile._exceptions import ArgumentError
from celltile._selection import Chosen

CountType: TypeAlias = Literal["int32", "float32"]


def read(
    native: _native.Dataset, cells: Chosen, genes: Chosen, dtype: CountType, round_counts: bool
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any], bool]:
    """``indptr``, ``indices`` and ``data`` of cells, and whether the indices increase within each cell."""
    if dtype not in ("int32", "float32"):
        raise ArgumentError(f"dtype: found {dtype!r}, expected 'int32' or 'float32'")
    gene_map, ordered = _gene_map(genes, native.n_genes)
    options: dict[str, Any] = {
        "float32": dtype == "float32",
        "gene_map": gene_map,
        "round_counts": round_counts,
    }
    if isinstance(cells, range):
        return *native.rows(cells.start, cells.stop, **options), ordered
    if len(cells) > 1 and np.array_equal(cells, np.arange(cells[0], cells[0] + len(cells))):
        return *native.rows(int(cells[0]), int(cells[-1]) + 1, **options), ordered
    return *native.gather(cells.astype(np.uint64), **options), ordered


def _gene_map(genes: Chosen, n_genes: int) -> tuple[NDArray[np.int32] | None, bool]:
    """New numbers of all genes, and whether they increase."""
    if isinstance(genes, range):
        if len(genes) == n_genes:
            return None, True
        genes = np.arange(genes.start, genes.stop)
    gene_map = np.full(n_genes, -1, dtype=np.int32)
    # Each gene once, where it was first chosen.
    unique, first = np.unique(genes, return_index=True)
    new = np.empty(len(unique), dtype=np.int32)
    new[np.argsort(first, kind="stable")] = np.arange(len(unique))
    gene_map[unique] = new
    return gene_map, bool(np.all(np.diff(new) > 0))


def width(genes: Chosen) -> tuple[int, NDArray[np.int64] | None]:
    """How many different genes, and, if some are chosen again, the column of each choice."""
    if isinstance(genes, range):
        return len(genes), None
    unique, first, inverse = np.unique(genes, return_index=True, return_inverse=True)
    if len(unique) == len(genes):
        return len(genes), None
    rank = np.empty(len(unique), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(unique))
    return len(unique), rank[inverse]
