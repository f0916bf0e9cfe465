"""Repeats regriddings and appends with NumPy, and compares what celltile had after each.

Usage: check_changes.py FILE

FILE holds a JSON object a line, one for each sequence: `start` and, for each step, `append` (or nothing) and `found`; arrays
are objects of `shape` and `values`.
"""

import json
import sys
from pathlib import Path

import numpy as np


def array(facts: dict) -> np.ndarray:
    """An array from its shape and values."""
    return np.array(facts["values"], dtype="int32").reshape(facts["shape"])


def main(file: Path) -> None:
    """Checks every sequence."""
    sequences = steps = 0
    for line in file.read_text().splitlines():
        sequence = json.loads(line)
        expected = array(sequence["start"])
        for step in sequence["steps"]:
            if step["append"] is not None:
                expected = np.concatenate([expected, array(step["append"])], axis=step["axis"])
            found = array(step["found"])
            assert found.shape == expected.shape, (sequences, found.shape, expected.shape)
            np.testing.assert_array_equal(found, expected, err_msg=f"sequence {sequences}")
            steps += 1
        sequences += 1
    print(f"{sequences} sequences, {steps} steps equal with NumPy {np.__version__}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
