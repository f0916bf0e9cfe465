from __future__ import annotations

from pathlib import Path

import pytest

import celltile


def test_open_shape(dataset: Path) -> None:
    assert celltile.open(dataset).shape == (1500, 300)


def test_open_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"manifest\.json"):
        celltile.open(tmp_path / "nothing")
