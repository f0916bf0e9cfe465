"""celltile against the reader that was written from the specification's text alone."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_decoder as reference

import celltile

CASES = Path(__file__).parents[2] / "crates/celltile-tile/tests/cases"
INDEX = json.loads((CASES / "index.json").read_text())


def as_dataset(folder: Path, tile: bytes, facts: dict[str, int]) -> Path:
    """A dataset of one tile, with the least that a manifest must say."""
    (folder / "tiles").mkdir(parents=True)
    (folder / "tiles/tile_000000.dct").write_bytes(tile)
    cells = facts["n_cells"]
    manifest: dict[str, Any] = {
        "format": "deltacells-dataset",
        "version": 2,
        "n_cells": cells,
        "n_genes": facts["n_genes"],
        "tile_size": max(cells, 1),
        "tile_cells": [cells] if cells else [],
        "tile_nnz": [facts["nnz"]] if cells else [],
        "tile_bytes": [len(tile)] if cells else [],
        "n_chunks": 1,
        "zstd_level": 3,
        "has_gene_order": False,
        "has_var_names": False,
        "has_var_table": False,
        "has_obs": False,
        "metadata": {},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.mark.parametrize("case", INDEX["good"], ids=lambda case: case["file"])
def test_good_case(case: dict[str, str], tmp_path: Path) -> None:
    data = (CASES / case["file"]).read_bytes()
    expected = np.load(CASES / case["expect"])
    tile = reference.decode_tile(data)
    for name, found in (("indptr", tile.indptr), ("indices", tile.genes), ("counts", tile.counts)):
        np.testing.assert_array_equal(np.array(found, dtype=np.int64), expected[name])
    facts = {"n_cells": len(tile.indptr) - 1, "n_genes": tile.n_genes, "nnz": tile.indptr[-1]}
    dataset = celltile.open(as_dataset(tmp_path / "d", data, facts))
    indptr, indices, counts = dataset.arrays()
    np.testing.assert_array_equal(indptr, tile.indptr)
    np.testing.assert_array_equal(indices, tile.genes)
    np.testing.assert_array_equal(counts, tile.counts)


@pytest.mark.parametrize("case", INDEX["bad"], ids=lambda case: case["file"])
def test_bad_case(case: dict[str, str], tmp_path: Path) -> None:
    data = (CASES / case["file"]).read_bytes()
    good = reference.decode_tile((CASES / "plain.dct").read_bytes())
    facts = {"n_cells": len(good.indptr) - 1, "n_genes": good.n_genes, "nnz": good.indptr[-1]}
    if len(data) >= 64:
        cells, nnz, genes = struct.unpack_from("<QQI", data, 16)
        # What the header claims, where a manifest could claim it too.
        if cells < 1 << 20 and nnz < 1 << 30 and 1 <= genes <= 1 << 31:
            facts = {"n_cells": cells, "n_genes": genes, "nnz": nnz}
    if case["refused_by"] == "every decode":
        with pytest.raises(reference.FormatError):
            reference.decode_tile(data)
    root = as_dataset(tmp_path / "d", data, facts)
    try:
        dataset = celltile.open(root)
    except celltile.CorruptManifestError:
        # Such a size cannot be that of a tile of so many cells.
        assert case["file"] in {"bad_empty.dct", "bad_short_header.dct", "bad_n_genes_small.dct"}
        return
    with pytest.raises(celltile.VerificationError):
        dataset.verify(strict=True)
    if case["refused_by"] == "every decode":
        with pytest.raises(celltile.CorruptTileError) as caught:
            dataset.arrays()
        assert caught.value.tile == 0


def test_written_dataset(dataset: Path) -> None:
    ours, theirs = celltile.open(dataset), reference.Dataset.open(dataset)
    for found, expected in zip(ours.arrays(), theirs.csr(), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert ours.var_names.tolist() == theirs.var_names()
    order = ours.gene_order
    assert order is not None
    assert order.tolist() == theirs.gene_order()
    obs = theirs.obs()
    assert obs is not None
    frame = ours.obs()
    for name in ours.obs_columns:
        found = [None if gone else x for x, gone in zip(frame[name], frame[name].isna(), strict=True)]
        assert found == obs[name], name


@pytest.mark.parametrize("options", [{"chunk_cells": 1}, {"preset": "fast"}, {"level": 19, "chunks": 8}])
def test_written_with_options(h5ad: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    celltile.convert(h5ad, tmp_path / "d", tile_size=700, progress=False, **options)
    ours, theirs = celltile.open(tmp_path / "d"), reference.Dataset.open(tmp_path / "d")
    for found, expected in zip(ours.arrays(), theirs.csr(), strict=True):
        np.testing.assert_array_equal(found, expected)
