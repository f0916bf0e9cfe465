from __future__ import annotations

from pathlib import Path

import pytest

import celltile


def test_options_of_the_command(h5ad: Path, tmp_path: Path) -> None:
    summary = celltile.convert(
        h5ad,
        tmp_path / "d",
        tile_size=200,
        preset="small",
        chunk_cells=1,
        obs_columns=["donor", "cell_type"],
        memory="64MiB",
        threads=1,
        progress=False,
    )
    assert (summary.cells, summary.genes, summary.tiles) == (1500, 300, 8)
    assert summary.matrix == "X"
    assert str(summary)
    ds = celltile.open(tmp_path / "d")
    assert sorted(ds.obs_columns) == ["cell_type", "donor"]
    assert ds.n_tiles == 8


@pytest.mark.parametrize(
    "options",
    [{"nix": 1}, {"tile_size": 0}, {"tile_size": "many"}, {"level": 3, "preset": "small"}, {"x": object()}],
)
def test_bad_options(h5ad: Path, tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(celltile.ArgumentError):
        celltile.convert(h5ad, tmp_path / "d", progress=False, **options)
    assert not (tmp_path / "d").exists()


def test_comma_in_a_name(h5ad: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="comma"):
        celltile.convert(h5ad, tmp_path / "d", obs_columns=["a,b"])


def test_many_inputs(h5ad: Path, tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    more = tmp_path / "more.h5ad"
    part = anndata.read_h5ad(h5ad)[:100].copy()
    part.obs_names = [f"more-{name}" for name in part.obs_names]
    part.write_h5ad(more)
    celltile.convert([h5ad, more], tmp_path / "d", progress=False)
    ds = celltile.open(tmp_path / "d")
    assert ds.n_cells == 1600
    assert (ds.csr(slice(1500, None)) != ds.csr(slice(100))).nnz == 0


def test_names_that_look_like_options(h5ad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("--overwrite").write_bytes(h5ad.read_bytes())
    celltile.convert("--overwrite", "--help", progress=False)
    assert celltile.open("--help").n_cells == 1500


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        celltile.convert(tmp_path / "nix.h5ad", tmp_path / "d", progress=False)
    (tmp_path / "text.h5ad").write_text("not HDF5")
    with pytest.raises(celltile.NotRecognisedError):
        celltile.convert(tmp_path / "text.h5ad", tmp_path / "d", progress=False)


def test_output_that_is_an_input(h5ad: Path, tmp_path: Path) -> None:
    celltile.convert(h5ad, tmp_path / "d", progress=False)
    with pytest.raises(celltile.OccupiedError, match="is an input"):
        celltile.convert(tmp_path / "d", tmp_path / "x" / ".." / "d", overwrite=True, progress=False)
    celltile.open(tmp_path / "d").verify()


def test_progress(h5ad: Path, tmp_path: Path) -> None:
    told: list[tuple[str, str, int, int]] = []
    celltile.convert(h5ad, tmp_path / "d", progress=lambda *at: told.append(at))
    assert {"count", "encode"} <= {stage for stage, *_ in told}
    assert all(done <= total for _, _, done, total in told)
    encoded = [(unit, done, total) for stage, unit, done, total in told if stage == "encode"]
    assert encoded[-1] == ("cells", 1500, 1500)


def test_exception_in_progress_stops(h5ad: Path, tmp_path: Path) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        celltile.convert(h5ad, tmp_path / "d", progress=fail)


def test_bar(h5ad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    celltile.convert(h5ad, tmp_path / "d", progress=True)
    assert "encode" in capsys.readouterr().err
    celltile.convert(h5ad, tmp_path / "e")
    assert not capsys.readouterr().err
