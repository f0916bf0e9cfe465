"""Reads a 10x folder as scanpy does, with SciPy, and compares it with the counts that the test made up."""

import csv
import gzip
import sys
from pathlib import Path

import numpy as np
import scipy.io

folder, cells, genes = Path(sys.argv[1]), int(sys.argv[2]), 300
with gzip.open(folder / "matrix.mtx.gz", "rb") as file:
    matrix = scipy.io.mmread(file).tocsr()
assert matrix.shape == (genes, cells), matrix.shape
assert np.issubdtype(matrix.dtype, np.integer), matrix.dtype


def rows(name):
    with gzip.open(folder / name, "rt") as file:
        return list(csv.reader(file, delimiter="\t"))


assert rows("features.tsv.gz") == [[f"gene {gene}"] * 2 + ["Gene Expression"] for gene in range(genes)]
assert rows("barcodes.tsv.gz") == [[str(cell)] for cell in range(cells)]
expected = np.array(
    [
        [
            cell * gene % 70_000 + 1 if (cell * 31 + gene * 17) % 11 == 0 and cell % 5 != 2 else 0
            for gene in range(genes)
        ]
        for cell in range(cells)
    ]
).reshape(cells, genes)
assert (expected == matrix.toarray().T).all()
