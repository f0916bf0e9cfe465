"""How fast many files become one dataset, and in how much memory.

    python bench/convert.py CELLTILE FOLDER [--files 20] [--cells 10000] [--threads 2] [--annbatch PYTHON]

simulates a file in FOLDER (it is used again if it is there), gives it as many names as there are to be files, and converts them: all in order and
shuffled, half of them shuffled, and the first as CSR, CSC and Matrix Market. Prints cells a second, time of processors, peak memory of the process, bytes a cell, and ratios
within the run. CSC needs anndata. `--before` names another build of celltile, whose conversion of one file is timed beside; `--annbatch` a Python with
annbatch, which shuffles the same files: taking 20 GB of cells at a time, as it does by itself, and 1 GB. With `--scipy` Matrix Market is read by SciPy too.
"""

import argparse
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

#: Pairs of which the first's speed is told as a part of the second's.
RATIOS = [("csc", "csr"), ("mtx", "csr"), ("mtx.gz", "csr"), ("csr", "before"), ("shuffled", "order")]


def run(command):
    start = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command}: {status}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20


def csc_of(path, target):
    """The same cells, listed by gene."""
    import anndata

    data = anndata.read_h5ad(path)
    data.X = data.X.tocsc()
    data.write_h5ad(target, compression="gzip", compression_opts=4)


def bytes_in(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class Bench:
    """Inputs in a folder, and how fast they were converted."""

    def __init__(self, options):
        self.options = options
        self.out = options.folder / "out"
        self.speeds = {}
        first = options.folder / f"cells{options.cells}.h5ad"
        if not first.exists():
            run([options.celltile, "simulate", "-o", first, "--cells", options.cells])
        self.parts = [
            options.folder / f"part{options.cells}_{number:03}.h5ad" for number in range(options.files)
        ]
        for part in self.parts:
            if not part.exists():
                os.link(first, part)

    def timed(self, key, what, files, target, command):
        shutil.rmtree(target, ignore_errors=True)
        seconds, busy, peak = run(command)
        cells = self.options.cells * files
        self.speeds[key] = cells / seconds
        print(
            f"{what:28} {cells:>9,} cells {seconds:7.2f} s {cells / seconds:>9,.0f} cells/s, "
            f"{busy:6.2f} s of processors, peak {peak:5.2f} GiB, {bytes_in(target) / cells:>7,.0f} bytes a cell",
            flush=True,
        )

    def convert(self, key, what, inputs, *more, celltile=None):
        arguments = ["--preset", "fast", "--threads", self.options.threads, "--progress", "none"]
        command = [celltile or self.options.celltile, "convert", *inputs, "-o", self.out, *arguments, *more]
        self.timed(key, what, len(inputs), self.out, command)

    def csc(self):
        csc = self.options.folder / f"csc{self.options.cells}.h5ad"
        if not csc.exists():
            # In a process of its own: what starts from a large one has its peak.
            process = multiprocessing.get_context("spawn").Process(target=csc_of, args=(self.parts[0], csc))
            process.start()
            process.join()
        self.convert("csc", "one file, CSC", [csc])

    def matrix_market(self):
        packed = self.options.folder / f"mtx{self.options.cells}"
        if not packed.exists():
            run([self.options.celltile, "convert", self.parts[0], "-o", self.out, "--overwrite"])
            run([self.options.celltile, "export", self.out, "-o", packed, "--format", "mtx"])
        plain = self.options.folder / f"mtx{self.options.cells}_plain"
        if not plain.exists():
            shutil.copytree(packed, plain)
            subprocess.run(["gunzip", *plain.glob("*.gz")], check=True)
        self.convert("mtx", "one folder, MTX", [plain])
        self.convert("mtx.gz", "one folder, MTX in gzip", [packed])
        if self.options.scipy:
            for what, path in [("MTX", plain / "matrix.mtx"), ("MTX in gzip", packed / "matrix.mtx.gz")]:
                code = "import sys, scipy.io; scipy.io.mmread(sys.argv[1]).T.tocsr()"
                seconds, busy, _ = run([sys.executable, "-c", code, path])
                print(f"SciPy reads {what} in {seconds:.2f} s, {busy:.2f} s of processors", flush=True)

    def annbatch(self):
        shuffle = Path(__file__).with_name("annbatch_shuffle.py")
        target = self.options.folder / "annbatch.zarr"
        for size in self.options.annbatch_sizes.split(","):
            what = f"annbatch, {size} at a time"
            command = [self.options.annbatch, "-W", "ignore", shuffle, target, size, *self.parts]
            self.timed(what, what, len(self.parts), target, command)
            if "shuffled" in self.speeds:
                print(f"celltile / {what}: {self.speeds['shuffled'] / self.speeds[what]:.2f}", flush=True)
        shutil.rmtree(target, ignore_errors=True)

    def all(self):
        parts = self.parts
        steps = {
            "order": lambda: self.convert("order", "in order", parts),
            "shuffled": lambda: self.convert("shuffled", "shuffled", parts, "--shuffle"),
            "half": lambda: self.convert(
                "half", "half of them, shuffled", parts[: max(1, len(parts) // 2)], "--shuffle"
            ),
            "csr": lambda: self.convert("csr", "one file, CSR", parts[:1]),
            "csc": self.csc,
            "mtx": self.matrix_market,
        }
        for name in self.options.only.split(","):
            if name in steps:
                steps[name]()
        if self.options.before:
            self.convert("before", "one file, before", parts[:1], celltile=self.options.before)
        if self.options.annbatch:
            self.annbatch()
        for one, other in RATIOS:
            if one in self.speeds and other in self.speeds:
                print(f"{one} / {other}: {self.speeds[one] / self.speeds[other]:.2f}")
        shutil.rmtree(self.out, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("celltile")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="order,shuffled,half,csr,csc,mtx")
    parser.add_argument("--before")
    parser.add_argument("--annbatch", metavar="PYTHON")
    parser.add_argument("--annbatch-sizes", default="20GB,1GB")
    parser.add_argument("--scipy", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    Bench(options).all()


if __name__ == "__main__":
    main()
