"""Writes AnnData stores of every kind that a conversion reads.

Usage: write_anndata.py FOLDER
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
from anndata.experimental import write_dispatched

warnings.filterwarnings("ignore")

CELLS, GENES = 203, 31


def make(seed: int) -> ad.AnnData:
    """Cells with columns of every encoding."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.4, (CELLS, GENES)).astype("float32")
    counts[5] = counts[CELLS - 1] = 0
    stages = pd.Categorical.from_codes(rng.integers(-1, 3, CELLS), ["late", "early", "mid"], ordered=True)
    obs = pd.DataFrame(
        {
            "donor": pd.Categorical(rng.choice(["a", "b", "ä/ö"], CELLS)),
            "stage": stages,
            "batch": pd.Categorical(rng.integers(0, 4, CELLS)),
            "reads": rng.integers(0, 10**12, CELLS),
            "small": rng.integers(0, 200, CELLS).astype("uint8"),
            "share": rng.random(CELLS).astype("float32"),
            "flag": rng.random(CELLS) < 0.5,
            "never": np.zeros(CELLS, dtype=bool),
            "masked": pd.array([None if n % 7 == 0 else n for n in range(CELLS)], dtype="Int32"),
            "maybe": pd.array([None if n % 5 == 0 else n % 2 == 0 for n in range(CELLS)], dtype="boolean"),
            "note": [f"Zelle {n} ü" for n in range(CELLS)],
        },
        index=[f"cell-{n}" for n in range(CELLS)],
    )
    var = pd.DataFrame({"length": np.arange(GENES) * 7}, index=[f"gene{n}" for n in range(GENES)])
    adata = ad.AnnData(sp.csr_matrix(counts), obs, var)
    adata.layers["counts"] = sp.csc_matrix(counts)
    adata.layers["dense"] = counts.astype("int32")
    adata.raw = adata.copy()
    adata.obsm["X_pca"] = rng.random((CELLS, 3))
    return adata


def kwargs_for(kind: str, elem: object) -> dict:
    """How an array is cut."""
    if kind == "plain" or not hasattr(elem, "shape") or 0 in elem.shape:
        return {}
    chunk = tuple(max(1, min(13, n)) for n in elem.shape)
    shard = tuple(4 * c for c in chunk)
    return {"chunks": chunk, "shards": shard} if kind == "sharded" else {"chunks": chunk}


def write(adata: ad.AnnData, store: object, zarr_format: int, kind: str) -> None:
    """Writes a store; `kind` says how arrays are cut."""
    group = zarr.open_group(store, mode="w", zarr_format=zarr_format)

    def callback(func, g, k, elem, dataset_kwargs, iospec):
        if iospec.encoding_type in {"array", "csr_matrix", "csc_matrix", "string-array"}:
            shape = elem.data if hasattr(elem, "indptr") else elem
            dataset_kwargs = {**dataset_kwargs, **kwargs_for(kind, shape)}
        func(g, k, elem, dataset_kwargs=dataset_kwargs)

    write_dispatched(group, "/", adata, callback=callback)


def main(folder: Path) -> None:
    """Writes all cases."""
    cases = []
    for number, (zarr_format, kind) in enumerate(
        [(2, "plain"), (2, "cut"), (3, "plain"), (3, "cut"), (3, "sharded")]
    ):
        adata = make(number)
        name = f"v{zarr_format}_{kind}.zarr"
        write(adata, str(folder / name), zarr_format, kind)
        if kind != "sharded":
            zarr.consolidate_metadata(str(folder / name))
        matrices = ["X", "layers/counts", "layers/dense", "raw/X"]
        cases += [{"name": name, "original": name, "matrix": matrix} for matrix in matrices]
        packed = f"v{zarr_format}_{kind}.zip"
        with zarr.storage.ZipStore(folder / packed, mode="w") as store:
            write(adata, store, zarr_format, kind)
        cases.append({"name": packed, "original": name, "matrix": "X"})
    (folder / "cases.json").write_text(json.dumps(cases))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
