"""Matrices and 10x files: sections A, B and part of C and D."""

import struct

import h5py
import numpy as np
from base import CASES, OUT, SMALL, TEXT, case, compress, frame, h5ad, names, raw, rng, simple, sparse, tenx

# A1: offsets that fall, and that end too soon or past the end.
indptr, indices, data = compress(SMALL)
wrapped = indptr.astype("i4")
wrapped[3] = -2147483640
raw("a1_negative.h5ad", SMALL.shape, wrapped, indices, data, ["X/indptr", "falls from", "after cell 2"])
raw(
    "a1_short.h5ad",
    SMALL.shape,
    np.minimum(indptr, indptr[-1] - 1),
    indices,
    data,
    ["X/indptr", "expected the number of values"],
)
raw(
    "a1_long.h5ad",
    SMALL.shape,
    np.append(indptr[:-1], indptr[-1] + 1),
    indices,
    data,
    ["X/indptr", "past the"],
)
raw("a1_start.h5ad", SMALL.shape, np.append([1], indptr[1:]), indices, data, ["X/indptr", "starts at 1"])
raw("a1_rows.h5ad", SMALL.shape, indptr[:-1], indices, data, ["X/indptr", "5 entries"])
raw("a1_lengths.h5ad", SMALL.shape, indptr, indices[:-1], data, ["X/data", "X/indices has"])
bad = indices.copy()
bad[2] = 6
raw("a1_gene.h5ad", SMALL.shape, indptr, bad, data, ["X/indices", "entry 2", "is 6", "there are 6 genes"])
bad[2] = -1
raw("a1_negative_gene.h5ad", SMALL.shape, indptr, bad, data, ["X/indices", "entry 2", "is -1"])

# A2: index arrays of every width and sign, and every type of value.
for pointer in ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", ">u8"]:
    for index in ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i2", ">i8"]:
        name = f"a2_{pointer}_{index}.h5ad".replace(">", "big_")
        raw(
            name,
            SMALL.shape,
            indptr.astype(pointer),
            indices.astype(index),
            data.astype("i4"),
            SMALL,
            same="a2",
        )
for kind in [
    "i1",
    "i2",
    "i4",
    "i8",
    "u1",
    "u2",
    "u4",
    "u8",
    "f2",
    "f4",
    "f8",
    ">i2",
    ">i4",
    ">u4",
    ">i8",
    ">f4",
    ">f8",
    ">f2",
]:
    for layout in ("csr", "csc", "dense"):
        simple(f"value_{kind}_{layout}.h5ad".replace(">", "big_"), SMALL, SMALL, layout, kind)
for layout in ("csr", "csc", "dense"):
    simple(f"value_bool_{layout}.h5ad", SMALL > 0, SMALL > 0, layout, bool)

# Values that were never written: some chunks, or all of one piece. Where they would not be zero they are values.
indptr, indices, data = compress(SMALL)
for name, create, fill in [
    ("chunks", {"chunks": (4,)}, 0),
    ("piece", {}, 0),
    ("filled", {"chunks": (4,)}, 3),
]:
    with h5ad(f"a_unwritten_{name}.h5ad", *SMALL.shape) as file:
        sparse(file, "X", SMALL.shape, indptr, indices, data)
        del file["X/data"]
        values = file["X"].create_dataset("data", shape=data.shape, dtype="i4", fillvalue=fill, **create)
        if create:
            values[:4], values[8:] = data[:4], data[8:]
    if fill:
        filled = data.copy()
        filled[4:8] = fill
        dense = np.zeros_like(SMALL)
        dense[np.repeat(np.arange(SMALL.shape[0]), np.diff(indptr)), indices] = filled
        case(f"a_unwritten_{name}.h5ad", dense)
    else:
        case(f"a_unwritten_{name}.h5ad", ["X/data", "never written"])

# A3, A4, A5: unsorted genes, repeated ones, stored zeros.
UNSORTED = [[0] * 9, [0] * 9]
UNSORTED[0][7], UNSORTED[0][2], UNSORTED[0][5], UNSORTED[1][1] = 1, 2, 3, 4
raw("a3_unsorted.h5ad", (2, 9), [0, 3, 4], [7, 2, 5, 1], [1, 2, 3, 4], {"matrix": UNSORTED, "unsorted": 1})
raw(
    "a4_repeated.h5ad",
    (2, 9),
    [0, 1, 4],
    [0, 3, 3, 8],
    [9, 1, 4, 2],
    ["cell 1 (cell1)", "gene 3 (gene3)", "more than once", "1, 4"],
)
SUMMED = [[9] + [0] * 8, [0, 0, 0, 5, 0, 0, 0, 0, 2]]
raw(
    "a4_summed.h5ad",
    (2, 9),
    [0, 1, 4],
    [0, 3, 8, 3],
    [9, 1, 2, 4],
    {"matrix": SUMMED, "repeated": 1},
    duplicates="sum",
)
raw(
    "a4_sum_too_large.h5ad",
    (1, 3),
    [0, 2],
    [1, 1],
    np.array([2**31 - 1, 1], "i8"),
    ["cell 0 (cell0)", "too large"],
    duplicates="sum",
)
raw("a4_zero_beside.h5ad", (1, 3), [0, 2], [1, 1], [0, 4], ["more than once"])
ZEROS = [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 2, 0]]
raw(
    "a5_zeros.h5ad",
    (3, 4),
    [0, 3, 5, 7],
    [0, 1, 3, 0, 2, 2, 3],
    np.array([0, 1, -0.0, 0, 0, 2, 0], "f4"),
    {"matrix": ZEROS, "zeros": 5},
)

# A7: genes to cells, in chunks and out of order.
CSC = rng.poisson(0.3, (1000, 50))
simple("a7_csc.h5ad", CSC, kind="csc", dtype="f4", chunks=(333,), compression="gzip", shuffle=True)
indptr, indices, data = compress(CSC[:40], "csc")
for gene in range(50):
    part = slice(indptr[gene], indptr[gene + 1])
    indices[part], data[part] = indices[part][::-1].copy(), data[part][::-1].copy()
with h5ad("a7_csc_descending.h5ad", 40, 50) as file:
    sparse(file, "X", (40, 50), indptr, indices, data, kind="csc")
case("a7_csc_descending.h5ad", CSC[:40])
with h5ad("a7_csc_repeated.h5ad", 3, 3) as file:
    sparse(file, "X", (3, 3), [0, 2, 4, 4], [0, 1, 2, 2], [1, 2, 3, 4], kind="csc")
case("a7_csc_repeated.h5ad", ["cell 2 (cell2)", "gene 1 (gene1)", "more than once"])
with h5ad("a7_csc_value.h5ad", 3, 3) as file:
    sparse(file, "X", (3, 3), [0, 2, 4, 5], [1, 2, 0, 1, 2], np.array([1.5, 2, 2.5, 3, 1]), kind="csc")
case("a7_csc_value.h5ad", ["cell 0 (cell0)", "gene 1 (gene1)", "2.5", "fractional"])
with h5ad("a7_csc_cell.h5ad", 3, 3) as file:
    sparse(file, "X", (3, 3), [0, 2, 4, 5], [1, 2, 0, 3, 2], [1, 2, 2, 3, 1], kind="csc")
case("a7_csc_cell.h5ad", ["X/indices", "of gene 1, is 3", "there are 3 cells"])

# A8: dense, in every layout.
DENSE = rng.poisson(0.5, (20, 10))
simple("a8_columns.h5ad", DENSE, kind="dense", dtype="f4", chunks=(20, 1), compression="gzip")
simple("a8_tall.h5ad", CSC, kind="dense", dtype="i4", chunks=(1000, 7), compression="gzip")
simple("a8_rows.h5ad", DENSE, kind="dense", dtype="f8", chunks=(1, 10))
simple("a8_odd.h5ad", DENSE, kind="dense", dtype="i2", chunks=(7, 3), fletcher32=True)
simple("a8_lzf.h5ad", CSC, kind="dense", dtype=">i4", chunks=(64, 16), compression="lzf", shuffle=True)
simple("a8_contiguous.h5ad", CSC, kind="dense", dtype="u2")
# A chunk of one row whose place in the index is damaged.
simple(
    "a8_lost.h5ad",
    DENSE,
    ["X", "chunk index", "outside the shape", "1 of those inside"],
    kind="dense",
    chunks=(1, 10),
)
key = [struct.pack("<IIQQQ", 10 * DENSE.dtype.itemsize, 0, row, 0, 0) for row in (11, 11 + 256)]
whole = (OUT / "a8_lost.h5ad").read_bytes()
assert whole.count(key[0]) == 1
(OUT / "a8_lost.h5ad").write_bytes(whole.replace(*key))
with h5ad("a8_unwritten.h5ad", 20, 10) as file:
    file.create_dataset("X", shape=(20, 10), chunks=(5, 5), dtype="i4", fillvalue=2)
case("a8_unwritten.h5ad", np.full((20, 10), 2))

# A9: no X at all, or one that says so.
with h5ad("a9_absent.h5ad", 5, 6) as file:
    sparse(file, "layers/counts", SMALL.shape, *compress(SMALL))
    frame(file, "raw/var", names("gene", 6))
    sparse(file, "raw/X", SMALL.shape, *compress(SMALL))
case("a9_absent.h5ad", ["no X", "raw/X, layers/counts"], matrix="X")
case("a9_absent.h5ad", SMALL, matrix="layers/counts")
with h5ad("a9_null.h5ad", 5, 6) as file:
    file.create_dataset("X", data=h5py.Empty("f4")).attrs["encoding-type"] = "null"
    sparse(file, "layers/other", SMALL.shape, *compress(SMALL))
case("a9_null.h5ad", ["no X", "available: layers/other"])

# A10: one cell, one gene, none.
simple("a10_one_cell.h5ad", [[0, 3, 1]])
simple("a10_one_gene.h5ad", [[0], [3], [1]])
for layout in ("csr", "csc", "dense"):
    simple(f"a10_no_cells_{layout}.h5ad", np.zeros((0, 4), "f4"), kind=layout)
    simple(f"a10_no_genes_{layout}.h5ad", np.zeros((4, 0), "f4"), "no genes", kind=layout)
for name, shape in (("a10_flat_cell", (1, 3)), ("a10_flat_gene", (3, 1))):
    with h5ad(f"{name}.h5ad", *shape) as file:
        file.create_dataset("X", data=np.array([0, 3, 1], "f4"))
    case(f"{name}.h5ad", np.array([0, 3, 1]).reshape(shape))

# A11: cells without counts, a whole tile of them.
EMPTY = np.zeros((12, 5), "i4")
EMPTY[1], EMPTY[9, 2] = [1, 0, 0, 2, 0], 7
simple("a11_empty.h5ad", EMPTY)
simple("a11_all_empty.h5ad", np.zeros((7, 5), "i4"))

# A13: gaps past 16 bits.
with h5ad("a13_wide.h5ad", 4, 200_000) as file:
    genes = [0, 65535, 65536, 10, 70000, 199999]
    sparse(file, "X", (4, 200_000), [0, 1, 2, 3, 6], genes, [1, 2, 3, 4, 5, 6])
case(
    "a13_wide.h5ad",
    {"triples": [[0, 0, 1], [1, 65535, 2], [2, 65536, 3], [3, 10, 4], [3, 70000, 5], [3, 199999, 6]]},
)

# B: values.
simple("b1_float.h5ad", [[1.0, 16777216.0], [0, 3]], dtype="f4")
simple("b1_double.h5ad", [[1.0, 16777217.0], [0, 3]], dtype="f8")
for layout in ("csr", "csc", "dense"):

    def bad(name, value, dtype, *words):
        dense = np.array([[1, 0, 2], [0, value, value]], dtype=dtype)
        simple(f"b_{name}_{layout}.h5ad", dense, ["X", "cell 1 (cell1), gene 1 (gene1)", *words], kind=layout)

    bad("fraction", 1.125, "f4", "fractional value (1.125)", "are fractional", "round=")
    bad("negative_i4", -1, "i4", "negative value (-1)")
    bad("negative_f4", -3.0, "f4", "negative value (-3)")
    bad("negative_i8", -5, "i8", "negative value (-5)")
    bad("nan", np.nan, "f4", "not a number (NaN)")
    bad("inf", np.inf, "f8", "infinite value (inf)")
    bad("large_u4", 2**31, "u4", "too large (2147483648)")
    bad("large_u8", 2**63, "u8", "too large (9223372036854775808)")
    bad("large_f4", 2.0**31, "f4", "too large (2147483648)")
    ROUND = np.array([[1.125, 0.4, 2.5], [0.5, 0, 3.75]])
    for how, wanted in (("nearest", [[1, 0, 3], [1, 0, 4]]), ("floor", [[1, 0, 2], [0, 0, 3]])):
        name = f"b2_{how}_{layout}.h5ad"
        simple(name, ROUND, kind=layout)
        CASES[-1].update(expect={"matrix": wanted}, options={"rounding": how})
    simple(
        f"b4_minus_zero_{layout}.h5ad", np.array([[-0.0, 1], [2, -0.0]], "f4"), [[0, 1], [2, 0]], kind=layout
    )
    simple(f"b7_{layout}.h5ad", [[65534, 65535, 65536], [65537, 2**31 - 1, 0]], kind=layout, dtype="u4")
with h5ad("b4_stored_minus_zero.h5ad", 1, 3) as file:
    sparse(file, "X", (1, 3), [0, 2], [0, 2], np.array([-0.0, 5]))
case("b4_stored_minus_zero.h5ad", {"matrix": [[0, 0, 5]], "zeros": 1})
# The first fault in cell order, in whatever order it is stored.
LATE = np.ones((300, 40), "f4")
LATE[250, 3], LATE[17, 39], LATE[17, 38], LATE[299, 0] = -1, 0.5, np.nan, np.inf
for layout in ("csr", "csc", "dense"):
    simple(
        f"b_first_{layout}.h5ad", LATE, ["cell 17 (cell17), gene 38 (gene38)", "not a number"], kind=layout
    )
simple("b_first_columns.h5ad", LATE, ["cell 17 (cell17), gene 38 (gene38)"], kind="dense", chunks=(300, 1))

# B8, B9: which matrix, and whose genes.
with h5ad("b8_raw.h5ad", 5, 6) as file:
    sparse(file, "X", SMALL.shape, *compress(np.log1p(SMALL)))
    sparse(file, "layers/counts", SMALL.shape, *compress(SMALL * 2))
    wide = rng.poisson(0.8, (5, 8))
    frame(file, "raw/var", names("raw", 8))
    sparse(file, "raw/X", wide.shape, *compress(wide))
case("b8_raw.h5ad", {"matrix": wide.tolist(), "chosen": "raw/X", "genes": names("raw", 8)})
case("b8_raw.h5ad", {"matrix": (SMALL * 2).tolist(), "genes": names("gene", 6)}, matrix="layers/counts")
case("b8_raw.h5ad", ["fractional", "X", "cell 0"], matrix="X")
with h5ad("b8_layer.h5ad", 5, 6) as file:
    file["X"] = np.log1p(SMALL)
    file["layers/counts"] = SMALL
    frame(file, "raw/var", names("gene", 6))
    file["raw/X"] = np.log1p(SMALL)
case("b8_layer.h5ad", {"matrix": SMALL.tolist(), "chosen": "layers/counts"})
with h5ad("b8_none.h5ad", 5, 6) as file:
    file["X"] = np.log1p(SMALL)
    file["layers/counts"] = np.log1p(SMALL)
    file["layers/spare"] = SMALL
case("b8_none.h5ad", ["no matrix holds counts", "layers/counts (fractional", "X (fractional", "layers/spare"])
simple("b8_only.h5ad", SMALL, {"matrix": SMALL.tolist(), "chosen": "X"})

# C24: lengths that disagree.
with h5ad("c24_obs.h5ad", 5, 6) as file:
    sparse(file, "X", (6, 6), *compress(np.ones((6, 6), "i4")))
case("c24_obs.h5ad", ["shape [6, 6]", "5 cells and 6 genes"])
with h5ad("c24_dense.h5ad", 5, 6) as file:
    file["X"] = np.ones((5, 7))
case("c24_dense.h5ad", ["shape [5, 7]", "5 cells and 6 genes"])
with h5ad("c24_column.h5ad", 5, 6) as file:
    file["X"] = SMALL
    del file["obs"]
    frame(
        file,
        "obs",
        names("cell", 5),
        [("short", np.arange(4)), ("fine", np.arange(5)), ("deep", np.ones((5, 2)))],
    )
case("c24_column.h5ad", ['obs["short"]: 4 values; the index has 5', 'obs["deep"]: shape [5, 2]'])


# D: 10x.
with h5py.File(OUT / "d1_molecule_info.h5", "w") as file:
    for key in ("barcode_idx", "count", "feature_idx"):
        file[key] = np.arange(3)
case("d1_molecule_info.h5", ["molecule_info.h5", "filtered_feature_bc_matrix.h5"])
HG, MM = rng.poisson(1, (4, 3)), rng.poisson(1, (4, 5))
tenx("d2_genomes.h5", None, HG, "hg19")
tenx("d2_genomes.h5", None, MM, "mm10")
case("d2_genomes.h5", ["several genomes (hg19, mm10)"])
case("d2_genomes.h5", HG, genome="hg19")
case("d2_genomes.h5", MM, genome="mm10")
case("d2_genomes.h5", ['no genome "rn6"', "hg19, mm10"], genome="rn6")
tenx("d2_one.h5", None, HG, "hg19")
case("d2_one.h5", HG)
GENE, ADT, GUIDE = "Gene Expression", "Antibody Capture", "CRISPR Guide Capture"
MIXED = rng.poisson(2, (4, 6))
KINDS = [ADT, GENE, GENE, GUIDE, GENE, ADT]
tenx("d4_tenx.h5ad", [GENE] * 3, HG)
case("d4_tenx.h5ad", HG)
with h5ad("d4_h5ad.h5", 5, 6) as file:
    file["X"] = SMALL
case("d4_h5ad.h5", SMALL)
tenx("d5_mixed.h5", KINDS, MIXED)
case(
    "d5_mixed.h5",
    {
        "matrix": MIXED[:, [1, 2, 4]].tolist(),
        "genes": ["gene1", "gene2", "gene4"],
        "dropped": ["2 features: Antibody Capture", "1 features: CRISPR Guide Capture"],
    },
)
case("d5_mixed.h5", MIXED, feature_types=["all"])
case("d5_mixed.h5", MIXED[:, [0, 5]], feature_types=[ADT])
case("d5_mixed.h5", ["no feature is left", "3 of Gene Expression"], feature_types=["Custom"])

# Links and files of other kinds.
with h5ad("links.h5ad", 5, 6) as file:
    file["real"] = SMALL
    file["X"] = h5py.SoftLink("/real")
    file["layers/counts"] = h5py.SoftLink("/nowhere")
    file["layers/other"] = h5py.ExternalLink("missing.h5", "/X")
case("links.h5ad", SMALL)
case("links.h5ad", ["no layers/counts"], matrix="layers/counts")
with h5py.File(OUT / "other.h5", "w") as file:
    file["images/first"] = np.arange(4)
case("other.h5", ["an HDF5 file of another kind (groups: images)"])
(OUT / "text.h5ad").write_text("no HDF5 file\n")
case("text.h5ad", ["not an HDF5 file"])
with h5ad("latest.h5ad", 5, 6) as file:
    pass
with h5py.File(OUT / "latest.h5ad", "w", libver="latest") as file:
    frame(file, "obs", names("cell", 1000))
    frame(file, "var", names("gene", 50))
    group = sparse(file, "X", CSC.shape, *compress(CSC), chunks=(100,), maxshape=(None,), compression="gzip")
case("latest.h5ad", CSC)

# Frames: the encodings of many versions, in one file. What must come of them is in `frames.json`.
with h5ad("frames.h5ad", 3, 2) as file:
    file["X"] = np.ones((3, 2), "i4")
    del file["obs"]
    group = frame(file, "obs", ["c", "c", "d"], [], index="index")
    group["_index"] = np.array([7, 8, 9], "i8")
    group["G1/S"] = np.array([0.5, np.nan, 2])
    group["a"] = np.array([1, 2, 3], "u1")
    group["flag"] = np.array([True, False, True])
    group["big"] = np.array([1, 2, 3], ">i4")
    group["fixed"] = np.array([b"x", b"yy", b""])
    masked = group.create_group("whole")
    masked.attrs["encoding-type"] = "nullable-integer"
    masked["values"], masked["mask"] = np.array([1, 0, 2**53 + 1], "i8"), np.array([False, True, False])
    masked = group.create_group("maybe")
    masked.attrs["encoding-type"] = "nullable-boolean"
    masked["values"], masked["mask"] = np.array([True, False, False]), np.array([False, True, False])
    masked = group.create_group("text")
    masked.attrs["encoding-type"] = "nullable-string-array"
    masked.create_dataset("values", data=["p", "", "é"], dtype=TEXT)
    masked["mask"] = np.array([False, True, False])
    for name, codes, labels in (("stage", [0, -1, 1], ["z", "a", "m"]), ("level", [1, 0, 1], [10, 20])):
        category = group.create_group(name)
        category.attrs["encoding-type"] = "categorical"
        category.attrs["ordered"] = name == "stage"
        category["codes"] = np.array(codes, "i1")
        category["categories"] = labels if name == "level" else np.array(labels, dtype=TEXT)
    old = group.create_group("__categories")
    old["legacy"] = np.array(["u", "v"], dtype=TEXT)
    group["legacy"] = np.array([1, 0, -1], "i1")
    group["legacy"].attrs["categories"] = old["legacy"].ref
    order = [
        "_index",
        "G1/S",
        "a",
        "flag",
        "big",
        "fixed",
        "whole",
        "maybe",
        "text",
        "stage",
        "level",
        "legacy",
    ]
    group.attrs["column-order"] = np.array(order, dtype=TEXT)
with h5ad("frames_bad.h5ad", 3, 2) as file:
    file["X"] = np.ones((3, 2), "i4")
    del file["obs"], file["var"]
    group = frame(file, "obs", ["c", "c", "d"], [("fine", np.arange(3))])
    for name, codes in (("past", [0, 1, 2]), ("wild", [0, -2147483648, 1])):
        category = group.create_group(name)
        category.attrs["encoding-type"] = "categorical"
        category["codes"] = np.array(codes, "i4")
        category["categories"] = np.array(["a", "b"], dtype=TEXT)
    group["record"] = np.zeros(3, dtype=[("a", "i4")])
    group.attrs["column-order"] = np.array(["fine", "past", "wild", "record", "gone"], dtype=TEXT)
    frame(file, "var", names("gene", 2), [("odd", np.array([b"\xff\xfe", b"ok"]))])
case(
    "frames_bad.h5ad", ['obs["past"]', 'obs["wild"]', 'obs["record"]: compound', 'obs["gone"]', 'var["odd"]']
)
with h5py.File(OUT / "frames_old.h5ad", "w") as file:
    file["X"] = np.ones((3, 2), "i4")
    file["obs"] = np.array(
        [(b"c1", 0, 2.5), (b"c2", 1, 3.5), (b"c3", 1, 4.5)],
        dtype=[("index", "S2"), ("group", "i8"), ("score", "f4")],
    )
    file["var"] = np.array([(b"g1", 0), (b"g2", 5)], dtype=[("index", "S2"), ("group", "i8")])
    file["uns/group_categories"] = np.array([b"left", b"right"])
case("frames_old.h5ad", ['var["group"]', "uns/group_categories"])

# B7: as many counts past 16 bits as a small tile may have, and one more.
for count in (1024, 1025):
    with h5ad(f"exceptions_{count}.h5ad", 3, 2000) as file:
        sparse(file, "X", (3, 2000), [0, count, count, count], np.arange(count), np.full(count, 65536, "i4"))
