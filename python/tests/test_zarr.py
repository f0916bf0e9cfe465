from __future__ import annotations

import os
import pickle
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celltile

zarr = pytest.importorskip("zarr")
anndata = pytest.importorskip("anndata")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("cut", ["regular", "chunk", "tile"])
def test_live_store_is_the_export(dataset: Path, tmp_path: Path, cut: Any) -> None:
    ds = celltile.open(dataset)
    report = ds.to_zarr(tmp_path / "z", cut=cut, nonzeros=4096, progress=False)
    written = contents(tmp_path / "z")
    assert report["objects"] == len(written)
    view = ds.zarr_store(cut=cut, nonzeros=4096)._view
    assert sorted(view.list_prefix("")) == sorted(written)
    for key, value in written.items():
        assert view.get(key) == value
        assert view.size(key) == len(value)
        assert view.get(key, 2, 7) == value[2:7]
    assert view.get("no/such/key") is None
    assert view.get("../cells.ct/manifest.json") is None


def test_read_by_anndata(dataset: Path, tmp_path: Path) -> None:
    ds = celltile.open(dataset)
    ds.to_zarr(tmp_path / "z", cut="regular", progress=False)
    expected = ds.to_anndata()
    for found in (anndata.read_zarr(tmp_path / "z"), anndata.read_zarr(ds.zarr_store(cut="regular"))):
        np.testing.assert_array_equal(found.X.toarray(), expected.X.toarray())
        assert found.obs_names.tolist() == expected.obs_names.tolist()
        assert found.var_names.tolist() == expected.var_names.tolist()
        assert found.obs["donor"].tolist() == expected.obs["donor"].tolist()


def test_store(dataset: Path) -> None:
    store = celltile.open(dataset).zarr_store(cut="regular", nonzeros=1000)
    group = zarr.open_group(store, mode="r")
    data = group["X/data"]
    np.testing.assert_array_equal(data[100:3000], celltile.open(dataset).arrays()[2][100:3000])
    again = pickle.loads(pickle.dumps(store))
    assert again == store
    assert "cells.ct" in repr(store)
    with pytest.raises(ValueError, match="read-only"):
        store.with_read_only(False)
    with pytest.raises(Exception, match="read-only"):
        zarr.open_group(store, mode="r+").create_array("x", shape=(1,), dtype="int8")


def test_rectilinear_store(dataset: Path) -> None:
    version = tuple(int(x) for x in zarr.__version__.split(".")[:2])
    if version < (3, 4):
        pytest.skip("this zarr-python knows no rectilinear grids")
    ds = celltile.open(dataset)
    with zarr.config.set({"array.rectilinear_chunks": True}):
        for cut in ("tile", "chunk"):
            store = ds.zarr_store(cut=cut, nonzeros=2000)  # type: ignore[arg-type]
            data = zarr.open_group(store, mode="r")["X/data"]
            np.testing.assert_array_equal(data[17:9000], ds.arrays()[2][17:9000])
            found = anndata.read_zarr(store)
            assert (ds.csr() != found.X).nnz == 0


def test_store_after_a_fork(dataset: Path) -> None:
    """A forked child makes chunks of its own, whatever threads its parent had."""
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    ds = celltile.open(dataset)
    view = ds.zarr_store(cut="regular", nonzeros=1000, zstd_level=1)._view
    values = {key: view.get(key) for key in view.list_prefix("")}
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if {key: view.get(key) for key in view.list_prefix("")} == values else 2
        finally:
            os._exit(code)
    deadline = time.monotonic() + 60
    while not (done := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            pytest.fail("a forked child hangs")
        time.sleep(0.02)
    assert done[1] == 0


def test_bad_options(dataset: Path, tmp_path: Path) -> None:
    ds = celltile.open(dataset)
    with pytest.raises(ValueError, match="cut"):
        ds.zarr_store(cut="middle")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="nonzeros"):
        ds.zarr_store(nonzeros=0)
    (tmp_path / "there").write_text("something")
    with pytest.raises(celltile.ZarrError, match="not empty"):
        ds.to_zarr(tmp_path, progress=False)
