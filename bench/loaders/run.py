"""Compares loaders of minibatches on the same cells: celltile, annbatch, AnnData backed mode, scDataset, cellstream.

    python bench/loaders/run.py --folder DATA --out bench/loaders/results/simulated

Needs a Python >= 3.12 with celltile; the other packages are compared as far as they can be imported. The cells are simulated
(`--cells 40000`, 2,000 nonzeros each), or those of a file that `celltile convert` takes (`--input cells.h5`). Each
figure is measured in a process of its own, after the files were read once; a step that was done is not done again, so
that the comparison can be made in pieces (`--only celltile annbatch`). Writes OUT.json, OUT.md and OUT.svg.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUFFER = 16_384
SIZES = (64, 1024, 4096)

# What is measured: tool, store, mode, batch sizes.
RUNS = [
    ("celltile", "celltile", "chunks", SIZES),
    ("celltile", "celltile", "tiles", (4096,)),
    ("celltile", "celltile", "in order", (4096,)),
    ("celltile", "celltile", "chunks, 2,000 genes", (4096,)),
    ("celltile", "celltile", "chunks, buffer 4,096", (4096,)),
    ("celltile", "celltile-1", "cells", SIZES),
    ("celltile", "celltile-1", "gather", SIZES),
    ("cellstream", "cellstream", "gather", SIZES),
    ("annbatch", "annbatch", "chunks", SIZES),
    ("scDataset", "h5ad", "blocks", (1024, 4096)),
    ("AnnData backed", "h5ad", "random cells", (4096,)),
]


def machine() -> dict[str, object]:
    """What this was measured on."""
    model = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    names = [
        "celltile",
        "annbatch",
        "zarr",
        "zarrs",
        "anndata",
        "scDataset",
        "cellstream",
        "numpy",
        "scipy",
        "h5py",
    ]
    versions = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": versions,
    }


def worker(*args: object, timeout: float = 600) -> dict[str, object]:
    """One measurement, in a process of its own."""
    command = [sys.executable, str(HERE / "worker.py"), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return {"error": reason[0]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def size(path: Path) -> int:
    """Bytes of a file or folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def warm(path: Path) -> None:
    """Reads a store once, so that it is in the page cache."""
    for file in [path] if path.is_file() else path.rglob("*"):
        if file.is_file():
            with file.open("rb") as stream:
                while stream.read(1 << 22):
                    pass


def stores(folder: Path, args: argparse.Namespace, results: dict) -> dict[str, Path]:
    """Makes what is not there yet: the cells in each tool's own form."""
    paths = {
        "h5ad": folder / "cells.h5ad",
        "celltile": folder / "cells.ct",
        "celltile-1": folder / "cells-1.ct",
        "annbatch": folder / "cells.zarr",
        "cellstream": folder / "cells.csad",
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in paths.items():
        if path.exists() or (args.only and name.split("-")[0] not in {*args.only, "h5ad"}):
            continue
        print(f"making {path.name}", flush=True)
        start = time.perf_counter()
        made = worker("make", name, paths["h5ad"], path, "--cells", args.cells, *source(args))
        if "error" in made:
            print(f"  {made['error']}")
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True) if path.is_file() else None
            continue
        seconds = made.get("seconds", time.perf_counter() - start)
        results["stores"][name] = {
            "seconds": seconds,
            "bytes": size(path),
            "peak_bytes": made.get("peak_bytes"),
        }
    return paths


def source(args: argparse.Namespace) -> list[object]:
    return ["--input", args.input] if args.input else []


def table(results: dict) -> str:
    """The figures as Markdown."""
    n = results["cells"]
    machine = results["machine"]
    lines = [
        f"{n:,} cells of {results['genes']:,} genes, {results['nonzeros'] / n:,.0f} nonzeros each "
        f"({results['source']}); {machine['processor']}, {machine['cores']} cores, files in the page cache. "
        "Entropy of the donors (or the column named) in a batch, as a share of that in batches drawn uniformly.",
        "",
        "| tool | mode | batch | cells/s | of annbatch | first batch, s | peak memory, MB | entropy |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    base = {
        r["batch"]: r["cells_per_second"]
        for r in results["runs"]
        if r["tool"] == "annbatch" and "error" not in r
    }
    for run in results["runs"]:
        head = f"| {run['tool']} | {run['mode']} | {run['batch']:,} |"
        if "error" in run:
            lines.append(f"{head} {run['error'][:80]} | | | | |")
            continue
        ratio = f"{run['cells_per_second'] / base[run['batch']]:.2f}" if run["batch"] in base else ""
        entropy = "" if run.get("entropy") is None else f"{run['entropy']:.3f}"
        lines.append(
            f"{head} {run['cells_per_second']:,.0f} | {ratio} | {run['first_batch_seconds']:.2f} "
            f"| {run['peak_bytes'] / 1e6:,.0f} | {entropy} |"
        )
    lines += ["", "| store | bytes a cell | of annbatch | made in, s |", "|---|--:|--:|--:|"]
    annbatch = results["stores"].get("annbatch", {}).get("bytes")
    for name, store in results["stores"].items():
        ratio = f"{store['bytes'] / annbatch:.3f}" if annbatch else ""
        lines.append(f"| {name} | {store['bytes'] / n:,.0f} | {ratio} | {store['seconds']:.1f} |")
    return "\n".join(lines) + "\n"


def plot(results: dict, path: Path) -> None:
    """The figures of the largest batches as bars, in SVG: no package is needed for that."""
    runs = [r for r in results["runs"] if r["batch"] == max(SIZES) and "error" not in r]
    runs.sort(key=lambda r: -r["cells_per_second"])
    most = max((r["cells_per_second"] for r in runs), default=1)
    parts = []
    for row, run in enumerate(runs):
        y = 40 + 26 * row
        width = 420 * run["cells_per_second"] / most
        colour = "#1b6ca8" if run["tool"] == "celltile" else "#9aa5b1"
        label = f"{run['tool']}, {run['mode']}"
        parts.append(f'<text x="250" y="{y + 13}" text-anchor="end">{label}</text>')
        parts.append(f'<rect x="258" y="{y}" width="{width:.1f}" height="18" fill="{colour}"/>')
        parts.append(f'<text x="{262 + width:.1f}" y="{y + 13}">{run["cells_per_second"]:,.0f}</text>')
    height = 50 + 26 * len(runs)
    title = f"Cells a second in batches of {max(SIZES):,}, {results['machine']['cores']} cores"
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{height}" font-family="sans-serif" '
        f'font-size="13"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="20" y="24" font-size="15">{title}</text>{"".join(parts)}</svg>\n',
        encoding="utf-8",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="where stores are made, and kept")
    parser.add_argument("--out", type=Path, required=True, help="results, without the ending")
    parser.add_argument("--cells", type=int, default=40_000, help="cells to simulate")
    parser.add_argument("--input", type=Path, help="a file of cells, instead of simulated ones")
    parser.add_argument("--label", default="donor", help="the column of obs whose entropy is taken")
    parser.add_argument("--seconds", type=float, default=6, help="how long each figure is measured")
    parser.add_argument("--only", nargs="*", help="these tools only; results of others are kept")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--make", action="store_true", help="make stores, and measure nothing")
    args = parser.parse_args()
    kept = args.out.with_suffix(".json")
    results = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {"stores": {}, "runs": []}
    results["machine"] = machine()
    results["source"] = args.input.name if args.input else "simulated"
    results["command"] = "python bench/loaders/run.py"
    paths = stores(args.folder, args, results)
    if args.make:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        return
    results.update(worker("facts", paths["celltile"]))
    worker("labels", paths["h5ad"], args.label)
    for tool, store, mode, sizes in RUNS:
        if (args.only and tool.split()[0] not in args.only) or not paths[store].exists():
            continue
        warm(paths[store])
        for batch in sizes:
            run = {"tool": tool, "store": store, "mode": mode, "batch": batch}
            found = worker(
                "run",
                tool,
                paths[store],
                mode,
                "--batch",
                batch,
                "--seconds",
                args.seconds,
                "--threads",
                args.threads,
                "--label",
                args.label,
                "--buffer",
                BUFFER,
            )
            print(run, found, flush=True)
            same = ("tool", "store", "mode", "batch")
            results["runs"] = [r for r in results["runs"] if any(r[k] != run[k] for k in same)]
            results["runs"].append({**run, **found})
    order = {(t, s, m): at for at, (t, s, m, _) in enumerate(RUNS)}
    results["runs"].sort(key=lambda r: (order.get((r["tool"], r["store"], r["mode"]), 99), r["batch"]))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    args.out.with_suffix(".md").write_text(table(results), encoding="utf-8")
    plot(results, args.out.with_suffix(".svg"))
    print(table(results))


if __name__ == "__main__":
    main()
