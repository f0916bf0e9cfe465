"""Compares two h5ad files as anndata reads them: counts, their dtype, obs and var."""

import argparse
import sys
from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
import scipy.sparse as sp


def elements(path: Path, matrix: str) -> tuple[object, pd.DataFrame, pd.DataFrame]:
    """A matrix, obs and the var that belongs to it, read one by one."""
    with h5py.File(path) as file:
        names = matrix, "obs", "raw/var" if matrix == "raw/X" else "var"
        return tuple(anndata.io.read_elem(file[name]) for name in names)


def parts(path: Path, matrix: str) -> tuple[sp.csr_matrix, pd.DataFrame, pd.DataFrame]:
    """The matrix at a path in the file as CSR, and the frames that belong to it."""
    try:
        data = anndata.read_h5ad(path)
    except ImportError:
        # Something beside that needs a package of its own.
        found, obs, var = elements(path, matrix)
    else:
        obs, var = data.obs, data.var
        if matrix == "X":
            found = data.X
        elif matrix == "raw/X":
            found, var = data.raw.X, data.raw.var
        else:
            found = data.layers[matrix.removeprefix("layers/")]
    counts = sp.csr_matrix(found)
    # Files may hold indptr and indices of different widths, on which SciPy refuses to work.
    counts = sp.csr_matrix((counts.data, counts.indices, counts.indptr.astype(np.int64)), shape=counts.shape)
    counts.eliminate_zeros()
    counts.sort_indices()
    return counts, obs, var


def difference(source: Path, back: Path, matrix: str = "X", frames: bool = True) -> str | None:
    """What differs first, if anything does."""
    one, obs_one, var_one = parts(source, matrix)
    two, obs_two, var_two = parts(back, "X")
    for name in ("shape", "dtype"):
        if getattr(one, name) != getattr(two, name):
            return f"{name}: {getattr(one, name)} became {getattr(two, name)}"
    for name in ("indptr", "indices", "data"):
        if not np.array_equal(getattr(one, name), getattr(two, name)):
            return f"{matrix}: {name} differs"
    if not frames:
        return None
    for name, left, right in (("obs", obs_one, obs_two), ("var", var_one, var_two)):
        try:
            pd.testing.assert_frame_equal(left, right)
        except AssertionError as error:
            return f"{name}: {error}"
    return None


def main() -> None:
    """Exits with 1 and says what differs, or with 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, nargs="?")
    parser.add_argument("back", type=Path, nargs="?")
    parser.add_argument("--pairs", type=Path, help="a file of many: source, back and matrix, tabs between")
    parser.add_argument("--matrix", default="X", help="the matrix of the source that was converted")
    parser.add_argument("--counts-only", action="store_true", help="leave obs and var alone")
    args = parser.parse_args()
    pairs = [(args.source, args.back, args.matrix)] if args.source else []
    if args.pairs:
        lines = args.pairs.read_text(encoding="utf-8").splitlines()
        pairs += [
            (Path(source), Path(back), matrix) for source, back, matrix in (x.split("\t") for x in lines)
        ]
    found = []
    for source, back, matrix in pairs:
        fault = difference(source, back, matrix, frames=not args.counts_only)
        if fault:
            found.append(f"{source}: {fault}")
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
