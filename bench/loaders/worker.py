"""One step of the comparison, in a process of its own: makes a store, or measures a loader. Prints JSON."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

warnings.filterwarnings("ignore")


def command(*args: object) -> None:
    subprocess.run(
        [sys.executable, "-m", "celltile", "--progress", "none", *map(str, args)], check=True, stdout=2
    )


def peak() -> int:
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return max(own, children) * 1024


# Stores


def simulate(path: Path, cells: int) -> str:
    command("simulate", "-o", path, "--cells", cells)
    return "simulated"


def gather(inputs: list[Path], path: Path, cells: int) -> str:
    """All cells of some files as one h5ad file, each file as often as it takes to have so many."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        between = Path(folder) / "once.ct"
        command("convert", *inputs, "-o", between, "--preset", "fast")
        once = facts(between)["cells"]
        times = -(-cells // once)
        if times > 1:
            files = []
            for copy in range(times):
                for file in inputs:
                    files.append(Path(folder) / f"{copy}-{file.name}")
                    files[-1].symlink_to(file.resolve())
            between = Path(folder) / "cells.ct"
            command("convert", *files, "-o", between, "--preset", "fast", "--obs-names-prefix", "{source}-")
        command("export", between, "-o", path)
    names = ", ".join(file.name for file in inputs)
    return f"the {once:,} real cells of {names}, {'once' if times == 1 else f'each {times} times'}"


def make(name: str, h5ad: Path, path: Path, cells: int, inputs: list[Path]) -> dict[str, Any]:
    if name == "h5ad":
        start = time.perf_counter()
        source = gather(inputs, path, cells) if inputs else simulate(path, cells)
        return {"seconds": time.perf_counter() - start, "peak_bytes": peak(), "source": source}
    if name.startswith("celltile"):
        start = time.perf_counter()
        how = ["--chunk-cells", 1] if "-1" in name else []
        if name.endswith("training"):
            how += ["--preset", "training"]
        command("convert", h5ad, "-o", path, *how)
        return {"seconds": time.perf_counter() - start, "peak_bytes": peak()}
    import anndata as ad

    start = time.perf_counter()
    adata = ad.read_h5ad(h5ad)
    adata.X = adata.X.astype(np.float32)
    if name == "annbatch":
        import zarr
        from annbatch import write_sharded

        zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
        adata.uns.clear()
        write_sharded(zarr.open_group(path, mode="w", zarr_format=3), adata)
    elif name == "cellstream":
        import cellstream

        cellstream.write_sharded(adata, path, layout="cell", n_workers=2)
    return {"seconds": time.perf_counter() - start, "peak_bytes": peak()}


def facts(path: Path) -> dict[str, Any]:
    import celltile

    ds = celltile.open(path)
    return {"cells": ds.n_cells, "genes": ds.n_genes, "nonzeros": ds.nnz}


# Loaders: each yields the cells of a batch, once its matrix (CSR, float32) is there, for ever.


def random_cells(n: int, batch: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    while True:
        order = rng.permutation(n)
        for start in range(0, n - batch + 1, batch):
            yield order[start : start + batch]


def of_celltile(path: Path, mode: str, batch: int, threads: int, buffer: int) -> Iterator[np.ndarray]:
    import celltile

    ds = celltile.open(path, threads=threads)
    if mode.startswith("gather"):
        for cells in random_cells(ds.n_cells, batch):
            yield check(ds.csr(cells, dtype="float32"), cells)
    options: dict[str, Any] = {"threads": threads, "buffer": max(buffer, batch), "dtype": "float32"}
    if "2,000 genes" in mode:
        options["genes"] = np.arange(2000)
    if "buffer" in mode:
        options["buffer"] = 4096
    shuffle: Any = False if mode == "in order" else mode.partition(",")[0]
    loader = ds.loader(batch, shuffle, drop_last=ds.n_cells >= batch, **options)
    while True:
        for found in loader:
            yield check(found.X, found.cells)


def of_annbatch(path: Path, mode: str, batch: int, threads: int, buffer: int) -> Iterator[np.ndarray]:
    import anndata as ad
    import zarr
    from annbatch import Loader

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "threading.max_workers": threads})
    group = zarr.open_group(path, mode="r")
    matrix = ad.io.sparse_dataset(group["X"])
    chunk = 512
    # As many chunks as fill the buffer, in whole batches.
    loader = Loader(
        batch_size=batch,
        chunk_size=chunk,
        preload_nchunks=max(buffer, batch) // chunk,
        shuffle=True,
        return_index=True,
        drop_last=True,
        preload_to_gpu=False,
        rng=np.random.default_rng(0),
    )
    loader = loader.add_adata(ad.AnnData(X=matrix)) if hasattr(loader, "add_adata") else loader
    while True:
        for found in loader:
            yield check(found["X"], np.asarray(found["index"]))


def of_cellstream(path: Path, mode: str, batch: int, threads: int, buffer: int) -> Iterator[np.ndarray]:
    import cellstream

    store = cellstream.open(path)
    for cells in random_cells(store.shape[0], batch):
        yield check(store.gather_rows(cells, n_threads=threads, out_dtype=np.float32), cells)


def of_backed(path: Path, mode: str, batch: int, threads: int, buffer: int) -> Iterator[np.ndarray]:
    import anndata as ad

    adata = ad.read_h5ad(path, backed="r")
    for cells in random_cells(adata.n_obs, batch):
        # In ascending order, which is what backed mode reads fastest.
        ascending = np.sort(cells)
        yield check(adata[ascending].X.astype(np.float32), ascending)


def of_scdataset(path: Path, mode: str, batch: int, threads: int, buffer: int) -> Iterator[np.ndarray]:
    import anndata as ad
    from scdataset import BlockShuffling, scDataset

    adata = ad.read_h5ad(path, backed="r")

    def fetch(data: Any, cells: Any) -> Any:
        cells = np.asarray(cells)
        order = np.argsort(cells)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return data[cells[order]].X[back].astype(np.float32), cells

    def cut(fetched: Any, rows: Any) -> Any:
        return fetched[0][rows], fetched[1][rows]

    dataset = scDataset(
        adata,
        BlockShuffling(block_size=64),
        batch_size=batch,
        fetch_factor=max(1, buffer // batch),
        drop_last=True,
        fetch_callback=fetch,
        batch_callback=cut,
    )
    while True:
        for X, cells in dataset:
            yield check(X, cells)


LOADERS = {
    "celltile": of_celltile,
    "annbatch": of_annbatch,
    "cellstream": of_cellstream,
    "AnnData backed": of_backed,
    "scDataset": of_scdataset,
}

seen_nonzeros = 0


def check(matrix: Any, cells: Any) -> np.ndarray:
    """A batch is a matrix of float32 with a row a cell."""
    global seen_nonzeros  # noqa: PLW0603
    assert matrix.shape[0] == len(cells) and matrix.data.dtype == np.float32, (matrix.shape, matrix.dtype)
    seen_nonzeros += matrix.nnz
    return np.asarray(cells)


def entropy(batches: list[np.ndarray], labels: np.ndarray) -> float | None:
    """Mean entropy of the labels in batches over that in batches drawn uniformly."""
    rng = np.random.default_rng(1)

    def of(cells: np.ndarray) -> float:
        counts = np.bincount(labels[cells])
        shares = counts[counts > 0] / len(cells)
        return float(-(shares * np.log(shares)).sum())

    if not batches or len(np.unique(labels)) < 2:
        return None
    found = np.mean([of(cells) for cells in batches])
    uniform = np.mean([of(rng.choice(len(labels), len(cells), replace=False)) for cells in batches])
    return float(found / uniform)


def run(tool: str, path: Path, mode: str, args: argparse.Namespace) -> dict[str, Any]:
    start = time.perf_counter()
    loader = LOADERS[tool](path, mode, args.batch, args.threads, args.buffer)
    batches = [next(loader)]
    first = time.perf_counter() - start
    # What is done once is done: a second of running in.
    until = time.perf_counter() + 1.0
    while time.perf_counter() < until:
        next(loader)
    nonzeros, n_cells = seen_nonzeros, 0
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < args.seconds:
        cells = next(loader)
        n_cells += len(cells)
        if len(batches) < 200:
            batches.append(cells)
    nonzeros = seen_nonzeros - nonzeros
    labels = (
        np.load(path.parent / f"{args.label}.npy") if (path.parent / f"{args.label}.npy").exists() else None
    )
    return {
        "cells_per_second": n_cells / elapsed,
        "nonzeros_per_cell": nonzeros / max(1, n_cells),
        "first_batch_seconds": first,
        "peak_bytes": peak(),
        "entropy": None if labels is None else entropy(batches, labels),
    }


def labels(h5ad: Path, label: str) -> dict[str, Any]:
    """Codes of a column of obs, for those who read only counts; neighbours in tens of parts if there is none."""
    import anndata as ad

    obs = ad.read_h5ad(h5ad, backed="r").obs
    codes = (
        obs[label].astype("category").cat.codes.to_numpy()
        if label in obs
        else np.arange(len(obs)) * 10 // len(obs)
    )
    np.save(h5ad.parent / f"{label}.npy", codes.astype(np.int64))
    return {"label": label if label in obs else "position in the file, in tenths"}


def main() -> None:
    parser = argparse.ArgumentParser()
    steps = parser.add_subparsers(dest="step", required=True)
    step = steps.add_parser("make")
    step.add_argument("name")
    step.add_argument("h5ad", type=Path)
    step.add_argument("path", type=Path)
    step.add_argument("--cells", type=int)
    step.add_argument("--input", type=Path, nargs="+", default=[])
    step = steps.add_parser("facts")
    step.add_argument("path", type=Path)
    step = steps.add_parser("labels")
    step.add_argument("h5ad", type=Path)
    step.add_argument("label")
    step = steps.add_parser("run")
    step.add_argument("tool")
    step.add_argument("path", type=Path)
    step.add_argument("mode")
    step.add_argument("--batch", type=int)
    step.add_argument("--seconds", type=float)
    step.add_argument("--threads", type=int)
    step.add_argument("--buffer", type=int)
    step.add_argument("--label")
    args = parser.parse_args()
    if args.step == "make":
        out = make(args.name, args.h5ad, args.path, args.cells, args.input)
    elif args.step == "facts":
        out = facts(args.path)
    elif args.step == "labels":
        out = labels(args.h5ad, args.label)
    else:
        out = run(args.tool, args.path, args.mode, args)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
