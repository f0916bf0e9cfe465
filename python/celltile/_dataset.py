"""A dataset, open for reading."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from celltile import _native


class Dataset:
    """A dataset, open for reading: ``celltile.open`` makes one."""

    def __init__(
        self,
        location: str | os.PathLike[str],
        *,
        threads: int | None = None,
        verify: str = "full",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._location = os.fspath(location)
        self._options: dict[str, Any] = {"threads": threads, "verify": verify, "settings": settings}
        self._native = _native.Dataset(
            self._location, threads=threads, verify=verify, settings=list((settings or {}).items())
        )

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self._native.n_cells

    @property
    def n_genes(self) -> int:
        """Number of genes."""
        return self._native.n_genes

    @property
    def nnz(self) -> int:
        """Number of nonzeros."""
        return self._native.nnz

    @property
    def shape(self) -> tuple[int, int]:
        """Cells and genes."""
        return self.n_cells, self.n_genes
