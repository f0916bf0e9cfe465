"""Writes h5ad files with cell tables in every encoding, with raw h5py, and says what must come of them.

    python frames.py FOLDER

Each file holds six cells and two genes. `frames.json` has, for each file, either `error`: words of the message, or `columns`: by name
the kind, the Arrow type, the categories, whether they are ordered, and the values as CSV has them (None: missing).
"""

import json
import pathlib
import sys

import h5py
import numpy as np
from h5py import h5s, h5t

OUT = pathlib.Path(sys.argv[1])
N = 6
TEXT = h5py.string_dtype()
FILES = []


class Obs:
    """The cell table of a new file."""

    def __init__(self, name, index=None, x=1, **options):
        self.entry = {"file": name, "columns": {}, **options}
        FILES.append(self.entry)
        self.file = h5py.File(OUT / name, "w")
        self.file["X"] = np.full((N, 2), x, "f4")
        self.file["X"].attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
        var = self.file.create_group("var")
        var.attrs.update({"_index": "_index", "encoding-type": "dataframe", "encoding-version": "0.2.0"})
        var.attrs["column-order"] = np.array([], dtype=TEXT)
        var.create_dataset("_index", data=["g1", "g2"], dtype=TEXT)
        self.group, self.order = None, []
        if index is not None:
            self.group = self.file.create_group("obs")
            self.group.attrs.update(
                {"_index": index, "encoding-type": "dataframe", "encoding-version": "0.2.0"}
            )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.group is not None:
            self.group.attrs["column-order"] = np.array(self.order, dtype=TEXT)
        self.file.close()

    def names(self, names=None, at="_index"):
        names = names or [f"c{i}" for i in range(N)]
        self.group.create_dataset(at, data=names, dtype=TEXT)

    def expect(self, name, kind, arrow, values, categories=None, ordered=False):
        self.entry["columns"][name] = {
            "kind": kind,
            "arrow_type": arrow,
            "categories": categories,
            "ordered": ordered,
            "values": values,
        }

    def group_at(self, name, encoding):
        self.order.append(name)
        group = self.group.create_group(name)
        group.attrs.update({"encoding-type": encoding, "encoding-version": "0.1.0"})
        return group

    def plain(self, name, array, kind, arrow, values):
        self.order.append(name)
        self.group[name] = array
        self.expect(name, kind, arrow, values)


def text(values):
    return [None if v is None else str(v) for v in values]


def strings(parent, name, values, padding, size, charset):
    """Fixed-length strings of any padding, which h5py itself does not write."""
    kind = h5t.TypeID.copy(h5t.C_S1)
    kind.set_size(size)
    kind.set_strpad(padding)
    kind.set_cset(charset)
    space = h5s.create_simple((len(values),))
    dataset = h5py.h5d.create(parent.id, name.encode(), kind, space)
    fill = b" " if padding == h5t.STR_SPACEPAD else b"\0"
    data = np.array([v.ljust(size, fill) for v in values], dtype=f"V{size}")
    dataset.write(h5s.ALL, h5s.ALL, data, mtype=kind)


# Strings: fixed ones in each padding and character set, with and without room to spare; variable ones.
with Obs("strings.h5ad", "_index") as obs:
    obs.names()
    values = ["a", "bc", "", "d e", "\u00e9", "xyz"]
    for pad_name, padding in (
        ("term", h5t.STR_NULLTERM),
        ("null", h5t.STR_NULLPAD),
        ("space", h5t.STR_SPACEPAD),
    ):
        for size in (4, 9):
            for set_name, charset in (("utf8", h5t.CSET_UTF8), ("ascii", h5t.CSET_ASCII)):
                name = f"{pad_name}{size}{set_name}"
                own = ["a", "bc", "", "d e", "?", "xyz"] if set_name == "ascii" else values
                obs.order.append(name)
                strings(obs.group, name, [v.encode() for v in own], padding, size, charset)
                obs.expect(name, "string", "string", own)
    # What stands behind the end does not count.
    obs.order.append("junk")
    strings(
        obs.group,
        "junk",
        [b"a\0zz", b"bc\0z", b"\0zzz", b"d\0\0z", b"e\0\0\0", b"xyz\0"],
        h5t.STR_NULLTERM,
        4,
        1,
    )
    obs.expect("junk", "string", "string", ["a", "bc", "", "d", "e", "xyz"])
    for name, dtype in (("var utf8", TEXT), ("var ascii", h5py.string_dtype("ascii"))):
        own = values if name == "var utf8" else ["a", "bc", "", "d e", "?", "xyz"]
        obs.order.append(name)
        obs.group.create_dataset(name, data=own, dtype=dtype)
        obs.expect(name, "string", "string", own)

# Numbers and booleans of every width, in both byte orders.
with Obs("numbers.h5ad", "_index") as obs:
    obs.names()
    arrow = {"f2": "halffloat", "f4": "float", "f8": "double"}
    for code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
        limits = np.iinfo(code)
        values = [limits.min, limits.max, 0, 1, 2, 3]
        name = {"i": "int", "u": "uint"}[code[0]] + str(8 * int(code[1]))
        for order in "<>":
            obs.plain(f"{order}{code}", np.array(values, order + code), "numeric", name, text(values))
    for code in ("f2", "f4", "f8"):
        for order in "<>":
            data = np.array([0.5, -1, np.nan, np.inf, 1024, -0.0], order + code)
            obs.plain(
                f"{order}{code}", data, "numeric", arrow[code], ["0.5", "-1.0", None, "inf", "1024.0", "-0.0"]
            )
    obs.plain("bool", np.array([True, False] * 3), "bool", "bool", ["True", "False"] * 3)
    kind = h5py.enum_dtype({"FALSE": 0, "TRUE": 1}, basetype="u1")
    obs.order.append("wide bool")
    obs.group.create_dataset("wide bool", data=np.array([1, 0] * 3, "u1"), dtype=kind)
    obs.expect("wide bool", "bool", "bool", ["True", "False"] * 3)
    for base in ("i1", "u2", "i4"):
        kind = h5py.enum_dtype({"stem": 5, "B cell": 0, "unused": 1, "T cell": 7}, basetype=base)
        obs.order.append(f"enum {base}")
        obs.group.create_dataset(f"enum {base}", data=np.array([7, 0, 0, 5, 7, 0], base), dtype=kind)
        values = ["T cell", "B cell", "B cell", "stem", "T cell", "B cell"]
        # HDF5 keeps no order of its own; the test sorts what has none.
        obs.expect(f"enum {base}", "category", "int8", values, ["B cell", "T cell", "stem", "unused"], None)

# Masked arrays.
with Obs("masked.h5ad", "_index") as obs:
    obs.names()
    mask = np.array([False, True, False, False, False, True])
    for code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
        top = np.iinfo(code).max
        group = obs.group_at(code, "nullable-integer")
        group["values"], group["mask"] = np.array([top, 9, 0, 1, 2, 9], code), mask
        name = {"i": "int", "u": "uint"}[code[0]] + str(8 * int(code[1]))
        obs.expect(code, "numeric", name, text([top, None, 0, 1, 2, None]))
    group = obs.group_at("exact", "nullable-integer")
    group["values"], group["mask"] = np.array([2**53 + 1, 0, 1, 2, 3, 4], "i8"), mask
    obs.expect("exact", "numeric", "int64", text([2**53 + 1, None, 1, 2, 3, None]))
    group = obs.group_at("none masked", "nullable-integer")
    group["values"], group["mask"] = np.arange(N), np.zeros(N, bool)
    obs.expect("none masked", "numeric", "int64", text(range(N)))
    group = obs.group_at("flag", "nullable-boolean")
    group["values"], group["mask"] = np.array([True, False] * 3), mask
    obs.expect("flag", "bool", "bool", ["True", None, "True", "False", "True", None])
    for name, na in (("NA", "NA"), ("NaN", "NaN"), ("none said", None)):
        group = obs.group_at(name, "nullable-string-array")
        if na:
            group.attrs["na-value"] = na
        group.create_dataset("values", data=["p", "", "", "\u00e9", "NA", "x"], dtype=TEXT)
        group["mask"] = mask
        obs.expect(name, "string", "string", ["p", None, "", "\u00e9", "NA", None])
    group = obs.group_at("all missing", "nullable-string-array")
    group.create_dataset("values", data=[""] * N, dtype=TEXT)
    group["mask"] = np.ones(N, bool)
    obs.expect("all missing", "string", "string", [None] * N)

# Categories of every type, with codes of every type.
with Obs("categories.h5ad", "_index") as obs:
    obs.names()
    codes = [0, -1, 2, 0, 2, -1]

    def category(name, dtype, labels, shown, categories, ordered=None, codes=codes, arrow="int8"):
        group = obs.group_at(name, "categorical")
        group["codes"] = np.array(codes, dtype)
        if callable(labels):
            labels(group)
        else:
            group["categories"] = labels
        if ordered is not None:
            group.attrs["ordered"] = ordered
        values = [None if c < 0 else shown[c] for c in codes]
        obs.expect(name, "category", arrow, values, categories, bool(ordered))

    names = ["z", "a", "m"]
    for code in ("i1", "i2", "i4", "i8"):
        category(f"codes {code}", code, np.array(names, dtype=TEXT), names, names, False)
    category("unsigned", "u1", np.array(names, dtype=TEXT), names, names, codes=[0, 1, 2, 0, 2, 1])
    category("ordered", "i1", np.array(names, dtype=TEXT), names, names, True)
    category("ordered 1", "i1", np.array(names, dtype=TEXT), names, names, np.uint8(1))
    category("fixed", "i1", np.array([b"z", b"aa", b"m"]), ["z", "aa", "m"], ["z", "aa", "m"])
    for code in ("i1", "i8", "u4"):
        category(f"of {code}", "i1", np.array([30, 1, 2], code), ["30", "1", "2"], [30, 1, 2], True)
    category("of f8", "i1", np.array([2.5, -1, 0]), ["2.5", "-1.0", "0.0"], [2.5, -1.0, 0.0])
    category(
        "of bool", "i1", np.array([True, False]), ["True", "False"], [True, False], codes=[0, -1, 1, 0, 1, -1]
    )

    def masked(group):
        values = group.create_group("categories")
        values.attrs.update({"encoding-type": "nullable-string-array", "encoding-version": "0.1.0"})
        values.create_dataset("values", data=names, dtype=TEXT)
        values["mask"] = np.zeros(3, bool)

    category("of masked", "i1", masked, names, names)
    category("no labels", "i1", np.array([], dtype=TEXT), [], [], codes=[-1] * N)
    for count, arrow in ((127, "int8"), (128, "int8"), (129, "int16"), (20_000, "int16")):
        many = [f"k{i}" for i in range(count)]
        code = [0, count - 1, -1, 1, 2, 0]
        category(f"{count} labels", "i4", np.array(many, dtype=TEXT), many, many, codes=code, arrow=arrow)
    many = [f"k{i}" for i in range(20_001)]
    category("20001 labels", "i4", np.array(many, dtype=TEXT), many, None, codes=[0, 20_000, -1, 1, 2, 0])
    obs.expect("20001 labels", "string", "string", ["k0", "k20000", None, "k1", "k2", "k0"])

# As anndata 0.7 wrote them: `__categories`, referred to by the codes.
with Obs("v0.7.h5ad", "index") as obs:
    obs.names(at="index")
    lists = obs.group.create_group("__categories")
    for name, labels, ordered in (
        ("stage", ["u", "v"], True),
        ("batch", [7, 3], False),
        ("odd/name", ["x"], False),
    ):
        data = np.array(labels, dtype=TEXT) if isinstance(labels[0], str) else np.array(labels)
        lists[name] = data
        lists[name].attrs["ordered"] = ordered
        code = [0, -1, len(labels) - 1, 0, 0, -1]
        obs.order.append(name)
        obs.group[name] = np.array(code, "i1")
        obs.group[name].attrs["categories"] = lists[name].ref
        shown = [None if c < 0 else str(labels[c]) for c in code]
        obs.expect(name, "category", "int8", shown, labels, ordered)
    obs.plain("score", np.arange(N, dtype="f4"), "numeric", "float", [f"{i}.0" for i in range(N)])

# As anndata before 0.7 wrote them: records, whose categories are in uns.
with Obs("v0.6.h5ad") as obs:
    kind = [("index", "S3"), ("group", "i8"), ("score", "f4"), ("flag", "?"), ("note", TEXT), ("n", ">u2")]
    rows = [(f"c{i}".encode(), i % 2, i / 2, i % 3 == 0, f"n{i}", i) for i in range(N)]
    obs.file["obs"] = np.array(rows, dtype=kind)
    obs.file["uns/group_categories"] = np.array([b"left", b"right"])
    obs.expect("group", "category", "int8", ["left", "right"] * 3, ["left", "right"])
    obs.expect("score", "numeric", "float", [f"{i / 2}" for i in range(N)])
    obs.expect("flag", "bool", "bool", [str(i % 3 == 0) for i in range(N)])
    obs.expect("note", "string", "string", [f"n{i}" for i in range(N)])
    obs.expect("n", "numeric", "uint16", text(range(N)))

# Names that are no names for a file, or are two names in HDF5.
with Obs("names.h5ad", "index") as obs:
    obs.names(at="index")
    odd = [
        "a/b",
        "..",
        "%2F",
        "_index",
        "x" * 300,
        "\u00e9",
        "\U0001f600",
        "trailing ",
        "A",
        "G2/M phase",
        "=",
        "a.arrow",
    ]
    for at, name in enumerate(odd):
        obs.order.append(name)
        obs.group[name] = np.arange(N) + at
        obs.expect(name, "numeric", "int64", text(range(at, at + N)))

# Indexes of other kinds.
with Obs("index_masked.h5ad", "_index") as obs:
    group = obs.group.create_group("_index")
    group.attrs.update({"encoding-type": "nullable-string-array", "encoding-version": "0.1.0"})
    group.create_dataset("values", data=["p", "q", "q", "r", "s", "t"], dtype=TEXT)
    group["mask"] = np.zeros(N, bool)
    obs.entry["index"] = ["p", "q", "q", "r", "s", "t"]
    obs.plain("n", np.arange(N), "numeric", "int64", text(range(N)))
with Obs("index_category.h5ad", "name") as obs:
    group = obs.group.create_group("name")
    group.attrs.update({"encoding-type": "categorical", "encoding-version": "0.2.0", "ordered": False})
    group["codes"] = np.array([1, 0, 1, 2, 0, 1], "i1")
    group["categories"] = np.array(["p", "q", "r"], dtype=TEXT)
    obs.entry["index"] = ["q", "p", "q", "r", "p", "q"]
    obs.plain("n", np.arange(N), "numeric", "int64", text(range(N)))
with Obs("index_numbers.h5ad", "_index") as obs:
    obs.group["_index"] = np.arange(N) * 10
    obs.entry["index"] = text(range(0, 60, 10))
    obs.plain("n", np.arange(N), "numeric", "int64", text(range(N)))

# What a dataset cannot hold, all of it in one message, before anybody looks at X (whose values are no counts).
BAD = [
    "past",
    "wild",
    "record",
    "gone",
    "square",
    "ref",
    "opaque",
    "both",
    "short",
    "empty group",
    "enum past",
]
for name, options in (
    ("bad.h5ad", {"error": [f'obs["{n}"]' for n in BAD] + ["--obs-exclude", ",".join(BAD[:3])]}),
    ("rest.h5ad", {"convert": ["--obs-exclude", ",".join(BAD)]}),
):
    with Obs(name, "_index", x=0.5 if name == "bad.h5ad" else 1, **options) as obs:
        obs.names()
        obs.plain("fine", np.arange(N), "numeric", "int64", text(range(N)))
        for column, codes in (("past", [0, 1, 2, 0, 0, 0]), ("wild", [0, -2147483648, 1, 0, 0, 0])):
            group = obs.group_at(column, "categorical")
            group["codes"], group["categories"] = np.array(codes, "i4"), np.array(["a", "b"], dtype=TEXT)
        obs.order.extend(BAD[2:])
        obs.group["record"] = np.zeros(N, dtype=[("a", "i4")])
        obs.group["square"] = np.zeros((N, 2))
        obs.group.create_dataset("ref", data=[obs.file["X"].ref] * N, dtype=h5py.ref_dtype)
        obs.group["opaque"] = np.zeros(N, "V3")
        group = obs.group.create_group("both")
        group.attrs["encoding-type"] = "nullable-integer"
        group["values"], group["mask"] = np.arange(N), np.zeros(N - 1, bool)
        obs.group["short"] = np.arange(N - 1)
        obs.group.create_group("empty group")
        kind = h5py.enum_dtype({"A": 0, "B": 1}, basetype="i1")
        obs.group.create_dataset("enum past", data=np.array([0, 1, 2, 0, 0, 0], "i1"), dtype=kind)

(OUT / "frames.json").write_text(json.dumps(FILES))
