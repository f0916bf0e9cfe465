"""Makes the pictures of docs/gallery.md from simulated cells: `make gallery`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np

import celltile

mpl.use("svg")
# The same picture for the same data: no dates, no random names.
mpl.rcParams["svg.hashsalt"] = "celltile"
mpl.rcParams["svg.fonttype"] = "none"
mpl.rcParams["font.size"] = 9

import matplotlib.pyplot as plt  # noqa: E402

BLUE, PALE, ORANGE, GREY = "#2c6e9b", "#7fb0d0", "#d9822b", "#bbbbbb"
MIDDLE = {"ha": "center", "va": "center", "color": "white", "fontsize": 8}


def save(figure: plt.Figure, path: Path) -> None:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    plt.close(figure)


def gaps(ds: celltile.Dataset, path: Path) -> None:
    """Gaps between a cell's genes, in the source's order and in the dataset's."""
    order = ds.gene_order
    assert order is not None
    stored = ds.csr(slice(0, 1000))
    source = ds.csr(slice(0, 1000), np.argsort(order))
    figure, axes = plt.subplots(figsize=(5.2, 2.6))
    for matrix, color, label in (
        (source, GREY, "genes as in the source"),
        (stored, BLUE, "genes by falling totals"),
    ):
        matrix.sort_indices()
        parts = zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
        steps = np.concatenate([np.diff(matrix.indices[a:b], prepend=0) for a, b in parts])
        counts = np.bincount(np.minimum(steps, 2000), minlength=2001)
        axes.plot(np.arange(1, 2000), np.cumsum(counts)[1:-1] / counts.sum(), color=color, label=label)
    axes.set(
        xscale="log",
        xlabel="gap to the next gene of the cell, at most",
        ylabel="share of nonzeros",
        ylim=(0, 1),
    )
    axes.legend(frameon=False, loc="lower right")
    save(figure, path)


def matrix(ds: celltile.Dataset, path: Path) -> None:
    """Where the nonzeros are, and where the tiles end."""
    cells = ds.csr()
    height, width = 120, 240
    rows, columns = cells.nonzero()
    image = np.histogram2d(
        rows, columns, bins=(height, width), range=((0, cells.shape[0]), (0, cells.shape[1]))
    )[0]
    figure, axes = plt.subplots(figsize=(5.2, 2.6))
    extent = (0, cells.shape[1], cells.shape[0], 0)
    axes.imshow(
        image, aspect="auto", cmap="Blues", extent=extent, interpolation="nearest", vmax=image.max() * 0.7
    )
    for end in np.cumsum(ds._native.tile_cells)[:-1]:
        axes.axhline(end, color=ORANGE, linewidth=1)
    axes.set(xlabel="genes, by falling totals", ylabel="cells")
    axes.text(cells.shape[1], ds._native.tile_cells[0], " a tile ends", color=ORANGE, va="center", fontsize=8)
    save(figure, path)


def edges(ds: celltile.Dataset, path: Path) -> None:
    """The grid chunks of the nonzeros as a Zarr array: of unequal length, and none crosses a tile's end."""
    store = ds.zarr_store(cut="tile")
    metadata = json.loads(store._view.get("X/data/zarr.json") or b"{}")
    grid = celltile.Grid.from_json(json.dumps(metadata["chunk_grid"]), metadata["shape"])
    lengths = grid.edges(0)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    figure, axes = plt.subplots(figsize=(5.2, 1.1))
    for at, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        axes.barh(0, length, left=start, color=BLUE if at % 2 else PALE, height=1)
        if length > sum(lengths) / 10:
            axes.text(start + length / 2, 0, f"{length:,}", **MIDDLE)
    axes.set(yticks=[], xlabel="nonzeros of X/data, one grid chunk a tile", xlim=(0, sum(lengths)))
    axes.ticklabel_format(style="plain", axis="x")
    axes.spines["left"].set_visible(False)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path, help="folder for the pictures")
    target = parser.parse_args().target
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "cells.h5ad"
        line = ["simulate", "-o", str(source), "--cells", "5000", "--genes", "20000", "--nonzeros", "1500"]
        subprocess.run([sys.executable, "-m", "celltile", "--progress", "none", *line], check=True)
        celltile.convert(source, Path(folder) / "d", tile_size=1200, preset="fast", progress=False)
        ds = celltile.open(Path(folder) / "d", cache_dir=Path(folder) / "cache")
        gaps(ds, target / "gaps.svg")
        matrix(ds, target / "matrix.svg")
        edges(ds, target / "edges.svg")


if __name__ == "__main__":
    main()
