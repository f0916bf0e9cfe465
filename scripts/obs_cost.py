"""Measures what the cell table costs a conversion.

An h5ad file is stacked upon itself and converted with obs and without, in turns.

python scripts/obs_cost.py --celltile target/release/celltile --h5ad FILE.h5ad --cells 40000
"""

import argparse
import shutil
import tempfile
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp
from measure import Celltile, print_table, size


def stack(source: Path, target: Path, cells: int) -> int:
    """Writes the source's cells again and again, with names of their own; says how many there are then."""
    data = anndata.read_h5ad(source)
    times = -(-cells // data.n_obs)
    counts = sp.vstack([sp.csr_matrix(data.X)] * times, "csr")
    rows = np.tile(np.arange(data.n_obs), times)
    # Rows taken from one frame keep its dtypes and categories.
    obs = data.obs.iloc[rows].copy()
    obs.index = pd.Index([f"{name}-{i // data.n_obs}" for i, name in enumerate(obs.index)])
    anndata.AnnData(counts, obs=obs, var=data.var).write_h5ad(target)
    return len(obs)


def main() -> None:
    """Prints the times and the share of obs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--celltile", type=Path, default=Path("target/release/celltile"))
    parser.add_argument("--h5ad", type=Path, required=True)
    parser.add_argument("--cells", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--preset", default="balanced")
    parser.add_argument("--stacked", type=Path, help="where the stacked file is kept for another run")
    args = parser.parse_args()
    celltile = Celltile(args.celltile)
    with tempfile.TemporaryDirectory() as folder:
        stacked = args.stacked or Path(folder) / "stacked.h5ad"
        if not stacked.exists():
            stack(args.h5ad, stacked, args.cells)
        runs = {"with obs": [], "without": []}
        sizes = {}
        for _ in range(args.rounds):
            for name, more in (("with obs", []), ("without", ["--obs-columns="])):
                out = Path(folder) / "out"
                shutil.rmtree(out, ignore_errors=True)
                words = ["--preset", args.preset, "--progress", "none", *more]
                runs[name].append(celltile("convert", stacked, "-o", out, *words))
                sizes[name] = size(out / "obs")
    rows = [("conversion", "seconds", "processor", "bytes of obs")]
    for name, own in runs.items():
        seconds, cpu = min(run.seconds for run in own), min(run.cpu for run in own)
        rows.append((name, f"{seconds:.2f}", f"{cpu:.2f}", f"{sizes[name]:,}"))
    print_table(rows)
    for what in ("seconds", "cpu"):
        pairs = zip(runs["with obs"], runs["without"], strict=True)
        ratios = sorted(getattr(a, what) / getattr(b, what) - 1 for a, b in pairs)
        best = [min(getattr(run, what) for run in own) for own in runs.values()]
        print(
            f"obs costs {100 * (best[0] / best[1] - 1):.1f} % of the {what} (best of {args.rounds}), "
            f"{100 * ratios[len(ratios) // 2]:.1f} % (median of the rounds)"
        )


if __name__ == "__main__":
    main()
