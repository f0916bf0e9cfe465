"""Simulates cells, converts, verifies, inspects, exports, and checks that what came back is what went in."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from compare_h5ad import difference
from measure import Celltile, Run, print_table, size


def main() -> None:
    """Runs the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--celltile", type=Path, required=True, help="the built command")
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--keep", type=Path, help="a new folder for the files; otherwise they are removed")
    args = parser.parse_args()

    celltile = Celltile(args.celltile)
    folder = args.keep or Path(tempfile.mkdtemp(prefix="celltile-demo-"))
    folder.mkdir(exist_ok=True)
    source, dataset, back = folder / "cells.h5ad", folder / "cells", folder / "back.h5ad"
    steps: list[tuple[str, Run, int | None]] = []

    def step(name: str, *words: object, makes: Path | None = None) -> Run:
        print(f"$ celltile {' '.join(map(str, words))}", flush=True)
        run = celltile(*words)
        print(run.out, flush=True)
        steps.append((name, run, size(makes) if makes else None))
        return run

    try:
        step("simulate", "simulate", "-o", source, "--cells", args.cells, makes=source)
        step("convert", "convert", source, "-o", dataset, makes=dataset)
        step("verify", "verify", dataset, "--strict")
        step("info", "info", dataset)
        step("rows", "rows", dataset, "10:15")
        step("export", "export", dataset, "-o", back, makes=back)
        print("comparing the two h5ad files with anndata", flush=True)
        if found := difference(source, back):
            sys.exit(found)
        print("equal: counts, obs and var\n", flush=True)
    finally:
        if not args.keep:
            shutil.rmtree(folder)

    rows = [("step", "seconds", "cells/s", "peak MiB", "made MB")]
    for name, run, made in steps:
        bytes_made = f"{made / 1e6:.1f}" if made is not None else ""
        rate = "" if name in ("info", "rows") else f"{args.cells / run.seconds:,.0f}"
        rows.append((name, f"{run.seconds:.2f}", rate, f"{run.peak / 2**20:,.0f}", bytes_made))
    print_table(rows)


if __name__ == "__main__":
    main()
