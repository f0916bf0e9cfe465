"""Measures decoding, encoding, gathering and converting: simulated cells, and real ones if there are any."""

import argparse
import json
import os
import platform
import shutil
import tempfile
from pathlib import Path

from measure import Celltile, print_table, size

REAL = [
    "10x/GSM4475052_C149_filtered_feature_bc_matrix.h5",
    "10x/GSM4339774_C146_filtered_feature_bc_matrix.h5",
    "h5ad/pbmc3k_raw.h5ad",
]


def processor() -> str:
    """The processor's name, if the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def converting(celltile: Celltile, source: Path, cells: int, folder: Path) -> dict[str, dict[str, float]]:
    """Converts one file with each preset."""
    results = {}
    for preset in ("small", "balanced", "fast", "training"):
        out = folder / f"convert-{preset}"
        run = celltile("convert", source, "-o", out, "--preset", preset, "--overwrite")
        results[preset] = {
            "seconds": run.seconds,
            "cells_per_second": cells / run.seconds,
            "peak_bytes": run.peak,
            "bytes": size(out),
            "input_bytes": size(source),
        }
    return results


def measure(celltile: Celltile, name: str, source: Path, folder: Path, encode: bool) -> dict[str, object]:
    """Everything about one input."""
    print(f"== {name}", flush=True)
    dataset, by_cell = folder / "dataset", folder / "by-cell"
    celltile("convert", source, "-o", dataset, "--overwrite")
    cells = json.loads(celltile("info", dataset, "--json").out)["n_cells"]
    flags = ["--encode"] if encode else []
    result = json.loads(celltile("bench", dataset, "--json", *flags).out)
    celltile("convert", source, "-o", by_cell, "--chunk-cells", "1", "--overwrite")
    single = json.loads(celltile("bench", by_cell, "--json").out)
    result["one_cell_a_chunk"] = {
        "bytes_per_cell": single["bytes_per_cell"],
        "size_over_default": single["bytes_per_cell"] / result["bytes_per_cell"],
        "gather": single["gather"],
    }
    result["convert"] = converting(celltile, source, cells, folder)
    show(result)
    return result


def show(result: dict) -> None:
    """Prints the tables of one input."""
    print(f"{result['cells']:,} cells, {result['bytes_per_cell']:,.0f} bytes a cell", end=", ")
    print(f"{result['bytes_per_nonzero']:.3f} a nonzero\n")
    rows = [("decoding", "cells/s", "over zstd", "median")]
    for key in ("zstd", "decode", "decode_whole_tiles", "decode_all_threads"):
        way = result[key]
        ratios = (f"{way['over_zstd']:.3f}", f"{way['over_zstd_median']:.3f}")
        rows.append((key.replace("_", " "), f"{way['cells_per_second']:,.0f}", *ratios))
    print_table(rows)
    if "encode" in result:
        print()
        rows = [("encoding, one thread", "bytes a cell", "size", "cells/s", "speed")]
        for way in result["encode"]:
            change = f"{(way['size_over_level_19'] - 1) * 100:+.1f} %"
            speed = f"{way['speed_over_level_19']:.1f}x"
            rate = f"{way['cells_per_second']:,.0f}"
            rows.append((way["name"], f"{way['bytes_per_cell']:,.0f}", change, rate, speed))
        print_table(rows)
    print()
    single = result["one_cell_a_chunk"]
    rows = [("gathering random cells", "size", "cells/s, one thread", "all threads")]
    for name, gather, over in (
        ("default", result["gather"], 1.0),
        ("one cell a chunk", single["gather"], single["size_over_default"]),
    ):
        rates = (f"{gather[f'cells_per_second_{which}']:,.0f}" for which in ("one_thread", "all_threads"))
        rows.append((name, f"{(over - 1) * 100:+.1f} %", *rates))
    print_table(rows)
    print()
    rows = [("converting", "cells/s", "peak MiB", "of the input's size")]
    for preset, run in result["convert"].items():
        share = f"{run['bytes'] / run['input_bytes'] * 100:.0f} %"
        rows.append((preset, f"{run['cells_per_second']:,.0f}", f"{run['peak_bytes'] / 2**20:,.0f}", share))
    print_table(rows)
    print(f"\nover_zstd {result['over_zstd']:.3f}\n", flush=True)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--celltile", type=Path, required=True, help="the built command")
    parser.add_argument("--cells", type=int, default=20_000, help="simulated cells")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()

    folder = Path(tempfile.mkdtemp(prefix="celltile-bench-"))
    results: dict[str, object] = {"machine": {"processor": processor(), "cores": os.cpu_count()}}
    try:
        # A copy: the original may be built anew in the meantime.
        celltile = Celltile(Path(shutil.copy2(args.celltile, folder)))
        results["celltile"] = celltile("--version").out.strip()
        source = folder / "simulated.h5ad"
        celltile("simulate", "-o", source, "--cells", args.cells)
        results["simulated"] = measure(
            celltile, f"simulated, {args.cells:,} cells", source, folder, encode=True
        )
        data = os.environ.get("CELLTILE_TEST_DATA")
        for name in REAL if data else []:
            results[name] = measure(celltile, name, Path(data) / name, folder, encode=True)
        if not data:
            print("CELLTILE_TEST_DATA is not set: no real cells measured")
    finally:
        shutil.rmtree(folder)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
