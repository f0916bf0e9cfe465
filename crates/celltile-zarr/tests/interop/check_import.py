"""Compares stores with what came out of a dataset that was converted from them.

Usage: check_import.py FOLDER

FOLDER holds `cases.json` and, for each case, `out_N.zarr`.
"""

import json
import sys
import warnings
from pathlib import Path

import anndata as ad
import numpy as np
import pandas as pd
import scipy.sparse as sp

warnings.filterwarnings("ignore")


def main(folder: Path) -> None:
    """Checks all cases."""
    cases = json.loads((folder / "cases.json").read_text())
    for number, case in enumerate(cases):
        what = f"{case['name']}, {case['matrix']}"
        before = ad.read_zarr(folder / case["original"])
        after = ad.read_zarr(folder / f"out_{number}.zarr")
        part, _, layer = case["matrix"].partition("/")
        matrix = before.layers[layer] if part == "layers" else before.X
        assert sorted(after.var_names) == sorted(before.var_names), what
        places = before.var_names.get_indexer(after.var_names)
        expected = sp.csr_matrix(matrix)[:, places]
        assert (sp.csr_matrix(after.X) != expected).nnz == 0, what
        pd.testing.assert_frame_equal(before.var.loc[after.var_names], after.var, obj=what)
        pd.testing.assert_index_equal(before.obs_names, after.obs_names, obj=what)
        assert list(before.obs.columns) == list(after.obs.columns), what
        for name in before.obs.columns:
            pd.testing.assert_series_equal(before.obs[name], after.obs[name], obj=f"{what}: {name}")
        np.testing.assert_array_equal(before.obs["stage"].cat.codes, after.obs["stage"].cat.codes)
    print(f"{len(cases)} stores of anndata {ad.__version__} equal after a conversion and an export")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
