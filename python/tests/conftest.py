"""Datasets to test with: small simulated cells, converted once a session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def cli(*args: object) -> None:
    """A command line that must end well, in a process of its own: it takes over the handling of signals."""
    subprocess.run([sys.executable, "-m", "celltile", "--progress", "none", *map(str, args)], check=True)


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
