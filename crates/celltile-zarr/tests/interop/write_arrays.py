"""Writes arrays with rectilinear grids in every form of `chunk_shapes`, and their elements beside them.

Usage: write_arrays.py FOLDER
"""

import json
import sys
from pathlib import Path

import numpy as np
import zarr

CASES = [
    # name, shape, inner chunks of shards, chunk_shapes in forms that mean the same
    ("integer", (10,), None, [[3], [[[3, 4]]], [[3, 3, [3, 2]]]]),
    ("listed", (6,), None, [[[1, 2, 3]], [[[1, 1], 2, [3, 1]]]]),
    ("runs", (8,), None, [[[[4, 2]]], [4]]),
    ("mixed", (6,), None, [[[[1, 3], 3]], [[1, [1, 2], 3]]]),
    ("overflow", (6,), None, [[[4, 4, 4]], [[[4, 3]]]]),
    ("two", (7, 9), None, [[[2, 5], [[4, 2], 1]]]),
    ("three", (5, 4, 6), None, [[[1, 4], 2, [6]], [[1, 4], [[2, 2]], 6]]),
    ("four", (3, 2, 4, 5), None, [[3, [[1, 2]], [1, 3], [2, 3]]]),
    ("sharded", (20,), (2,), [[[4, 12, 4]]]),
    ("sharded_two", (12, 9), (2, 3), [[[4, 8], [3, 6]]]),
]


def write(folder: Path) -> list[dict]:
    """Writes all cases and returns their names and shapes."""
    rng = np.random.default_rng(1)
    written = []
    for case, shape, inner, forms in CASES:
        for number, form in enumerate(forms):
            name = f"{case}_{number}"
            values = rng.integers(-5, 100, shape, dtype="int32")
            values[rng.random(shape) < 0.3] = 0
            shards = None if inner is None else tuple(12 for _ in shape)
            zarr.create_array(folder / name, shape=shape, dtype="int32", chunks=inner or shape, shards=shards)
            metadata = json.loads((folder / name / "zarr.json").read_text())
            configuration = {"kind": "inline", "chunk_shapes": form}
            metadata["chunk_grid"] = {"name": "rectilinear", "configuration": configuration}
            (folder / name / "zarr.json").write_text(json.dumps(metadata))
            zarr.open_array(folder / name, mode="r+")[...] = values
            np.testing.assert_array_equal(zarr.open_array(folder / name)[...], values)
            (folder / f"{name}.bin").write_bytes(values.astype("<i4").tobytes())
            written.append({"name": name, "shape": list(shape)})
    return written


if __name__ == "__main__":
    target = Path(sys.argv[1])
    (target / "cases.json").write_text(json.dumps(write(target)))
