"""What importing costs, and what is said where a package is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ONLY_NUMPY = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pandas", "scipy", "anndata", "tqdm", "zarr", "torch", "pyarrow"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
import celltile
ds = celltile.open(sys.argv[1])
indptr, indices, data = ds.arrays([3, 1], ["Gene00001"] if "Gene00001" in ds.var_names else [0])
assert len(indptr) == 3
assert len(ds.var_names) == 300
ds.verify()
ds.split(seed=1)
repr(ds)
for call, package in [
    (lambda: ds.csr([1]), "scipy"), (lambda: ds[1], "anndata"), (lambda: ds.obs(), "pandas"),
    (lambda: ds.var, "pandas"), (lambda: ds.zarr_store(), "zarr"),
]:
    try:
        call()
    except ImportError as error:
        assert isinstance(error, celltile.MissingDependencyError)
        assert f"needs the package {package}: pip install 'celltile[" in str(error), error
    else:
        raise AssertionError(package)
"""


def test_numpy_is_enough(dataset: Path) -> None:
    subprocess.run([sys.executable, "-c", ONLY_NUMPY, str(dataset)], check=True)


def test_import_is_light() -> None:
    heavy = {"pandas", "scipy", "anndata", "zarr", "torch"}
    code = f"import sys, celltile; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_typed() -> None:
    import celltile  # noqa: PLC0415

    assert (Path(celltile.__file__).parent / "py.typed").exists()
    assert (Path(celltile.__file__).parent / "_native.pyi").exists()


def test_stub_is_what_the_module_has() -> None:
    pytest.importorskip("mypy")
    line = [sys.executable, "-m", "mypy.stubtest", "--ignore-disjoint-bases", "celltile._native"]
    done = subprocess.run(line, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
