"""Compares the tables of a dataset, as pandas and pyarrow read its files, with those of the h5ad file that it was made from.

python check_dataset.py DATASET FILE.h5ad MATRIX
"""

import json
import pathlib
import sys

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from pandas.testing import assert_frame_equal

ROOT, SOURCE, MATRIX = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]


def frame(name):
    with h5py.File(SOURCE) as file:
        found = anndata.io.read_elem(file[name])
    if isinstance(found, pd.DataFrame):
        return found
    # What is older than the registry of encodings is read as a whole.
    data = anndata.read_h5ad(SOURCE)
    return data.raw.var if name == "raw/var" else getattr(data, name)


def check_var():
    source = frame("raw/var" if MATRIX == "raw/X" else "var")
    order = np.load(ROOT / "gene_order.npy")
    found = pd.read_parquet(ROOT / "var.parquet")
    names = (ROOT / "var_names.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert names == [str(name) for name in source.index[order]]
    # A column without values and one of another kind of string are the same values of another dtype.
    # The labels of no columns have no type.
    kinds = {"check_column_type": len(source.columns) > 0}
    kinds |= {"check_dtype": False, "check_categorical": False, "check_index_type": False}
    assert_frame_equal(found, source.iloc[order], **kinds)
    for name in source.columns:
        if isinstance(source[name].dtype, pd.CategoricalDtype):
            assert list(found[name].cat.categories) == list(source[name].cat.categories), name
            assert found[name].cat.ordered == source[name].cat.ordered, name
    assert pq.read_table(ROOT / "var.parquet").num_rows == len(source)


def check_obs():
    source = frame("obs")
    schema = json.loads((ROOT / "obs" / "schema.json").read_text(encoding="utf-8"))["columns"]
    shards = sorted((ROOT / "obs").glob("*.parquet"))
    found = pd.concat([pd.read_parquet(shard) for shard in shards], ignore_index=True)
    assert list(found.columns) == [column["name"] for column in schema]
    index, *columns = schema
    assert list(found[index["name"]]) == [str(name) for name in source.index]
    assert [column["name"] for column in columns] == list(source.columns)
    for column in columns:
        own, other = found[column["name"]], source[column["name"]].reset_index(drop=True)
        if column["kind"] == "category":
            assert list(other.cat.categories) == column["categories"], column["name"]
            assert (own == other.cat.codes).all(), column["name"]
            continue
        assert (own.isna() == other.isna()).all(), column["name"]
        there = ~own.isna()
        assert list(own[there]) == list(other[there]), column["name"]


check_var()
check_obs()
