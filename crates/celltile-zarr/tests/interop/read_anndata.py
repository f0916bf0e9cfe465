"""Reads a store with anndata, annbatch and zarrista, and compares it with what celltile says is in the dataset.

Usage: read_anndata.py STORE EXPECTED

STORE is a folder or an HTTP URL. EXPECTED is a folder with `shape.json` (cells, genes, columns of obs and var) and the
matrix' `indptr.bin`, `indices.bin` and `data.bin` (int64, int32 and int32, little-endian).
"""

import json
import sys
import warnings
from pathlib import Path

import anndata as ad
import numpy as np
import pandas as pd
import scipy.sparse as sp
import zarr

warnings.filterwarnings("ignore")


def expected_matrix(folder: Path, facts: dict) -> sp.csr_matrix:
    """The matrix that must come out."""
    load = lambda name, dtype: np.frombuffer((folder / f"{name}.bin").read_bytes(), dtype)
    parts = load("data", "<i4"), load("indices", "<i4"), load("indptr", "<i8")
    return sp.csr_matrix(parts, shape=(facts["cells"], facts["genes"]))


def same(found: sp.spmatrix, expected: sp.spmatrix, what: str) -> None:
    """Fails if two matrices differ."""
    found, expected = sp.csr_matrix(found), sp.csr_matrix(expected)
    assert found.shape == expected.shape, (what, found.shape, expected.shape)
    assert (found != expected).nnz == 0, what


def check_frame(frame: pd.DataFrame, columns: dict, what: str) -> None:
    """Compares columns, given as lists with `None` for missing values, their dtypes as pandas names them."""
    assert list(frame.columns) == list(columns["columns"]), (what, list(frame.columns))
    assert [str(name) for name in frame.index] == columns["index"], what
    for name, facts in columns["columns"].items():
        column = frame[name]
        if facts.get("ordered") is not None:
            assert isinstance(column.dtype, pd.CategoricalDtype), (name, column.dtype)
            assert column.cat.ordered == facts["ordered"], name
            assert list(column.cat.categories) == facts["categories"], (name, column.cat.categories)
        else:
            assert str(column.dtype) in facts["dtypes"], (name, column.dtype)
        values = [None if pd.isna(value) else value for value in column]
        assert values == facts["values"], (name, values, facts["values"])


def check_slices(adata: ad.AnnData, matrix: sp.csr_matrix, rng: np.random.Generator) -> None:
    """Slices of a lazily read matrix."""
    cells = matrix.shape[0]
    for _ in range(8):
        start, end = sorted(rng.integers(0, cells + 1, 2))
        part = adata[int(start) : int(end)].X
        part = part.compute() if hasattr(part, "compute") else part[...]
        same(part, matrix[start:end], f"rows {start}:{end}")


def check_annbatch(store: str, matrix: sp.csr_matrix) -> None:
    """Every row comes once, with the right values."""
    from annbatch import Loader

    group = zarr.open_group(store, mode="r")
    loader = Loader(batch_size=64, chunk_size=16, preload_nchunks=8, shuffle=True, return_index=True)
    loader.add_dataset(ad.io.sparse_dataset(group["X"]))
    seen = np.zeros(matrix.shape[0], dtype=int)
    for batch in loader:
        x, rows = (batch["X"], batch["index"]) if isinstance(batch, dict) else (batch[0], batch[-1])
        same(x, matrix[rows], "annbatch")
        seen[rows] += 1
    assert (seen == 1).all(), "annbatch: every row once"


def check_zarrista(store: str, matrix: sp.csr_matrix) -> None:
    """The arrays of the matrix, read in Rust."""
    import zarrista
    from zarrista.store import FilesystemStore

    for name, values in (("data", matrix.data), ("indices", matrix.indices), ("indptr", matrix.indptr)):
        array = zarrista.Array.open(FilesystemStore(store), f"/X/{name}")
        found = np.asarray(array.retrieve_array_subset((slice(None),)))
        np.testing.assert_array_equal(found, values, err_msg=name)


def main(store: str, folder: Path) -> None:
    """Runs every check that fits the store."""
    facts = json.loads((folder / "shape.json").read_text())
    matrix = expected_matrix(folder, facts)
    done = ["read_zarr"]
    adata = ad.read_zarr(store)
    same(adata.X, matrix, "X")
    for what in ("obs", "var"):
        if what in facts:
            check_frame(getattr(adata, what), facts[what], what)
    rng = np.random.default_rng(0)
    if matrix.nnz and matrix.shape[0]:
        lazy = ad.experimental.read_lazy(store)
        check_slices(lazy, matrix, rng)
        done.append("read_lazy")
        with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
            same(ad.read_zarr(store).X, matrix, "X with zarrs")
        done.append("zarrs")
        if not store.startswith("http"):
            check_zarrista(store, matrix)
            done.append("zarrista")
            if facts["cells"] >= 200:
                check_annbatch(store, matrix)
                done.append("annbatch")
    print(f"{store}: {matrix.shape[0]} x {matrix.shape[1]} equal with {', '.join(done)}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
