"""Checks a file of tests/export.rs with anndata."""

import sys
import warnings

import anndata
import numpy as np

path, cells, dtype = sys.argv[1], int(sys.argv[2]), sys.argv[3]
warnings.simplefilter("error")
data = anndata.read_h5ad(path)
cell, gene = np.mgrid[0:cells, 0:300]
expected = np.where((cell * 31 + gene * 17) % 11 == 0, cell * gene % 70_000 + 1, 0)
expected[cell % 5 == 2] = 0
assert data.X.format == "csr" and data.X.dtype == np.dtype(dtype), data.X.dtype
assert data.X.has_sorted_indices or not data.X.nnz
assert data.shape == (cells, 300)
assert (data.X.toarray() == expected).all()
assert list(data.var_names) == [f"gene {i}" for i in range(300)]
assert list(data.obs_names) == [str(i) for i in range(cells)]
