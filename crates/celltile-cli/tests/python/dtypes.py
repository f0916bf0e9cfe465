"""Writes h5ad files with anndata whose cell and gene tables have every dtype that it writes.

python dtypes.py FOLDER
"""

import contextlib
import pathlib
import sys
import warnings

import anndata as ad
import numpy as np
import pandas as pd
import scipy.sparse as sp

OUT = pathlib.Path(sys.argv[1])
N = 30
warnings.simplefilter("ignore")
with contextlib.suppress(AttributeError):
    ad.settings.allow_write_nullable_strings = True
# Newer versions refuse slashes in names.
SLASH = "/" if tuple(int(part) for part in ad.__version__.split(".")[:2]) < (0, 13) else "-"


def missing(values):
    return [None if i % 7 == 3 else v for i, v in enumerate(values)]


def category(values, categories, ordered=False):
    return pd.Categorical(values, categories=categories, ordered=ordered)


def frame(names):
    letters = ["b", "a", "c"]
    rows = np.arange(N)
    columns = {
        "category": category(missing([letters[i % 3] for i in rows]), letters),
        "ordered": category(missing([letters[i % 2] for i in rows]), ["z", *letters, "unused"], True),
        "all_missing": category([None] * N, ["x", "y"]),
        "none_at_all": category([None] * N, []),
        "ints": category(missing([int(3 - i % 3) for i in rows]), [3, 1, 2]),
        "small_ints": category([int(i % 2) for i in rows], np.array([1, 0], "int8")),
        "floats": category(missing([0.5 * (i % 3) for i in rows]), [1.0, 0.0, 0.5]),
        "bools": category(missing([bool(i % 2) for i in rows]), [True, False]),
        "one": category(["only"] * N, ["only"]),
        "many": category([f"k{i}" for i in rows], [f"k{i}" for i in range(300)][::-1]),
        "object": [f"text {i}" for i in rows],
        "empty": ["", "x"] * (N // 2),
        "bool": rows % 2 == 0,
        "boolean": pd.array(missing([bool(i % 2) for i in rows]), "boolean"),
        "whole_boolean": pd.array([bool(i % 2) for i in rows], "boolean"),
        "nan": np.where(rows % 5 == 0, np.nan, rows / 7),
        "inf": np.where(rows % 5 == 0, -np.inf, -0.0),
        f"a{SLASH}b": rows,
        "\u00e9 \U0001f600": rows,
    }
    for name in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"):
        top = np.iinfo(name.lower()).max
        columns[name] = pd.array(missing([int(top), *range(1, N)]), name)
        columns[name.lower()] = np.array([top, *range(1, N)], name.lower())
    for name in ("float16", "float32", "float64"):
        columns[name] = (rows / 3).astype(name)
    table = pd.DataFrame(columns, index=names)
    # The dtype of strings is that of this pandas; the masked one is written where anndata can.
    if hasattr(ad.settings, "allow_write_nullable_strings"):
        table["string"] = pd.array(missing([f"s{i}" for i in rows]), "string")
        table["whole_string"] = pd.array([f"s{i}" for i in rows], "string")
    return table


def write(name, obs, var):
    counts = sp.random(N, N, 0.3, "csr", "float32", random_state=1)
    counts.data[:] = np.arange(counts.nnz) % 9 + 1
    ad.AnnData(counts, obs=obs, var=var).write_h5ad(OUT / f"{name}.h5ad")


def main():
    cells, genes = [f"cell {i}" for i in range(N)], [f"gene {i}" for i in range(N)]
    write("unnamed", frame(pd.Index(cells)), frame(pd.Index(genes)))
    write("named", frame(pd.Index(cells, name="barcode")), frame(pd.Index(genes, name="index")))
    repeated = [f"cell {i // 2}" for i in range(N)]
    write("repeated", frame(pd.Index(repeated)), pd.DataFrame(index=pd.Index(genes, name=f"x y{SLASH}z")))
    write("nothing", pd.DataFrame(index=pd.Index(cells)), pd.DataFrame(index=pd.Index(genes)))
    # The index's name is a column's too, with the same values and with others.
    same = pd.DataFrame({"id": cells, "n": range(N)}, index=pd.Index(cells, name="id"))
    write("same", same, pd.DataFrame(index=pd.Index(genes)))
    # Converted with fewer categories allowed than there are: strings in the shards, categories again in the export.
    many, words = pd.DataFrame(index=pd.Index(cells)), [f"k{i * 7 % N:02}" for i in range(N)]
    many["sorted"] = category(missing(words), sorted({w for w in missing(words) if w}))
    many["appearance"] = category(words, words, True)
    many["ints"] = category([i * 7 % N for i in range(N)], list(range(N)))
    write("folded", many, pd.DataFrame(index=pd.Index(genes)))


main()
