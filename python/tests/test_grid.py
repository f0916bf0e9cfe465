from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celltile

CASES = Path(__file__).parents[2] / "crates/celltile-grid/tests/cases/rectilinear.json"


def test_example_of_the_specification() -> None:
    grid = celltile.Grid((26, 38), [[16, 10], [24, 14]])
    assert grid.locate((20, 15)) == ((1, 0), (4, 15))
    assert grid.chunk((1, 1)) == (slice(16, 26), slice(24, 38))
    assert grid.chunk_counts == (2, 2)
    assert grid.ndim == 2


def test_runs() -> None:
    grid = celltile.Grid([10**12], [[(1, 10**12)]])
    assert grid.chunk_counts == (10**12,)
    assert grid.locate([999_999_999_999]) == ((999_999_999_999,), (0,))
    assert grid.runs(0) == [(1, 10**12)]
    with pytest.raises(ValueError, match="use runs"):
        grid.edges(0)


def test_json() -> None:
    grid = celltile.Grid((6, 6, 6), [4, [1, 2, 3], [(1, 3), 3]])
    text = grid.to_json()
    assert json.loads(text)["configuration"]["chunk_shapes"] == [4, [1, 2, 3], [[1, 3], 3]]
    again = celltile.Grid.from_json(text, (6, 6, 6))
    assert again == grid
    assert again.to_json() == text
    assert pickle.loads(pickle.dumps(grid)) == grid
    assert repr(grid) == "Grid(shape=[6, 6, 6], chunks=[4, [1, 2, 3], [(1, 3), 3]])"


def test_resize_append_split_merge() -> None:
    grid = celltile.Grid([6], [[1, 2, 3]])
    other = grid.copy()
    grid.append(0, 5)
    assert (grid.shape, grid.edges(0)) == ((11,), [1, 2, 3, 5])
    grid.resize([12])
    assert grid.edges(0) == [1, 2, 3, 5, 1]
    grid.merge(0, 0, 2)
    grid.split(0, 2, 2)
    assert grid.edges(0) == [3, 3, 2, 3, 1]
    assert other.edges(0) == [1, 2, 3]
    assert other != grid


def test_errors() -> None:
    grid = celltile.Grid([6], [[1, 2, 3]])
    for call in (lambda: grid.locate([6]), lambda: grid.chunk([3]), lambda: grid.edges(1)):
        with pytest.raises(IndexError):
            call()
    with pytest.raises(celltile.GridError):
        celltile.Grid([6], [[1, 2]])
    with pytest.raises(celltile.GridError):
        celltile.Grid([6], [0])
    with pytest.raises(celltile.GridError):
        celltile.Grid.from_json('{"name": "rectilinear"}', [6])
    with pytest.raises(OverflowError):
        celltile.Grid([-1], [1])


@pytest.mark.parametrize("seed", range(20))
def test_selection_against_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges = rng.integers(1, 6, rng.integers(1, 10)).tolist()
    n = sum(edges)
    grid = celltile.Grid([n], [edges])
    array = np.arange(n)
    starts = np.concatenate([[0], np.cumsum(edges)])
    a, b = sorted(rng.integers(0, n + 1, 2).tolist())
    keys: list[Any] = [
        slice(a, b),
        slice(a, b, 3),
        np.sort(rng.integers(0, n, 5)).tolist(),
        int(rng.integers(n)),
    ]
    for key in keys:
        expected = np.atleast_1d(array[key])
        found = np.full(len(expected), -1)
        for ((chunk, (low, high), (start, stop)),) in grid.select([key]):
            inside = array[starts[chunk] + low : starts[chunk] + high]
            wanted = expected[start:stop]
            assert wanted[0] == inside[0]
            assert wanted[-1] == inside[-1]
            assert np.isin(wanted, inside).all()
            found[start:stop] = wanted
        assert (found == expected).all()


def test_cases() -> None:
    if not CASES.exists():
        pytest.skip("the cases are not here")
    document = json.loads(CASES.read_text())
    cases = document["cases"] if isinstance(document, dict) else document
    tried = 0
    for case in cases:
        if "chunk_shapes" not in case or "shape" not in case:
            continue
        tried += 1
        configuration = {"kind": "inline", "chunk_shapes": case["chunk_shapes"]}
        text = json.dumps(case.get("chunk_grid", {"name": "rectilinear", "configuration": configuration}))
        expect = case.get("expect", {})
        if expect == "error" or "error" in expect:
            with pytest.raises((celltile.GridError, OverflowError)):
                celltile.Grid.from_json(text, case["shape"])
            continue
        grid = celltile.Grid.from_json(text, case["shape"])
        if "declared_shape" in expect:
            assert list(grid.declared_counts) == expect["declared_shape"]
        for lookup in case.get("lookups", []):
            if "error" in lookup:
                with pytest.raises((IndexError, OverflowError)):
                    grid.locate(lookup["index"])
            else:
                assert grid.locate(lookup["index"]) == (tuple(lookup["chunk"]), tuple(lookup["within"]))
        if "serialised" in case:
            assert json.loads(grid.to_json())["configuration"]["chunk_shapes"] == case["serialised"]
    assert tried > 50
