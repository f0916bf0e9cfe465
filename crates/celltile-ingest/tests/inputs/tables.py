"""Tables of cells and genes in h5ad files: section C."""

import h5py
import numpy as np
from base import CASES, OUT, SMALL, TEXT, case, compress, frame, h5ad, names, sparse

ONES = np.ones((3, 2), "i4")


def strings(values):
    return np.array(list(values), dtype=object)


def text(group, name, values):
    group.create_dataset(name, data=strings(values), dtype=TEXT)


def masked(group, name, kind, values, mask, dtype=None):
    inner = group.create_group(name)
    inner.attrs["encoding-type"] = kind
    inner.attrs["encoding-version"] = "0.1.0"
    inner.create_dataset("values", data=values, dtype=dtype)
    inner["mask"] = np.array(mask)
    return inner


def categorical(group, name, codes, categories, ordered=False, dtype="i1"):
    inner = group.create_group(name)
    inner.attrs["encoding-type"] = "categorical"
    inner.attrs["encoding-version"] = "0.2.0"
    inner.attrs["ordered"] = ordered
    inner["codes"] = np.array(codes, dtype)
    text(inner, "categories", categories)


def with_obs(name, cells=("c0", "c1", "c2"), index="_index"):
    """An h5ad of three cells whose obs the caller fills; close it with `done`."""
    file = h5ad(name, len(cells), 2)
    file["X"] = np.ones((len(cells), 2), "i4")
    del file["obs"]
    return file, frame(file, "obs", cells, [], index=index)


def done(name, file, order, obs, **options):
    file["obs"].attrs["column-order"] = np.array(order, dtype=TEXT) if order else np.array([], "f8")
    file.close()
    rows = len(obs["index"]) if "index" in obs else 3
    case(name, {"matrix": np.ones((rows, 2), int).tolist(), "obs": obs}, **options)


def column(kind, values, **more):
    return {"type": kind, "values": values, **more}


# C1: a column that is called _index, in obs, var and raw/var.
with h5ad("c1_index_column.h5ad", 3, 2) as file:
    del file["obs"], file["var"]
    for path, labels in (("obs", ["c", "d", "e"]), ("var", ["g", "h"]), ("raw/var", ["r", "s"])):
        group = frame(file, path, labels, [], index="index", order=["_index"])
        text(group, "_index", [f"{label}!" for label in labels])
    file["X"], file["raw/X"] = np.full((3, 2), 0.5), ONES
EXPECTED = {
    "index": ["c", "d", "e"],
    "index_name": "index",
    "columns": {"_index": column("text", ["c!", "d!", "e!"])},
}
case(
    "c1_index_column.h5ad", {"matrix": ONES.tolist(), "obs": EXPECTED, "genes": ["r", "s"], "chosen": "raw/X"}
)

# C3: names with slashes and all that file systems mind.
ODD = ["G1/S", "G2/M", "a", "b/c/d", "..", "%2F", "x" * 300, "é", "🧬", "space ", "con", "."]
ODD.remove(".")  # HDF5 itself takes it for the group.
file, group = with_obs("c3_names.h5ad")
for at, name in enumerate(ODD):
    group[name] = np.arange(3) + at
done(
    "c3_names.h5ad",
    file,
    ODD,
    {"columns": {name: column("int64", [at, at + 1, at + 2]) for at, name in enumerate(ODD)}},
)
file, group = with_obs("c3_both.h5ad")
inner = group.create_group("a")
inner.attrs["encoding-type"] = "categorical"
inner["codes"] = np.array([0, 1, 0], "i1")
text(inner, "categories", ["u", "v"])
inner["b"] = np.array([5, 6, 7])
done(
    "c3_both.h5ad",
    file,
    ["a", "a/b"],
    {"columns": {"a": column("category", ["u", "v", "u"]), "a/b": column("int64", [5, 6, 7])}},
)

# C6: a column of missing values only.
file, group = with_obs("c6_missing.h5ad")
masked(group, "none", "nullable-string-array", strings(["", "", ""]), [True] * 3, TEXT)
categorical(group, "no_category", [-1, -1, -1], [])
done(
    "c6_missing.h5ad",
    file,
    ["none", "no_category"],
    {
        "columns": {
            "none": column("text", [None] * 3),
            "no_category": column("category", [None] * 3, categories=[]),
        }
    },
)

# C7: dates and durations, as h5py stores NumPy's, and as integers that say so.
DATES = np.array(["2024-01-02T03:04:05.12", "1969-12-31T23:59:59", "NaT"], "M8[ns]")
SPANS = np.array([90061 * 10**9, -(10**9), 0], "m8[ns]")


def dated(name):
    file, group = with_obs(name)
    group["fine"] = np.arange(3)
    group["when"] = DATES.astype(h5py.opaque_dtype(DATES.dtype))
    group["span"] = SPANS.astype(h5py.opaque_dtype(SPANS.dtype))
    group["marked"] = DATES.astype("M8[s]").view("i8")
    group["marked"].attrs["encoding-type"] = "datetime64[s]"
    return file


ORDER = ["fine", "when", "span", "marked"]
file = dated("c7_dates.h5ad")
file["obs"].attrs["column-order"] = np.array(ORDER, dtype=TEXT)
file.close()
case(
    "c7_dates.h5ad",
    [
        'obs["when"]: dates',
        'obs["span"]: durations',
        'obs["marked"]: dates',
        "obs-datetime=iso-string",
        "int64-ns",
    ],
)
case(
    "c7_dates.h5ad",
    {"matrix": ONES.tolist(), "obs": {"columns": {"fine": column("int64", [0, 1, 2])}}},
    obs_exclude=["when", "span", "marked"],
)
STAMPS = ["2024-01-02T03:04:05.12", "1969-12-31T23:59:59", None]
case(
    "c7_dates.h5ad",
    {
        "matrix": ONES.tolist(),
        "recorded": {"obs_datetime": "iso-string"},
        "obs": {
            "columns": {
                "fine": column("int64", [0, 1, 2]),
                "when": column("text", STAMPS),
                "span": column("text", ["P1DT1H1M1S", "-P0DT0H0M1S", "P0DT0H0M0S"]),
                "marked": column("text", ["2024-01-02T03:04:05", "1969-12-31T23:59:59", None]),
            }
        },
    },
    obs_datetime="iso-string",
)
case(
    "c7_dates.h5ad",
    {
        "matrix": ONES.tolist(),
        "recorded": {"obs_datetime": "int64-ns"},
        "obs": {
            "columns": {
                "fine": column("int64", [0, 1, 2]),
                "when": column("int64", [1704164645120000000, -1000000000, None]),
                "span": column("int64", [90061 * 10**9, -(10**9), 0]),
                "marked": column("int64", [1704164645000000000, -1000000000, None]),
            }
        },
    },
    obs_datetime="int64-ns",
)

# C8: nullable integers and booleans stay what they are.
file, group = with_obs("c8_nullable.h5ad")
masked(group, "whole", "nullable-integer", np.array([1, 0, 2**53 + 1]), [False, True, False])
masked(group, "flag", "nullable-boolean", np.array([True, False, False]), [False, True, False])
masked(group, "large", "nullable-integer", np.array([2**64 - 1, 0, 1], "u8"), [False, False, False])
done(
    "c8_nullable.h5ad",
    file,
    ["whole", "flag", "large"],
    {
        "columns": {
            "whole": column("int64", [1, None, 2**53 + 1]),
            "flag": column("bool", [True, None, False]),
            "large": column("uint64", [2**64 - 1, 0, 1]),
        }
    },
)

# C9: names, columns and categories as groups of values and mask, as pandas 3 has them.
file, group = with_obs("c9_strings.h5ad")
del group["_index"]
masked(group, "_index", "nullable-string-array", strings(["cell_A", "cell_B", "é"]), [False] * 3, TEXT)
masked(group, "text", "nullable-string-array", strings(["p", "q", ""]), [False, True, False], TEXT)
inner = group.create_group("kind")
inner.attrs["encoding-type"] = "categorical"
inner["codes"] = np.array([1, -1, 0], "i1")
masked(inner, "categories", "nullable-string-array", strings(["x", "y"]), [False, False], TEXT)
done(
    "c9_strings.h5ad",
    file,
    ["text", "kind"],
    {
        "index": ["cell_A", "cell_B", "é"],
        "columns": {"text": column("text", ["p", None, ""]), "kind": column("category", ["y", None, "x"])},
    },
)
with h5ad("c9_var.h5ad", 3, 2) as file:
    file["X"] = ONES
    del file["var/_index"]
    masked(file["var"], "_index", "nullable-string-array", strings(["g1", "g2"]), [False, False], TEXT)
case("c9_var.h5ad", {"matrix": ONES.tolist(), "genes": ["g1", "g2"]})
file, group = with_obs("c9_masked_name.h5ad")
del group["_index"]
masked(group, "_index", "nullable-string-array", strings(["a", "b", "c"]), [False, True, False], TEXT)
done("c9_masked_name.h5ad", file, [], {"index": ["a", None, "c"], "columns": {}})

# C11: codes that name no category.
file, group = with_obs("c11_missing.h5ad")
categorical(group, "kind", [0, -1, 1], ["a", "b"])
done("c11_missing.h5ad", file, ["kind"], {"columns": {"kind": column("category", ["a", None, "b"])}})
for name, codes, dtype in (
    ("r_na", [0, -2147483648, 1], "i4"),
    ("past", [0, 2, 1], "i1"),
    ("low", [0, -2, 1], "i1"),
):
    file, group = with_obs(f"c11_{name}.h5ad")
    categorical(group, "kind", codes, ["a", "b"], dtype=dtype)
    file["obs"].attrs["column-order"] = np.array(["kind"], dtype=TEXT)
    file.close()
    case(f"c11_{name}.h5ad", ['obs["kind"]', str(codes[1])])

# C13: vocabularies at the edges of code widths, and past the most that a dataset keeps as categories.
for count in (127, 128, 129, 20_000, 20_001, 32_767, 32_768):
    name = f"c13_{count}.h5ad"
    with h5ad(name, 2, 2) as file:
        file["X"] = np.ones((2, 2), "i4")
        labels = [f"k{at}" for at in range(count)]
        categorical(file["obs"], "kind", [0, count - 1], labels, dtype="i1" if count <= 128 else "i4")
        file["obs"].attrs["column-order"] = np.array(["kind"], dtype=TEXT)
    case(
        name,
        {
            "matrix": [[1, 1], [1, 1]],
            "obs": {
                "columns": {
                    "kind": column("category", ["k0", f"k{count - 1}"], categories_count=count)
                    if count <= 20_000
                    else column("text", ["k0", f"k{count - 1}"])
                }
            },
        },
    )

# C14: one list of categories for obs and var, as anndata 0.6 kept them.
for name, codes, words in (
    ("fits", [1, 0], None),
    ("belongs_to_another", [0, 5], ['var["cat"]', "uns/cat_categories may belong to another frame"]),
):
    with h5py.File(OUT / f"c14_{name}.h5ad", "w") as file:
        file["X"] = ONES
        kind = [("index", "S2"), ("cat", "i8")]
        file["obs"] = np.array([(b"c1", 0), (b"c2", 1), (b"c3", -1)], dtype=kind)
        file["var"] = np.array([(b"g1", codes[0]), (b"g2", codes[1])], dtype=kind)
        file["uns/cat_categories"] = np.array([b"left", b"right"])
    obs = {"index": ["c1", "c2", "c3"], "columns": {"cat": column("category", ["left", "right", None])}}
    case(f"c14_{name}.h5ad", words or {"matrix": ONES.tolist(), "obs": obs})

# C15: frames of anndata 0.6, 0.7 and 0.10.
OLD = {"index": ["c1", "c2", "c3"], "columns": {"x": column("category", ["u", "v", "v"])}}
with h5py.File(OUT / "c15_v06.h5ad", "w") as file:
    file["X"] = ONES
    file["obs"] = np.array([(b"c1", 0), (b"c2", 1), (b"c3", 1)], dtype=[("index", "S2"), ("x", "i1")])
    file["var"] = np.array([(b"g1",), (b"g2",)], dtype=[("index", "S2")])
    file["uns/x_categories"] = np.array([b"u", b"v"])
case("c15_v06.h5ad", {"matrix": ONES.tolist(), "obs": OLD})
file, group = with_obs("c15_v07.h5ad", ["c1", "c2", "c3"])
group["x"] = np.array([0, 1, 1], "i1")
text(group.create_group("__categories"), "x", ["u", "v"])
group["x"].attrs["categories"] = group["__categories/x"].ref
del group.attrs["column-order"]
file.close()
case("c15_v07.h5ad", {"matrix": ONES.tolist(), "obs": OLD})
file, group = with_obs("c15_v10.h5ad", ["c1", "c2", "c3"])
categorical(group, "x", [0, 1, 1], ["u", "v"])
done("c15_v10.h5ad", file, ["x"], OLD)

# C18, C19: names that repeat.
file, group = with_obs("c18_repeated.h5ad", ["c1", "c2", "c2"])
done("c18_repeated.h5ad", file, [], {"index": ["c1", "c2", "c2"], "columns": {}})
case(
    "c18_repeated.h5ad",
    {
        "matrix": ONES.tolist(),
        "obs": {"index": ["c18_repeated.h5ad:c1", "c18_repeated.h5ad:c2", "c18_repeated.h5ad:c2"]},
        "recorded": {"obs_names_prefix": "{source}:"},
    },
    obs_names_prefix="{source}:",
)
with h5ad("c19_repeated.h5ad", 2, 3) as file:
    file["X"] = [[1, 2, 3], [0, 5, 0]]
    del file["var"]
    frame(file, "var", ["A", "B", "B"])
case("c19_repeated.h5ad", {"matrix": [[1, 2, 3], [0, 5, 0]], "genes": ["A", "B", "B"]})

# C22: categories that no cell has, in an order of their own.
file, group = with_obs("c22_unused.h5ad")
categorical(group, "kind", [2, 2, 2], ["z", "a", "m"], ordered=True)
KIND = column("category", ["m", "m", "m"], categories=["z", "a", "m"], ordered=True)
done("c22_unused.h5ad", file, ["kind"], {"columns": {"kind": KIND}})

# C23: factors that became integers.
file, group = with_obs("c23_integers.h5ad")
group["cluster"], group["batch"] = np.array([5, 0, 5], "i4"), np.array([2, 1, 2], "u1")
text(group, "label", ["b", "a", "b"])
group["score"] = np.array([0.5, 1, 2])
PLAIN = {
    "cluster": column("int32", [5, 0, 5]),
    "batch": column("uint8", [2, 1, 2]),
    "label": column("text", ["b", "a", "b"]),
    "score": column("float64", [0.5, 1.0, 2.0]),
}
ORDER = list(PLAIN)
done("c23_integers.h5ad", file, ORDER, {"columns": PLAIN})
case(
    "c23_integers.h5ad",
    {
        "matrix": ONES.tolist(),
        "recorded": {"obs_as_category": ["cluster", "label"]},
        "obs": {
            "columns": {
                **PLAIN,
                "cluster": column("category", [5, 0, 5], categories=[0, 5]),
                "label": column("category", ["b", "a", "b"], categories=["a", "b"]),
            }
        },
    },
    obs_as_category=["cluster", "label"],
)
case(
    "c23_integers.h5ad",
    ['obs["score"]', "only integers and text become categories"],
    obs_as_category=["score"],
)
case("c23_integers.h5ad", ['no column "gone"', "cluster, batch"], obs_as_category=["gone"])

# C24: lengths of var, and of a matrix in raw, that disagree.
with h5ad("c24_var.h5ad", 5, 5) as file:
    sparse(file, "X", SMALL.shape, *compress(SMALL))
case("c24_var.h5ad", ["shape [5, 6]", "5 cells and 5 genes"])
with h5ad("c24_raw.h5ad", 5, 6) as file:
    file["X"] = np.log1p(SMALL)
    frame(file, "raw/var", names("gene", 7))
    sparse(file, "raw/X", SMALL.shape, *compress(SMALL))
case("c24_raw.h5ad", ["raw/X", "shape [5, 6]", "5 cells and 7 genes"], matrix="raw/X")

# E6: a list of categories that holds a value twice.
file, group = with_obs("e6_repeated_category.h5ad")
categorical(group, "kind", [0, 1, 2], ["a", "b", "a"])
file["obs"].attrs["column-order"] = np.array(["kind"], dtype=TEXT)
file.close()
case("e6_repeated_category.h5ad", ['obs["kind"]', '"a"'])
assert CASES
