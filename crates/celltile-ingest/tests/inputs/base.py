"""What the scripts beside this one write inputs with."""

import json
import sys
from pathlib import Path

import h5py
import numpy as np

OUT = Path(sys.argv[1])
TEXT = h5py.string_dtype()
CASES = []


def frame(parent, name, names, columns=(), index="_index", order=None):
    group = parent.create_group(name)
    group.attrs["encoding-type"] = "dataframe"
    group.attrs["encoding-version"] = "0.2.0"
    group.attrs["_index"] = index
    order = [key for key, _ in columns] if order is None else order
    group.attrs["column-order"] = np.array(order, dtype=TEXT) if order else np.array([], dtype="f8")
    group.create_dataset(index, data=np.array(list(names), dtype=object), dtype=TEXT)
    for key, values in columns:
        group[key] = values
    return group


def names(prefix, count):
    return [f"{prefix}{at}" for at in range(count)]


def sparse(parent, name, shape, indptr, indices, data, kind="csr", **create):
    group = parent.create_group(name)
    group.attrs["encoding-type"] = f"{kind}_matrix"
    group.attrs["encoding-version"] = "0.1.0"
    group.attrs["shape"] = np.array(shape, dtype="i8")
    for key, values in (("indptr", indptr), ("indices", indices), ("data", data)):
        values = np.asarray(values)
        chunks = {"chunks": tuple(map(min, create["chunks"], values.shape))} if create.get("chunks") else {}
        group.create_dataset(key, data=values, **{**create, **chunks})
    return group


def compress(dense, kind="csr"):
    """indptr, indices and data of a dense matrix; kind says along which axis."""
    dense = np.asarray(dense)
    if kind == "csc":
        dense = dense.T
    indptr, indices, data = [0], [], []
    for row in dense:
        at = np.flatnonzero(row)
        indices.extend(at)
        data.extend(row[at])
        indptr.append(len(indices))
    return np.array(indptr, "i8"), np.array(indices, "i4"), np.array(data, dense.dtype)


def case(name, expect, **options):
    """Declares a file; `expect` is the matrix, or the words of the error."""
    if isinstance(expect, str):
        expect = {"error": [expect]}
    elif isinstance(expect, list) and expect and isinstance(expect[0], str):
        expect = {"error": expect}
    elif not isinstance(expect, dict):
        expect = {"matrix": np.asarray(expect).astype("i8").tolist()}
    CASES.append({"file": name, "expect": expect, "options": options})


def h5ad(name, cells, genes):
    file = h5py.File(OUT / name, "w")
    file.attrs["encoding-type"] = "anndata"
    frame(file, "obs", names("cell", cells))
    frame(file, "var", names("gene", genes))
    return file


def simple(name, dense, expect=None, kind="csr", dtype=None, **create):
    """An h5ad whose X is this matrix."""
    dense = np.asarray(dense, dtype=dtype)
    with h5ad(name, *dense.shape) as file:
        if kind == "dense":
            file.create_dataset("X", data=dense, **create)
        else:
            sparse(file, "X", dense.shape, *compress(dense, kind), kind=kind, **create)
    case(name, dense if expect is None else expect)


def raw(name, shape, indptr, indices, data, expect, **options):
    with h5ad(name, *shape) as file:
        sparse(file, "X", shape, indptr, indices, data)
    case(name, expect, **options)


rng = np.random.default_rng(3)
SMALL = rng.poisson(0.8, (5, 6))


def tenx(name, types, dense, v2=None):
    dense = np.asarray(dense)
    with h5py.File(OUT / name, "a" if v2 and (OUT / name).exists() else "w") as file:
        group = file.create_group(v2 or "matrix")
        indptr, indices, data = compress(dense)
        group["barcodes"] = np.array([f"BC{at}-1".encode() for at in range(dense.shape[0])])
        group["shape"] = np.array(dense.shape[::-1], "i4")
        group["indptr"], group["indices"], group["data"] = indptr, indices.astype("i8"), data.astype("i4")
        ids = np.array([f"ENSG{at}".encode() for at in range(dense.shape[1])])
        labels = np.array([f"gene{at}".encode() for at in range(dense.shape[1])])
        if v2:
            group["genes"], group["gene_names"] = ids, labels
        else:
            features = group.create_group("features")
            features["id"], features["name"] = ids, labels
            features["feature_type"] = np.array([kind.encode() for kind in types])
            features["genome"] = np.array([b"GRCh38" if kind == "Gene Expression" else b"" for kind in types])
            features["_all_tag_keys"] = np.array([b"genome"])


def finish():
    (OUT / "cases.json").write_text(json.dumps(CASES))
