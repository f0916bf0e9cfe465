"""Matrix Market folders, tables of text, loom and h5mu files, and files that are no inputs: sections D and E."""

import gzip
import io
import tarfile
import zipfile

import h5py
import numpy as np
import pyarrow
from base import OUT, SMALL, case, compress, frame, h5ad, names, rng, sparse, tenx


def write(path, text, packing=""):
    target = OUT / (path + packing)
    target.parent.mkdir(parents=True, exist_ok=True)
    data = text if isinstance(text, bytes) else text.encode()
    if packing == ".gz":
        data = gzip.compress(data, mtime=0)
    elif packing == ".zst":
        data = pyarrow.compress(data, codec="zstd", asbytes=True)
    target.write_bytes(data)


def mtx(
    dense,
    field="integer",
    fmt="{}",
    header="%%MatrixMarket matrix coordinate {} general",
    count=None,
    order=None,
):
    """Rows and columns of the text are those of `dense`; entries in the order of columns, as 10x writes them."""
    dense = np.asarray(dense)
    columns, rows = np.nonzero(dense.T)
    places = list(zip(rows, columns, strict=True))
    if order:
        places = [places[at] for at in order(len(places))]
    lines = [f"{r + 1} {c + 1}" + (f" {fmt.format(dense[r, c])}" if fmt else "") for r, c in places]
    count = len(places) if count is None else count
    return "\n".join(
        [header.format(field), "%made by hand", f"{dense.shape[0]} {dense.shape[1]} {count}", *lines, ""]
    )


def barcodes(count):
    return "".join(f"BC{at}-1\n" for at in range(count))


def features(count, columns=3, kinds=None):
    lines = []
    for at in range(count):
        fields = [f"ENSG{at}", f"gene{at}", kinds[at] if kinds else "Gene Expression"]
        lines.append("\t".join(fields[:columns]) if columns > 1 else f"gene{at}")
    return "".join(f"{line}\n" for line in lines)


def folder(name, dense, packing=".gz", v3=True, prefix="", text=None, genes=None, **options):
    """A 10x folder: genes in rows, cells in columns."""
    dense = np.asarray(dense)
    write(f"{name}/{prefix}matrix.mtx", mtx(dense.T) if text is None else text, packing)
    write(f"{name}/{prefix}barcodes.tsv", barcodes(dense.shape[0]), packing)
    listed = "features.tsv" if v3 else "genes.tsv"
    genes = features(dense.shape[1], 3 if v3 else 2) if genes is None else genes
    write(f"{name}/{prefix}{listed}", genes, packing)


LABELS = [f"gene{at}" for at in range(6)]
SEEN = {"matrix": SMALL.tolist(), "genes": LABELS, "obs": {"index": [f"BC{at}-1" for at in range(5)]}}

# Folders of every age and packing, with prefixes as GEO has them, and by the name of the matrix.
for packing in ("", ".gz", ".zst"):
    folder(f"mtx_v3{packing}", SMALL, packing)
    case(f"mtx_v3{packing}", SEEN, same="mtx")
    folder(f"mtx_v2{packing}", SMALL, packing, v3=False)
    case(f"mtx_v2{packing}", SEEN, same="mtx")
folder("mtx_geo", SMALL, prefix="GSM1_sample_")
case("mtx_geo", SEEN, same="mtx")
case("mtx_geo/GSM1_sample_matrix.mtx.gz", SEEN, same="mtx")
folder("mtx_two", SMALL, prefix="GSM1_")
folder("mtx_two", SMALL * 2, prefix="GSM2_")
case("mtx_two", ["several matrices", "GSM1_matrix.mtx.gz, GSM2_matrix.mtx.gz"])
case("mtx_two/GSM2_matrix.mtx.gz", {**SEEN, "matrix": (SMALL * 2).tolist()})
# What its content says goes, not its name.
folder("mtx_renamed", SMALL, "")
(OUT / "mtx_renamed/matrix.mtx").rename(OUT / "mtx_renamed/matrix.h5ad")
case("mtx_renamed/matrix.h5ad", SEEN)
folder("mtx_below/GRCh38", SMALL, v3=False)
folder("mtx_below/mm10", SMALL, v3=False)
case("mtx_below", ["choose one of GRCh38, mm10"])
folder("mtx_lists_differ", SMALL)
write("mtx_lists_differ/features.tsv", features(6).replace("gene3", "other"))
case("mtx_lists_differ", ["several lists of genes that differ (features.tsv, features.tsv.gz)"])
folder("mtx_lists_agree", SMALL)
write("mtx_lists_agree/features.tsv", features(6))
case("mtx_lists_agree", SEEN, same="mtx")

# Which way a matrix lies: known from the lists, and asked for where they leave it open.
folder("axis_rows", SMALL, text=mtx(SMALL))
case("axis_rows", SEEN, same="mtx")
case("axis_rows", SEEN, same="mtx", cells="rows")
case("axis_rows", ["cells in columns, as asked"], cells="columns")
SQUARE = SMALL[:, :5]
folder("axis_square", SQUARE)
case("axis_square", ["5 rows and 5 columns", "--cells rows or --cells columns"])
case("axis_square", {"matrix": SQUARE.tolist(), "recorded": {"cells": "columns"}}, cells="columns")
case("axis_square", {"matrix": SQUARE.T.tolist()}, cells="rows")
write("axis_bare/counts.mtx", mtx(SMALL.T), ".gz")
case("axis_bare", ["barcodes.tsv and features.tsv (or genes.tsv)", "--cells rows"])
case("axis_bare", {"matrix": SMALL.tolist(), "genes": list("012345")}, cells="columns")
folder("axis_heading", SMALL, genes="id\tname\ttype\n" + features(6))
case("axis_heading", ["has 7 genes, one more: is its first line a heading?"])

# D2: genomes one after the other.
HG, MM = rng.poisson(1, (4, 3)), rng.poisson(1, (4, 5))
tenx("d2_all.h5", None, HG, "hg19")
tenx("d2_all.h5", None, MM, "mm10")
BOTH = [f"gene{at}" for at in range(3)] + [f"gene{at}" for at in range(5)]
case(
    "d2_all.h5",
    {"matrix": np.hstack([HG, MM]).tolist(), "genes": BOTH, "recorded": {"genome": "all"}},
    genome="all",
)
tenx("d2_other_cells.h5", None, HG, "hg19")
tenx("d2_other_cells.h5", None, MM[:3], "mm10")
case("d2_other_cells.h5", ["mm10/barcodes", "other cells than in hg19/barcodes"], genome="all")
with h5py.File(OUT / "d2_v3.h5", "w") as file:
    pass
tenx("d2_v3.h5", ["Gene Expression"] * 5, MM)
with h5py.File(OUT / "d2_v3.h5", "a") as file:
    del file["matrix/features/genome"]
    file["matrix/features/genome"] = np.array([b"hg19", b"hg19", b"mm10", b"mm10", b"mm10"])
case("d2_v3.h5", MM)
case("d2_v3.h5", {"matrix": MM[:, :2].tolist(), "dropped": ["3 features: genome mm10"]}, genome="hg19")
case("d2_v3.h5", MM, genome="all")
case("d2_v3.h5", ["no feature is left", "genome hg19"], genome="rn6")

# D5: types of features in a folder.
KINDS = [
    "Antibody Capture",
    "Gene Expression",
    "Gene Expression",
    "CRISPR Guide Capture",
    "Gene Expression",
    "Peaks",
]
folder("d5_kinds", SMALL, genes=features(6, 3, KINDS))
DROPPED = ["1 features: Antibody Capture", "1 features: CRISPR Guide Capture", "1 features: Peaks"]
case(
    "d5_kinds",
    {"matrix": SMALL[:, [1, 2, 4]].tolist(), "genes": ["gene1", "gene2", "gene4"], "dropped": DROPPED},
)
case("d5_kinds", SMALL, feature_types=["all"])
case(
    "d5_kinds",
    {"matrix": SMALL[:, [0, 5]].tolist(), "recorded": {"feature_types": ["Antibody Capture", "Peaks"]}},
    feature_types=["Antibody Capture", "Peaks"],
)

# D7, D8: lists of genes with fewer columns.
folder("d7_one_column", SMALL, "", v3=False, genes=features(6, 1))
case("d7_one_column", SEEN, same="mtx")
folder("d8_two_columns", SMALL, genes=features(6, 2))
case("d8_two_columns", SEEN, same="mtx")
folder("d8_ragged", SMALL, genes=features(6, 2).replace("ENSG3\t", ""))
case("d8_ragged", ["features.tsv.gz", "line 4", "1 fields; the first line has 2"])

# D10: more or fewer entries than declared, and a file that ends inside a number.
GOOD = mtx(SMALL.T)
FOUND = GOOD.count("\n") - 3
folder("d10_few", SMALL, text=mtx(SMALL.T, count=FOUND + 3))
case(
    "d10_few",
    [f"{FOUND + 3} entries are declared, {FOUND} are there", f"byte {len(GOOD)}", "--mtx-trust-lines"],
)
case("d10_few", {**SEEN, "recorded": {"mtx_trust_lines": True}}, mtx_trust_lines=True)
folder("d10_many", SMALL, text=mtx(SMALL.T, count=FOUND - 2))
case(
    "d10_many",
    [f"line {FOUND + 2} ", f"more than the {FOUND - 2} entries that are declared", "--mtx-trust-lines"],
)
case("d10_many", SEEN, mtx_trust_lines=True)
folder("d10_cut", SMALL, text=GOOD[: GOOD.rindex(" ")])
case("d10_cut", [f"line {FOUND + 3} ", "expected row, column and value"])
case("d10_cut", [f"line {FOUND + 3} "], mtx_trust_lines=True)
folder("d10_gzip_cut", SMALL)
whole = (OUT / "d10_gzip_cut/matrix.mtx.gz").read_bytes()
(OUT / "d10_gzip_cut/matrix.mtx.gz").write_bytes(whole[:-12])
case("d10_gzip_cut", ["matrix.mtx.gz", "the file is truncated"])
folder("d10_no_line_end", SMALL, "", text=GOOD.rstrip())
case("d10_no_line_end", SEEN)

# D12: more entries than 31 bits count.
folder(
    "d12_many",
    np.zeros((5, 6)),
    text="%%MatrixMarket matrix coordinate integer general\n6 5 3000000000\n1 1 1\n",
)
case("d12_many", ["3000000000 entries are declared for 6 x 5 places"])
case("d12_many", {"triples": [[0, 0, 1]]}, mtx_trust_lines=True)
write(
    "d12_bare/m.mtx",
    "%%MatrixMarket matrix coordinate integer general\n2000000000 2000000 3000000000\n1 1 1\n",
)
case("d12_bare/m.mtx", ["2000000000 genes without names"], cells="columns")
write("d12_bare/n.mtx", "%%MatrixMarket matrix coordinate integer general\n60000 2000000 3000000000\n1 1 1\n")
case("d12_bare/n.mtx", ["3000000000 entries are declared, 1 are there"], cells="columns", memory=1 << 30)
write("d12_bare/o.mtx", "%%MatrixMarket matrix coordinate integer general\n6 3000000000 1\n1 3000000000 1\n")
case("d12_bare/o.mtx", ["3000000000 columns", "2147483647"], cells="columns")

# D14: kinds and lines that hold no counts, or hold them otherwise.
BANNER = "%%MatrixMarket matrix coordinate integer general"
for kind, words in (
    ("matrix coordinate integer symmetric", ["symmetry symmetric"]),
    ("matrix coordinate integer skew-symmetric", ["symmetry skew-symmetric"]),
    ("matrix coordinate complex hermitian", ["symmetry hermitian"]),
    ("matrix coordinate complex general", ["values complex"]),
    ("matrix array integer general", ["form array"]),
    ("matrix coordinate pattern general", ["pattern", "--mtx-pattern"]),
    ("vector coordinate integer general", ["expected %%MatrixMarket matrix coordinate"]),
):
    name = "d14_" + kind.replace(" ", "_")
    folder(name, SMALL, text=GOOD.replace(BANNER, f"%%MatrixMarket {kind}"))
    case(name, [*words, "matrix.mtx.gz"])
folder("d14_pattern", SMALL > 0, text=mtx(SMALL.T > 0, "pattern", ""))
case(
    "d14_pattern",
    {"matrix": (SMALL > 0).astype(int).tolist(), "recorded": {"mtx_pattern": True}},
    mtx_pattern=True,
)
folder("d14_one_percent", SMALL, text=GOOD[1:])
case("d14_one_percent", SEEN)
folder(
    "d14_capitals", SMALL, text=GOOD.replace(BANNER, BANNER.upper().replace("MATRIXMARKET", "MatrixMarket"))
)
case("d14_capitals", SEEN)
folder(
    "d14_blanks",
    SMALL,
    text=GOOD.replace(" ", "   \t").replace("%%MatrixMarket   \t", "%%MatrixMarket ").replace("\n", " \r\n"),
)
case("d14_blanks", SEEN)
folder("d14_real", SMALL, text=mtx(SMALL.T, "real", "{}.000"))
case("d14_real", {**SEEN, "dtype": "float64"})
folder("d14_exponent", SMALL, text=mtx(SMALL.T, "real", "{}.0e+00"))
case("d14_exponent", SEEN)
folder("d14_unsorted", SMALL, text=mtx(SMALL.T, order=rng.permutation))
case("d14_unsorted", {**SEEN, "unsorted": None})


def lines(name, text, words, sizes="6 5 {}", **options):
    body = text.strip().split("\n")
    folder(name, np.zeros((5, 6)), text="\n".join([BANNER, sizes.format(len(body)), *body, ""]))
    case(name, words, **options)


lines("d14_zero_row", "1 1 1\n0 2 1", ["line 4 ", "row 0; they count from 1"])
lines("d14_zero_column", "1 1 1\n2 0 1", ["line 4 ", "column 0; they count from 1"])
lines("d14_row_past", "1 1 1\n7 2 1", ["line 4 ", "row 7; there are 6 rows"])
lines("d14_column_past", "1 1 1\n2 6 1", ["line 4 ", "column 6; there are 5 columns"])
lines("d14_huge_row", "1 1 1\n99999999999999999999999 2 1", ["line 4 ", "there are 6 rows"])
lines("d14_repeated", "1 1 1\n2 1 3\n1 1 4", ["cell 0 (BC0-1)", "gene 0 (gene0)", "more than once", "1, 4"])
lines(
    "d14_repeated_summed",
    "1 1 1\n2 1 3\n1 1 4",
    {"triples": [[0, 0, 5], [0, 1, 3]], "repeated": 1},
    duplicates="sum",
)
lines("d14_zeros", "1 1 0\n2 1 3\n3 1 0", {"triples": [[0, 1, 3]], "zeros": 2})
lines(
    "d14_fraction",
    "1 1 2\n2 1 1.5",
    ["line 4 ", "cell 0 (BC0-1), gene 1 (gene1): fractional value (1.5)", "round="],
)
lines("d14_rounded", "1 1 2\n2 1 1.5", {"triples": [[0, 0, 2], [0, 1, 2]]}, rounding="nearest")
lines("d14_negative", "1 1 2\n2 3 -4", ["line 4 ", "cell 2 (BC2-1), gene 1 (gene1): negative value (-4)"])
lines("d14_nan", "1 1 2\n2 3 nan", ["line 4 ", "cell 2 (BC2-1)", "not a number"])
lines("d14_large", "1 1 2147483647\n2 3 2147483648", ["line 4 ", "too large (2147483648)"])
lines("d14_words", "1 1 2\n2 3 many", ["line 4 ", "expected row, column and value"])
lines("d14_four", "1 1 2\n2 3 4 5", ["line 4 ", "expected row, column and value"])
lines("d14_sizes", "1 1 2", ["line 2 ", "expected rows, columns and entries"], sizes="6 5")

# D16: one name many times.
folder(
    "d16_repeated",
    rng.poisson(1, (4, 300)),
    genes="".join(f"ID{at}\tsame\tGene Expression\n" for at in range(300)),
)
case("d16_repeated", {"genes": ["same"] * 300, "cells": 4})


# Tables of text.
def table(dense, separator=",", corner=True, transpose=False, quote='"', end="\n"):
    dense, rows, columns = np.asarray(dense), [f"c{at}" for at in range(len(dense))], LABELS
    if transpose:
        dense, rows, columns = dense.T, columns, rows
    first = ([""] if corner else []) + [f"{quote}{name}{quote}" for name in columns]
    body = [
        separator.join([f"{quote}{name}{quote}", *map(str, row)])
        for name, row in zip(rows, dense, strict=True)
    ]
    return end.join([separator.join(first), *body, ""])


CELLS = {"matrix": SMALL.tolist(), "genes": LABELS, "obs": {"index": [f"c{at}" for at in range(5)]}}
for packing in ("", ".gz", ".zst"):
    write("csv_rows.csv", table(SMALL), packing)
    case(f"csv_rows.csv{packing}", CELLS, cells="rows", same="csv")
    write("csv_columns.tsv", table(SMALL, "\t", transpose=True, quote=""), packing)
    case(f"csv_columns.tsv{packing}", CELLS, cells="columns", same="csv")
write("csv_r.txt", table(SMALL, "\t", corner=False))
case("csv_r.txt", CELLS, cells="rows", same="csv")
write("csv_semicolons", table(SMALL, ";", quote="", end="\r\n"))
case("csv_semicolons", CELLS, cells="rows", same="csv")
write("csv_bom.csv", "\ufeff" + table(SMALL, quote=""))
case("csv_bom.csv", CELLS, cells="rows", same="csv")
write("csv_floats.csv", table(SMALL.astype(float)))
case("csv_floats.csv", CELLS, cells="rows", same="csv")
case(
    "csv_rows.csv",
    ["5 rows (c0, c1, c2, ...) and 6 columns (gene0, gene1, gene2, ...)", "--cells rows or --cells columns"],
)
write("csv_quoted.csv", 'x,"a,b","say ""so"""\nc,1,2\n')
case("csv_quoted.csv", {"matrix": [[1, 2]], "genes": ["a,b", 'say "so"']}, cells="rows")
for name, cell, words in (
    ("word", "many", ['row "c1", column "gene2": "many"; expected a count']),
    ("empty", "", ['row "c1", column "gene2": ""; expected a count']),
    ("na", "NA", ['row "c1", column "gene2": "NA"']),
    ("fraction", "0.25", ["cell 1 (c1), gene 2 (gene2): fractional value (0.25)", "round="]),
    ("negative", "-3", ["cell 1 (c1), gene 2 (gene2): negative value (-3)"]),
):
    rows = [list(map(str, row)) for row in SMALL]
    rows[1][2] = cell
    write(f"csv_{name}.csv", table(rows))
    case(f"csv_{name}.csv", ["line 3 ", *words], cells="rows")
write("csv_short.csv", table(SMALL).replace('"c3",', '"c3",7,'))
case("csv_short.csv", ["line 5 ", 'row "c3": 7 values; there are 6 columns'], cells="rows")
write("csv_open_quote.csv", table(SMALL).replace('"c3"', '"c3'))
case("csv_open_quote.csv", ["line 5 ", "quote that is not closed"], cells="rows")
write("csv_heading.csv", "a,b,c\n1,2\n")
case("csv_heading.csv", ["line 1 ", "3 fields; its first row has 2"], cells="rows")
write("csv_names_only.csv", "x,a,b\n")
case("csv_names_only.csv", {"matrix": [], "genes": ["a", "b"]}, cells="rows")
case("csv_names_only.csv", ["no genes"], cells="columns")
# Tables without names: what would be taken for names are counts.
write("csv_nameless_rows.csv", "gene0,gene1,gene2\n1,0,3\n0,2,0\n1,5,0\n")
for cells in ("rows", "columns"):
    case("csv_nameless_rows.csv", ["line 1 ", '"1" is there more than once', "names its row"], cells=cells)
write("csv_nameless_columns.csv", "c0,0,2,0\nc1,1,0,0\n")
case(
    "csv_nameless_columns.csv", ["line 1 ", '"0" is there more than once', "names the columns"], cells="rows"
)
write("csv_numbered.csv", ",0,1,2\n0,4,0,1\n1,0,0,2\n")
case("csv_numbered.csv", {"matrix": [[4, 0, 1], [0, 0, 2]], "genes": ["0", "1", "2"]}, cells="rows")
WIDE = rng.poisson(0.2, (300, 40))
write(
    "csv_wide.csv",
    "\n".join(
        [",".join(["", *(f"c{at}" for at in range(300))])]
        + [",".join([f"g{g}", *map(str, WIDE[:, g])]) for g in range(40)]
    ),
    ".gz",
)
case("csv_wide.csv.gz", WIDE, cells="columns")


# Loom: genes by cells.
def loom(name, dense, row=(), column=(), **create):
    with h5py.File(OUT / name, "w") as file:
        file.create_dataset("matrix", data=np.asarray(dense).T, **create)
        file.create_group("row_attrs"), file.create_group("col_attrs"), file.create_group("layers")
        for key, values in row:
            file[f"row_attrs/{key}"] = values
        for key, values in column:
            file[f"col_attrs/{key}"] = values


def fixed(values):
    return np.array([value.encode() for value in values])


GENES = [("Gene", fixed(LABELS)), ("Accession", fixed([f"ENSG{at}" for at in range(6)]))]
CELLS_OF = [
    ("CellID", fixed([f"c{at}" for at in range(5)])),
    ("Age", np.arange(5)),
    ("tSNE", np.ones((5, 2))),
]
OBS = {
    "index": [f"c{at}" for at in range(5)],
    "index_name": "CellID",
    "columns": {"Age": {"type": "int64", "values": [0, 1, 2, 3, 4]}},
}
for name, create in (
    ("plain", {}),
    ("chunked", {"chunks": (4, 3), "compression": "gzip"}),
    ("float", {"chunks": (1, 5), "dtype": "f4"}),
):
    loom(f"loom_{name}.loom", SMALL, GENES, CELLS_OF, **create)
    case(f"loom_{name}.loom", {"matrix": SMALL.tolist(), "genes": LABELS, "obs": OBS}, same="loom")
with h5py.File(OUT / "loom_plain.loom", "a") as file:
    file["layers/spliced"] = (SMALL * 3).T
    file["layers/ratio"] = SMALL.T / 2
case("loom_plain.loom", {"matrix": (SMALL * 3).tolist(), "genes": LABELS}, matrix="layers/spliced")
case("loom_plain.loom", ["layers/ratio", "fractional", "(c", "(gene"], matrix="layers/ratio")
case(
    "loom_plain.loom",
    ["no layers/gone", "available: matrix, layers/ratio, layers/spliced"],
    matrix="layers/gone",
)
loom("loom_large.loom", WIDE, chunks=(7, 64), compression="gzip")
case("loom_large.loom", {"matrix": WIDE.tolist(), "genes": [str(at) for at in range(40)]})
BAD = SMALL.astype("i4").copy()
BAD[3, 1], BAD[2, 5] = -2, -1
loom("loom_negative.loom", BAD, GENES, CELLS_OF, chunks=(2, 2))
case("loom_negative.loom", ["cell 2 (c2), gene 5 (gene5): negative value (-1)"])
HALVES = SMALL.astype("f4")
HALVES[3, 1] = 0.5
loom("loom_fraction.loom", HALVES, GENES, CELLS_OF)
case(
    "loom_fraction.loom",
    [
        "cell 3 (c3), gene 1 (gene1): fractional value (0.5)",
        "1 of 30 values read here are fractional (3.333 %)",
    ],
)
loom("loom_lengths.loom", SMALL, GENES, [("CellID", fixed(["a", "b"]))])
case("loom_lengths.loom", ["col_attrs/CellID has 2 values", "the matrix has 5"])


# h5mu: modalities.
def h5mu(name, modalities):
    with h5py.File(OUT / name, "w") as file:
        file.attrs["encoding-type"] = "MuData"
        frame(file, "obs", names("cell", 5))
        frame(file, "var", names("any", 9))
        for key, dense in modalities.items():
            group = file.create_group(f"mod/{key}")
            frame(group, "obs", names(f"{key}_cell", dense.shape[0]))
            frame(group, "var", names(f"{key}_gene", dense.shape[1]))
            sparse(group, "X", dense.shape, *compress(dense))
            group["obsm/X_pca"] = np.ones((dense.shape[0], 2))


PROTEIN = rng.poisson(2, (5, 3))
h5mu("h5mu_two.h5mu", {"rna": SMALL, "prot": PROTEIN})
case("h5mu_two.h5mu", ["several modalities (prot, rna)", "--modality"])
case("h5mu_two.h5mu", ['no modality "atac"', "prot, rna"], modality="atac")
case(
    "h5mu_two.h5mu",
    {
        "matrix": SMALL.tolist(),
        "genes": names("rna_gene", 6),
        "obs": {"index": names("rna_cell", 5)},
        "recorded": {"modality": "rna"},
        "not_carried": ["mod/rna/obsm/X_pca"],
    },
    modality="rna",
)
case("h5mu_two.h5mu", {"matrix": PROTEIN.tolist(), "genes": names("prot_gene", 3)}, modality="prot")
h5mu("h5mu_one.h5mu", {"rna": SMALL})
case("h5mu_one.h5mu", SMALL)
with h5ad("h5mu_none.h5ad", 5, 6) as file:
    file["X"] = SMALL
case("h5mu_none.h5ad", ["an h5ad file has no modalities"], modality="rna")

# Files that are no inputs, named for what they are.
buffer = io.BytesIO()
with zipfile.ZipFile(buffer, "w") as archive:
    archive.writestr("a", "b")
write("other_zip.h5ad", buffer.getvalue())
case("other_zip.h5ad", ["a zip archive", "unpack it first"])
buffer = io.BytesIO()
with tarfile.open(fileobj=buffer, mode="w") as archive:
    archive.add(OUT / "csv_rows.csv", "x")
write("other_tar", buffer.getvalue(), ".gz")
case("other_tar.gz", ["an archive (tar.gz)"])
write("other_rds.rds", b"X\n\0\0\0\3\0\4\2\1", ".gz")
case("other_rds.rds.gz", ["an R object (rds)", "h5ad"])
write("other_h5.h5ad", (OUT / "h5mu_none.h5ad").read_bytes(), ".gz")
case("other_h5.h5ad.gz", ["a compressed HDF5 file"])
write("other_bzip.csv.bz2", b"BZh91AY&SY")
case("other_bzip.csv.bz2", ["compressed with bzip2"])
write("other_parquet.parquet", b"PAR1\x15\x04\x15")
case("other_parquet.parquet", ["a Parquet file"])
write("other_list.tsv", barcodes(4))
case("other_list.tsv", ["no table", "BC0-1"])
write("other_empty.csv", "")
case("other_empty.csv", ["an empty file"])
write("other_json.json", '{"a": [1, 2]}\n')
case("other_json.json", ["text that is no table"])
write("other_utf16.csv", "a,b\n1,2\n".encode("utf-16"))
case("other_utf16.csv", ["text in UTF-16"])
(OUT / "other_folder/inner").mkdir(parents=True)
case("other_folder", ["a folder of another kind (inner)"])
write("other_tiles/tiles/tile_000000.dct", b"x")
case("other_tiles", ["a dataset that was never finished"])
with h5py.File(OUT / "d1_molecules_v3.h5", "w") as file:
    for key in ("barcode_idx", "count", "feature_idx", "gem_group", "umi"):
        file[key] = np.arange(3)
    file["barcodes"] = fixed(["a"])
    file["features/id"] = fixed(["g"])
case("d1_molecules_v3.h5", ["molecule_info.h5", "filtered_feature_bc_matrix.h5"])
with h5py.File(OUT / "other_seurat.h5", "w") as file:
    file["assays/RNA/counts/data"], file["meta.data/x"] = np.arange(3), np.arange(3)
case("other_seurat.h5", ["an h5Seurat file"])


# Options that choose among what an input does not have.
case("mtx_v3", ["names no genomes", '"hg19" cannot be chosen'], genome="hg19")
case("loom_plain.loom", ["--genome is for 10x files and folders"], genome="hg19")
case("h5mu_none.h5ad", ["--feature-types is for 10x files and folders"], feature_types=["Peaks"])
case("csv_rows.csv", ["--feature-types is for 10x files and folders"], feature_types=["Peaks"], cells="rows")
