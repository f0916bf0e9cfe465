"""Single-cell count matrices, small, fast and verified."""

from __future__ import annotations

import os
from collections.abc import Mapping

from celltile import _native
from celltile._dataset import Dataset
from celltile._exceptions import (
    ArgumentError,
    CacheError,
    CelltileError,
    ChangedError,
    CorruptDataError,
    CorruptFileError,
    CorruptInputError,
    CorruptManifestError,
    CorruptTileError,
    CountError,
    GridError,
    LockedError,
    MemoryLimitError,
    MissingDependencyError,
    MissingPartError,
    NoColumnError,
    NoGeneError,
    NotADatasetError,
    NotFoundError,
    NotRecognisedError,
    OccupiedError,
    OutOfRangeError,
    StorageError,
    TableError,
    UnsupportedError,
    UnsupportedHostError,
    VerificationError,
    WriterStoppedError,
    ZarrError,
)

__all__ = [
    "ArgumentError",
    "CacheError",
    "CelltileError",
    "ChangedError",
    "CorruptDataError",
    "CorruptFileError",
    "CorruptInputError",
    "CorruptManifestError",
    "CorruptTileError",
    "CountError",
    "Dataset",
    "GridError",
    "LockedError",
    "MemoryLimitError",
    "MissingDependencyError",
    "MissingPartError",
    "NoColumnError",
    "NoGeneError",
    "NotADatasetError",
    "NotFoundError",
    "NotRecognisedError",
    "OccupiedError",
    "OutOfRangeError",
    "StorageError",
    "TableError",
    "UnsupportedError",
    "UnsupportedHostError",
    "VerificationError",
    "WriterStoppedError",
    "ZarrError",
    "__version__",
    "open",
]

__version__ = _native.VERSION


def open(
    location: str | os.PathLike[str],
    *,
    threads: int | None = None,
    verify: str = "full",
    settings: Mapping[str, str] | None = None,
) -> Dataset:
    """Open the dataset at a path or URL."""
    return Dataset(location, threads=threads, verify=verify, settings=settings)
