"""How fast many files become one dataset, and in how much memory.

    python bench/convert.py CELLTILE FOLDER [--files 20] [--cells 10000] [--threads 2]

simulates a file in FOLDER (it is used again if it is there), gives it as many names as there are to be files, and converts them: all in order and
shuffled, half of them shuffled, and the first as CSR and CSC. Prints cells a second, peak memory of the process, and ratios
within the run. CSC needs anndata. `--before` names another build of celltile, whose conversion of one file is timed beside.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path


def run(command):
    start = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command}: {status}")
    return time.perf_counter() - start, usage.ru_maxrss / 2**20


def csc_of(path, target):
    """The same cells, listed by gene."""
    import anndata

    data = anndata.read_h5ad(path)
    data.X = data.X.tocsc()
    data.write_h5ad(target, compression="gzip", compression_opts=4)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("celltile")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="order,shuffled,half,csr,csc")
    parser.add_argument("--before")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    parts = []
    first = options.folder / f"cells{options.cells}.h5ad"
    if not first.exists():
        run([options.celltile, "simulate", "-o", first, "--cells", options.cells])
    for number in range(options.files):
        part = options.folder / f"part{options.cells}_{number:03}.h5ad"
        if not part.exists():
            os.link(first, part)
        parts.append(part)
    out = options.folder / "out"

    def convert(what, inputs, *more, celltile=options.celltile):
        shutil.rmtree(out, ignore_errors=True)
        arguments = ["--preset", "fast", "--threads", options.threads, "--progress", "none"]
        seconds, peak = run([celltile, "convert", *inputs, "-o", out, *arguments, *more])
        cells = options.cells * len(inputs)
        speed = cells / seconds
        print(
            f"{what:24} {cells:>9,} cells {seconds:7.2f} s {speed:>9,.0f} cells/s, peak {peak:5.2f} GiB",
            flush=True,
        )
        return speed

    only = options.only.split(",")
    speeds = {}
    if "order" in only:
        speeds["order"] = convert("in order", parts)
    if "shuffled" in only:
        speeds["shuffled"] = convert("shuffled", parts, "--shuffle")
    if "half" in only:
        convert("half of them, shuffled", parts[: max(1, len(parts) // 2)], "--shuffle")
    if "csr" in only:
        speeds["csr"] = convert("one file, CSR", parts[:1])
        if options.before:
            before = convert("one file, before", parts[:1], celltile=options.before)
            print(f"now / before: {speeds['csr'] / before:.2f}")
    if "csc" in only:
        csc = options.folder / f"csc{options.cells}.h5ad"
        if not csc.exists():
            csc_of(parts[0], csc)
        speeds["csc"] = convert("one file, CSC", [csc])
    if "csr" in speeds and "csc" in speeds:
        print(f"CSC / CSR: {speeds['csc'] / speeds['csr']:.2f}")
    if "order" in speeds and "shuffled" in speeds:
        print(f"shuffled / in order: {speeds['shuffled'] / speeds['order']:.2f}")
    shutil.rmtree(out, ignore_errors=True)


if __name__ == "__main__":
    main()
