"""What the documentation shows is what happens."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from conftest import cli

pd = pytest.importorskip("pandas")
pytest.importorskip("anndata")
pytest.importorskip("zarr")

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.skipif(not DOCS.exists(), reason="the documentation is not here")
@pytest.mark.skipif(not pd.__version__.startswith("2."), reason="another pandas prints tables otherwise")
def test_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cli("simulate", "-o", "cells.h5ad", "--cells", 3000, "--genes", 2000, "--nonzeros", 200)
    done = doctest.testfile(
        str(DOCS / "python.md"), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert done.attempted > 25
    assert done.failed == 0


@pytest.mark.skipif(not DOCS.exists(), reason="the documentation is not here")
def test_quickstart(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    notebook = nbformat.read(DOCS / "quickstart.ipynb", as_version=4)
    # Outputs are not kept: they are made here, and wherever the notebook is read.
    assert all(not cell.get("outputs") for cell in notebook.cells)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    text = "".join(
        output.get("text", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "text" in output
    )
    assert "3,000 cells x 2,000 genes" in text
