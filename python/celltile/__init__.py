"""Single-cell count matrices, small, fast and verified."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from celltile import _native
from celltile._convert import Summary, convert, write
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
from celltile._native import Grid

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
    "Grid",
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
    "Summary",
    "TableError",
    "UnsupportedError",
    "UnsupportedHostError",
    "VerificationError",
    "WriterStoppedError",
    "ZarrError",
    "__version__",
    "convert",
    "open",
    "write",
]

__version__ = _native.VERSION


def open(
    location: str | os.PathLike[str],
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    cache_tiles: bool | int = False,
    verify: Literal["full", "structure"] = "full",
    threads: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> Dataset:
    """Open the dataset at a path or URL (``s3://``, ``gs://``, ``az://``, ``https://``). Reads the
    manifest only.

    ``cache_dir`` is the folder for columns of obs and tiles; that of the environment if not given
    (``DELTACELLS_CACHE``). ``cache_tiles`` keeps whole tiles of a remote dataset there: up to so many
    bytes, or 64 GiB for ``True``. ``verify`` says how much of a tile is checked before its first cell is
    handed out: everything that is read, checksums included, or its structure only. ``threads`` decode; as
    many as there are cores if not given. ``settings`` are for the bucket, by the names of the environment
    variables in lower case.
    """
    return Dataset(
        location,
        cache_dir=cache_dir,
        cache_tiles=cache_tiles,
        verify=verify,
        threads=threads,
        settings=settings,
    )
