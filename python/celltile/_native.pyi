import os
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

VERSION: str

_Matrix: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32] | NDArray[np.float32]]

def run_cli(args: Sequence[str]) -> int: ...
def error_kinds() -> list[tuple[str, str, str]]: ...

class Dataset:
    def __new__(
        cls,
        location: str | os.PathLike[str],
        *,
        threads: int | None = None,
        verify: str = "full",
        tile_cache: tuple[str | os.PathLike[str], int] | None = None,
        settings: Sequence[tuple[str, str]] = ...,
    ) -> Dataset: ...
    @property
    def n_cells(self) -> int: ...
    @property
    def n_genes(self) -> int: ...
    @property
    def nnz(self) -> int: ...
    def rows(
        self,
        start: int,
        stop: int,
        *,
        float32: bool = False,
        gene_map: NDArray[np.int32] | None = None,
        round_counts: bool = False,
    ) -> _Matrix: ...
    def gather(
        self,
        cells: NDArray[np.uint64],
        *,
        float32: bool = False,
        gene_map: NDArray[np.int32] | None = None,
        round_counts: bool = False,
    ) -> _Matrix: ...
