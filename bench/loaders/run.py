"""Compares loaders of minibatches on the same cells: celltile, annbatch, AnnData backed mode, scDataset, cellstream.

    python bench/loaders/run.py --folder DATA --out bench/loaders/results/simulated

Needs a Python >= 3.12 with celltile; the other packages are compared as far as they can be imported. The cells are simulated
(`--cells 40000`, 2,000 nonzeros each), or those of files that `celltile convert` takes (`--input a.h5 b.h5`), all of them as
often as it takes to have that many. Each figure is measured in a process of its own, after the files were read once; a
step that was done is not done again, so that the comparison can be made in pieces (`--only celltile annbatch`, `--runs
chunks`): each figure says on which machine and with which packages it was measured. Writes OUT.json, OUT.md and OUT.svg.
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
    ("celltile", "celltile-training", "chunks, preset training", SIZES),
    ("celltile", "celltile-1", "cells", SIZES),
    ("celltile", "celltile-1", "gather", SIZES),
    ("celltile", "celltile-1-training", "cells, preset training", SIZES),
    ("celltile", "celltile-1-training", "gather, preset training", SIZES),
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
        "celltile-training": folder / "cells-training.ct",
        "celltile-1": folder / "cells-1.ct",
        "celltile-1-training": folder / "cells-1-training.ct",
        "annbatch": folder / "cells.zarr",
        "cellstream": folder / "cells.csad",
    }
    folder.mkdir(parents=True, exist_ok=True)
    # What making them was like stays with them.
    kept = folder / "stores.json"
    record = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {"stores": {}}
    for name, path in paths.items():
        if path.exists() or (args.only and name.split("-")[0] not in {*args.only, "h5ad"}):
            continue
        print(f"making {path.name}", flush=True)
        inputs = ["--input", *args.input] if args.input else []
        made = worker("make", name, paths["h5ad"], path, "--cells", args.cells, *inputs)
        if "error" in made:
            print(f"  {made['error']}")
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True) if path.is_file() else None
            continue
        record["source"] = made.pop("source", record.get("source"))
        record["stores"][name] = {**made, "bytes": size(path), "machine": machine()}
        kept.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    results["source"] = record["source"]
    results["stores"] = {
        name: {**record["stores"][name], "machine": number_of(record["stores"][name]["machine"], results)}
        for name in paths
        if name in record["stores"]
    }
    return paths


def number_of(machine: dict, results: dict) -> int:
    """Which of the machines that figures were measured on it is."""
    if machine not in results["machines"]:
        results["machines"].append(machine)
    return results["machines"].index(machine)


def measure(tool: str, path: Path, mode: str, batch: int, args: argparse.Namespace) -> dict[str, object]:
    """One figure."""
    options = {
        "--batch": batch,
        "--seconds": args.seconds,
        "--threads": args.threads,
        "--label": args.label,
        "--buffer": BUFFER,
    }
    return worker("run", tool, path, mode, *(part for option in options.items() for part in option))


def table(results: dict) -> str:
    """The figures as Markdown."""
    n = results["cells"]
    lines = [
        f"{n:,} cells of {results['genes']:,} genes, {results['nonzeros'] / n:,.0f} nonzeros each: "
        f"{results['source']}. Files in the page cache, {results['threads']} threads. Entropy is that of the "
        f"column {results['label']} in a batch, as a share of that in batches drawn uniformly.",
        "",
    ]
    for number, here in enumerate(results["machines"]):
        packages = ", ".join(f"{name} {found}" for name, found in here["packages"].items() if found)
        lines += [
            f"Machine {number}: {here['processor']}, {here['cores']} cores, {here['memory_bytes'] / 2**30:.0f} GiB, "
            f"{here['system']}; Python {here['python']}, {packages}.",
            "",
        ]
    lines += [
        "| tool | mode | batch | cells/s | of annbatch | first batch, s | peak memory, MB | entropy | machine |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    base = {
        r["batch"]: r["cells_per_second"]
        for r in results["runs"]
        if r["tool"] == "annbatch" and "error" not in r
    }
    for run in results["runs"]:
        head = f"| {run['tool']} | {run['mode']} | {run['batch']:,} |"
        if "error" in run:
            lines.append(f"{head} {run['error'][:80]} | | | | | {run['machine']} |")
            continue
        ratio = f"{run['cells_per_second'] / base[run['batch']]:.2f}" if run["batch"] in base else ""
        entropy = "" if run.get("entropy") is None else f"{run['entropy']:.3f}"
        lines.append(
            f"{head} {run['cells_per_second']:,.0f} | {ratio} | {run['first_batch_seconds']:.2f} "
            f"| {run['peak_bytes'] / 1e6:,.0f} | {entropy} | {run['machine']} |"
        )
    lines += [
        "",
        "| store | bytes a cell | of annbatch | made in, s | peak memory, MB | machine |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    annbatch = results["stores"].get("annbatch", {}).get("bytes")
    for name, store in results["stores"].items():
        ratio = f"{store['bytes'] / annbatch:.3f}" if annbatch else ""
        lines.append(
            f"| {NAMES.get(name, name)} | {store['bytes'] / n:,.0f} | {ratio} | {store['seconds']:.1f} "
            f"| {store['peak_bytes'] / 1e6:,.0f} | {store['machine']} |"
        )
    return "\n".join(lines) + "\n"


SHADES = {"celltile": ("#9cc4e0", "#4f94c4", "#1b6ca8"), "": ("#d5dae0", "#b3bcc6", "#8793a0")}


def plot(results: dict, path: Path) -> None:
    """Cells a second by tool, mode and batch size, and bytes a cell by store, as bars in SVG: no package is needed."""
    rows: dict[tuple[str, str], dict[int, float]] = {}
    for run in results["runs"]:
        if "error" not in run:
            rows.setdefault((run["tool"], run["mode"]), {})[run["batch"]] = run["cells_per_second"]
    ordered = sorted(rows.items(), key=lambda row: -max(row[1].values()))
    most = max((max(speeds.values()) for speeds in rows.values()), default=1)
    parts: list[str] = []
    y = 34

    def text(x: float, y: float, words: str, anchor: str = "start", size: int = 12) -> None:
        parts.append(f'<text x="{x:.0f}" y="{y}" text-anchor="{anchor}" font-size="{size}">{words}</text>')

    def bar(y: int, height: int, share: float, colour: str, words: str) -> None:
        width = 440 * share
        parts.append(f'<rect x="238" y="{y}" width="{width:.1f}" height="{height}" fill="{colour}"/>')
        text(242 + width, y + height - 1, words, size=min(12, height + 1))

    sizes = ", ".join(f"{size:,}" for size in SIZES)
    text(16, 20, f"Cells a second in batches of {sizes} (light to dark)", size=14)
    for (tool, mode), speeds in ordered:
        text(230, y + 6 * len(speeds) + 4, f"{tool}, {mode}", "end")
        for batch, speed in sorted(speeds.items()):
            shade = SHADES["celltile" if tool == "celltile" else ""][SIZES.index(batch)]
            bar(y, 11, speed / most, shade, f"{speed:,.0f}")
            y += 12
        y += 6
    y += 24
    text(16, y - 6, "Bytes a cell", size=14)
    bytes_most = max((store["bytes"] for store in results["stores"].values()), default=1)
    for name, store in results["stores"].items():
        colour = SHADES["celltile" if name.startswith("celltile") else ""][2]
        text(230, y + 13, NAMES.get(name, name), "end")
        bar(y + 2, 14, store["bytes"] / bytes_most, colour, f"{store['bytes'] / results['cells']:,.0f}")
        y += 20
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{y + 10}" font-family="sans-serif">'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n',
        encoding="utf-8",
    )


NAMES = {
    "celltile-training": "celltile, preset training",
    "celltile-1": "celltile, one cell a tile chunk",
    "celltile-1-training": "the same, preset training",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="where stores are made, and kept")
    parser.add_argument("--out", type=Path, required=True, help="results, without the ending")
    parser.add_argument("--cells", type=int, default=40_000, help="cells to simulate")
    parser.add_argument("--input", type=Path, nargs="+", help="files of cells, instead of simulated ones")
    parser.add_argument("--label", default="donor", help="the column of obs whose entropy is taken")
    parser.add_argument("--seconds", type=float, default=6, help="how long each figure is measured")
    parser.add_argument("--only", nargs="*", help="these tools only; results of others are kept")
    parser.add_argument("--batches", type=int, nargs="*", default=SIZES, help="these batch sizes only")
    parser.add_argument("--runs", nargs="*", help="these modes only")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--make", action="store_true", help="make stores, and measure nothing")
    args = parser.parse_args()
    kept = args.out.with_suffix(".json")
    results = {"stores": {}, "runs": [], "machines": []}
    if kept.exists():
        results = json.loads(kept.read_text(encoding="utf-8"))
    results.update(threads=args.threads, label=args.label)
    paths = stores(args.folder, args, results)
    if args.make:
        return
    results.update(worker("facts", paths["celltile"]))
    results.update(worker("labels", paths["h5ad"], args.label))
    # What is compared is measured one after the other: machines have moods.
    for batch in args.batches:
        for tool, store, mode, sizes in RUNS:
            wanted = (not args.only or tool.split()[0] in args.only) and (not args.runs or mode in args.runs)
            if batch not in sizes or not wanted or not paths[store].exists():
                continue
            warm(paths[store])
            run = {
                "tool": tool,
                "store": store,
                "mode": mode,
                "batch": batch,
                "machine": number_of(machine(), results),
            }
            found = measure(tool, paths[store], mode, batch, args)
            print(run, found, flush=True)
            same = ("tool", "store", "mode", "batch")
            results["runs"] = [r for r in results["runs"] if any(r[k] != run[k] for k in same)]
            results["runs"].append({**run, **found})
    # Those that no figure is of any more.
    used = sorted({found["machine"] for found in [*results["runs"], *results["stores"].values()]})
    for found in [*results["runs"], *results["stores"].values()]:
        found["machine"] = used.index(found["machine"])
    results["machines"] = [results["machines"][number] for number in used]
    order = {(t, s, m): at for at, (t, s, m, _) in enumerate(RUNS)}
    results["runs"].sort(key=lambda r: (order.get((r["tool"], r["store"], r["mode"]), 99), r["batch"]))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    args.out.with_suffix(".md").write_text(table(results), encoding="utf-8")
    plot(results, args.out.with_suffix(".svg"))
    print(table(results))


if __name__ == "__main__":
    main()
