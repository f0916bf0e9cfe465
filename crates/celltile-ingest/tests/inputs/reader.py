"""What HDF5's own library makes of files: reader.py FOLDER prints, by the name of each file, its counts as cell, gene and value, or null if
it cannot be read. Damaged files may crash the library or hang it: each is read in a process of its own."""

import json
import multiprocessing
import sys
from pathlib import Path

import h5py
import numpy as np

SECONDS = 20


def compressed(group, cells, genes, by_cell):
    """Cell, gene and value of every entry of a sparse matrix."""
    pointer, index, values = group["indptr"][:], group["indices"][:], group["data"][:]
    rows = cells if by_cell else genes
    limit = genes if by_cell else cells
    assert len(pointer) == rows + 1 and pointer[0] == 0 and pointer[-1] == len(index) == len(values)
    assert (np.diff(pointer.astype("i8")) >= 0).all()
    assert len(index) == 0 or (index.min() >= 0 and index.max() < limit)
    row = np.repeat(np.arange(rows), np.diff(pointer.astype("i8")))
    return (row, index, values) if by_cell else (index, row, values)


def dense(values):
    cell, gene = np.nonzero(values)
    return cell, gene, values[cell, gene]


def anndata(group):
    cells = group["obs"][group["obs"].attrs["_index"]].shape[0]
    genes = group["var"][group["var"].attrs["_index"]].shape[0]
    matrix = group["X"]
    if isinstance(matrix, h5py.Dataset):
        assert matrix.shape == (cells, genes)
        return dense(matrix[:])
    assert tuple(matrix.attrs["shape"]) == (cells, genes)
    return compressed(matrix, cells, genes, matrix.attrs["encoding-type"] == "csr_matrix")


def tenx(group):
    genes = group["features"]["name"] if "features" in group else group["gene_names"]
    return compressed(group, group["barcodes"].shape[0], genes.shape[0], True)


def read(path):
    with h5py.File(path, "r") as file:
        if "mod" in file:
            entries = anndata(file["mod/rna"])
        elif isinstance(file.get("matrix"), h5py.Dataset):
            entries = dense(file["matrix"][:].T)
        elif "matrix" in file:
            entries = tenx(file["matrix"])
        elif "hg19" in file:
            entries = tenx(file["hg19"])
        else:
            entries = anndata(file)
        found = {}
        for cell, gene, value in zip(*(part.tolist() for part in entries), strict=True):
            assert value == int(value) and 0 <= value < 2**31 and (cell, gene) not in found
            found[cell, gene] = int(value)
        return sorted([cell, gene, value] for (cell, gene), value in found.items() if value)


def answer(path, pipe):
    try:
        pipe.send(read(path))
    except Exception:
        pipe.send(None)


def main():
    found = {}
    context = multiprocessing.get_context("fork")
    for path in sorted(Path(sys.argv[1]).iterdir()):
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(target=answer, args=(path, theirs))
        process.start()
        theirs.close()
        try:
            found[path.name] = mine.recv() if mine.poll(SECONDS) else None
        except EOFError:
            found[path.name] = None
        process.kill()
        process.join()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
