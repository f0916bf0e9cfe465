"""Reads arrays that celltile wrote, with zarr-python, zarrs and zarrista, and compares their elements.

Usage: read_arrays.py FOLDER
"""

import json
import sys
from pathlib import Path

import numpy as np
import zarr
import zarrista
from zarrista.store import FilesystemStore


def with_zarrista(path: Path, ndim: int) -> np.ndarray:
    """The array as zarrista reads it."""
    array = zarrista.Array.open(FilesystemStore(str(path)), "/")
    return np.asarray(array.retrieve_array_subset((slice(None),) * ndim))


def main(folder: Path) -> None:
    """Compares all cases."""
    cases = json.loads((folder / "cases.json").read_text())
    for case in cases:
        path = folder / case["name"]
        expected = np.frombuffer((folder / f"{case['name']}.bin").read_bytes(), "<i4").reshape(case["shape"])
        array = zarr.open_array(path, mode="r")
        np.testing.assert_array_equal(array[...], expected, err_msg=case["name"])
        with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
            array = zarr.open_array(path, mode="r")
            np.testing.assert_array_equal(array[...], expected, err_msg=f"{case['name']} with zarrs")
        read = with_zarrista(path, expected.ndim)
        np.testing.assert_array_equal(read, expected, err_msg=f"{case['name']} with zarrista")
    print(f"{len(cases)} arrays read back equal")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
