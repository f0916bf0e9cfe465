"""Datasets to test with: small simulated cells, converted once a session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def cli(*args: object) -> None:
    """A command line that must end well, in a process of its own: it takes over the handling of signals."""
    subprocess.run([sys.executable, "-m", "celltile", "--progress", "none", *map(str, args)], check=True)


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Columns of obs are kept where the tests are, not where the user's are."""
    os.environ["DELTACELLS_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def h5ad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "cells.h5ad"
    cli("simulate", "-o", path, "--cells", 1500, "--genes", 300, "--nonzeros", 40)
    return path


@pytest.fixture(scope="session")
def dataset(h5ad: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dataset") / "cells.ct"
    cli("convert", h5ad, "-o", path, "--tile-size", 400, "--chunk-cells", 37)
    return path


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cells of which an epoch is 100 small buffers: 100 tiles of 150."""
    folder = tmp_path_factory.mktemp("many")
    cli("simulate", "-o", folder / "s.h5ad", "--cells", 15000, "--genes", 2000, "--nonzeros", 300)
    cli("convert", folder / "s.h5ad", "-o", folder / "d", "--tile-size", 150, "--chunk-cells", 10)
    return folder / "d"


@pytest.fixture(scope="session")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 40 million nonzeros: enough for calls that take a while."""
    folder = tmp_path_factory.mktemp("big")
    cli(
        "simulate",
        "-o",
        folder / "s.h5ad",
        "--cells",
        20000,
        "--genes",
        20000,
        "--nonzeros",
        2000,
        "--gzip",
        0,
    )
    cli("convert", folder / "s.h5ad", "-o", folder / "d", "--preset", "fast", "--tile-size", 2000)
    (folder / "s.h5ad").unlink()
    return folder / "d"


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real cells of three samples, with the column `sample`, if this machine has them."""
    folder = os.environ.get("CELLTILE_TEST_DATA")
    files = sorted(Path(folder).glob("10x/GSM*.h5")) if folder else []
    if len(files) < 3:
        pytest.skip("CELLTILE_TEST_DATA names no folder of real cells")
    path = tmp_path_factory.mktemp("real") / "cells.ct"
    cli("convert", *files, "-o", path, "--source-column", "sample", "--preset", "fast")
    return path


@pytest.fixture(scope="session")
def source(h5ad: Path) -> Any:
    """The file that `dataset` was made from, as anndata reads it."""
    return pytest.importorskip("anndata").read_h5ad(h5ad)
