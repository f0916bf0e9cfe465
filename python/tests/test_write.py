"""AnnData objects written and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celltile

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")
sparse = pytest.importorskip("scipy.sparse")

N = 60


def frame() -> Any:
    """A column of every dtype that the format holds."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {}
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        info = np.iinfo(name)
        columns[name] = rng.integers(info.min, info.max, N, dtype=name, endpoint=True)
    for name in ("float16", "float32", "float64"):
        columns[name] = rng.normal(size=N).astype(name)
        columns[name][3] = np.nan
        columns[name][4] = np.inf
    columns["bool"] = rng.random(N) < 0.5
    for name in ("Int8", "Int64", "UInt32", "UInt64"):
        columns[name] = pd.array([None if i % 7 == 0 else i for i in range(N)], dtype=name)
    columns["Float32"] = pd.array([None if i % 5 == 0 else i / 3 for i in range(N)], dtype="Float32")
    columns["Float64"] = pd.array([i / 3 for i in range(N)], dtype="Float64")
    columns["boolean"] = pd.array([None, True, False] * (N // 3), dtype="boolean")
    columns["object"] = [f"t{i % 4}" for i in range(N)]
    columns["string"] = pd.array([None if i % 4 == 0 else f"s{i}" for i in range(N)], dtype="string")
    columns["empty text"] = [""] * N
    columns["category"] = pd.Categorical.from_codes([i % 3 - 1 for i in range(N)], ["b", "unused", "a"])
    columns["ordered"] = pd.Categorical.from_codes([i % 3 for i in range(N)], ["z", "y", "x"], ordered=True)
    columns["numbers"] = pd.Categorical.from_codes(
        [i % 3 for i in range(N)], np.array([3, 1, 2], dtype="int16")
    )
    columns["floats"] = pd.Categorical.from_codes([i % 2 for i in range(N)], [0.5, -1.5])
    columns["bools"] = pd.Categorical.from_codes([i % 2 for i in range(N)], [True, False])
    columns["none of it"] = pd.Categorical.from_codes([-1] * N, ["only"])
    columns["ünï/cödé 'q\" \n"] = np.arange(N)
    return pd.DataFrame(columns, index=[f"cell{i}" for i in range(N)])


def counts(seed: int = 0, genes: int = 40) -> Any:
    return sparse.random(
        N, genes, 0.3, "csr", rng=np.random.default_rng(seed), data_rvs=lambda n: np.arange(1, n + 1)
    )


def adata(X: Any, obs: Any = None) -> Any:
    var = pd.DataFrame(
        {
            "length": np.arange(X.shape[1], dtype=np.int32),
            "kind": pd.Categorical(["a", "b"] * (X.shape[1] // 2)),
        },
        index=[f"g{i}" for i in range(X.shape[1])],
    )
    obs = pd.DataFrame(index=[f"cell{i}" for i in range(N)]) if obs is None else obs
    return anndata.AnnData(X=X, obs=obs, var=var)


def back(path: Path) -> Any:
    ds = celltile.open(path)
    ds.verify(strict=True)
    return ds.to_anndata(source_order=True)


def test_every_dtype(tmp_path: Path) -> None:
    obs = frame()
    summary = celltile.write(adata(counts(), obs), tmp_path / "d", progress=False, tile_size=17)
    assert (summary.cells, summary.genes, summary.tiles) == (N, 40, 4)
    pd.testing.assert_frame_equal(celltile.open(tmp_path / "d").obs(), obs)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64", "bool"]
)
@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "csr_array", "dense", "fortran"])
def test_matrix_of_any_kind(tmp_path: Path, dtype: str, layout: str) -> None:
    dense = counts().toarray() % 100
    dense = dense.astype(dtype)
    made = {
        "csr": sparse.csr_matrix,
        "csc": sparse.csc_matrix,
        "coo": lambda x: sparse.csr_matrix(sparse.coo_matrix(x)),
        "csr_array": sparse.csr_array,
        "dense": np.ascontiguousarray,
        "fortran": np.asfortranarray,
    }
    if dtype == "float16" and layout not in ("dense", "fortran"):
        pytest.skip("SciPy has no such matrices")
    celltile.write(adata(made[layout](dense)), tmp_path / "d", progress=False)
    np.testing.assert_array_equal(back(tmp_path / "d").X.toarray(), dense.astype(np.int32))


def test_unsorted_indices_and_stored_zeros(tmp_path: Path) -> None:
    X = sparse.csr_matrix(
        (np.array([1, 2, 0, 7]), np.array([3, 1, 0, 2]), np.array([0, 3] + [4] * (N - 1))), shape=(N, 4)
    )
    summary = celltile.write(adata(X), tmp_path / "d", progress=False)
    assert (summary.unsorted_cells, summary.zeros_dropped, summary.nonzeros) == (1, 1, 3)
    np.testing.assert_array_equal(back(tmp_path / "d").X.toarray(), X.toarray())


def test_matrix_is_chosen_as_files_are(tmp_path: Path) -> None:
    a = adata(counts())
    a.layers["counts"] = a.X.copy()
    a.X = sparse.csr_matrix(a.X.astype(np.float32) / 2)
    summary = celltile.write(a, tmp_path / "d", progress=False)
    assert summary.matrix == "layers/counts"
    assert "X" in summary.not_carried
    a.write_h5ad(tmp_path / "a.h5ad")
    assert celltile.convert(tmp_path / "a.h5ad", tmp_path / "e", progress=False).matrix == "layers/counts"
    with pytest.raises(celltile.CountError, match=r"X: cell 0 \(cell0\), gene"):
        celltile.write(a, tmp_path / "f", matrix="X", progress=False)
    assert not (tmp_path / "f/manifest.json").exists()
    with pytest.raises(ValueError, match="layers/counts"):
        celltile.write(a, tmp_path / "f", matrix="layers/nix", progress=False)


def test_raw(tmp_path: Path) -> None:
    a = adata(counts())
    a.raw = a.copy()
    a = a[:, :7].copy()
    a.X = sparse.csr_matrix(a.X.astype(np.float32) / 3)
    summary = celltile.write(a, tmp_path / "d", progress=False)
    assert (summary.matrix, summary.genes) == ("raw/X", 40)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1.0, "negative"),
        (0.5, "fraction"),
        (np.nan, "not a number"),
        (np.inf, "infinite"),
        (2.0**31, "large"),
    ],
)
def test_no_count(tmp_path: Path, value: float, message: str) -> None:
    X = counts().astype(np.float64)
    X[7, 11] = value
    with pytest.raises(celltile.CountError, match=rf"cell 7 \(cell7\), gene 11 \(g11\).*{message}"):
        celltile.write(adata(X), tmp_path / "d", matrix="X", progress=False)
    with pytest.raises(celltile.NotADatasetError):
        celltile.open(tmp_path / "d")


def test_rounding(tmp_path: Path) -> None:
    X = counts().astype(np.float64)
    X.data += 0.25
    celltile.write(adata(X), tmp_path / "d", matrix="X", round="nearest", progress=False)
    np.testing.assert_array_equal(back(tmp_path / "d").X.toarray(), counts().toarray())


def test_bad_columns_are_told_at_once(tmp_path: Path) -> None:
    obs = pd.DataFrame(index=[f"cell{i}" for i in range(N)])
    obs["mixed"] = [1, "a"] * (N // 2)
    obs["when"] = pd.date_range("2024-01-01", periods=N)
    obs["took"] = pd.to_timedelta(np.arange(N), unit="s")
    obs["period"] = pd.period_range("2024-01", periods=N, freq="D")
    obs["complex"] = np.arange(N) * 1j
    obs["fine"] = 1
    with pytest.raises(celltile.TableError) as caught:
        celltile.write(adata(counts(), obs), tmp_path / "d", progress=False)
    message = str(caught.value)
    for name in ("mixed", "when", "took", "period", "complex"):
        assert f"'{name}'" in message
    assert "fine" not in message
    assert "obs_mixed='string'" in message
    assert "obs_datetime='iso-string'" in message
    assert not (tmp_path / "d").exists()


def test_mixed_and_dates_when_asked(tmp_path: Path) -> None:
    obs = pd.DataFrame(index=[f"cell{i}" for i in range(N)])
    obs["mixed"] = [1, "a"] * (N // 2)
    obs["when"] = pd.date_range("2024-01-01", periods=N)
    obs.loc["cell5", "when"] = pd.NaT
    options: dict[str, Any] = {"obs_mixed": "string", "progress": False}
    celltile.write(adata(counts(), obs), tmp_path / "d", obs_datetime="iso-string", **options)
    read = celltile.open(tmp_path / "d").obs()
    assert read["mixed"].tolist()[:2] == ["1", "a"]
    assert read["when"].iloc[0] == "2024-01-01T00:00:00"
    assert read["when"].isna().sum() == 1
    celltile.write(adata(counts(), obs), tmp_path / "e", obs_datetime="int64-ns", **options)
    read = celltile.open(tmp_path / "e").obs()
    assert pd.to_datetime(read["when"].iloc[0]) == pd.Timestamp("2024-01-01")
    with pytest.raises(ValueError, match="obs_mixed"):
        celltile.write(adata(counts(), obs), tmp_path / "f", obs_mixed="guess", progress=False)  # type: ignore[arg-type]


def test_values_that_are_not_one_never_become_one(tmp_path: Path) -> None:
    """C5: text and values of other types in one column."""
    obs = pd.DataFrame(index=[f"cell{i}" for i in range(N)])
    obs["mixed"] = (["1", 2, None, True, 1.5] * N)[:N]
    with pytest.raises(celltile.TableError, match="objects of type bool, float, int, str"):
        celltile.write(adata(counts(), obs), tmp_path / "d", progress=False)
    celltile.write(adata(counts(), obs), tmp_path / "d", obs_mixed="string", progress=False)
    read = celltile.open(tmp_path / "d").obs()["mixed"]
    assert read.tolist()[:2] == ["1", "2"] and read.tolist()[3:5] == ["True", "1.5"]
    assert read.isna().tolist()[2] and read.isna().sum() == obs["mixed"].isna().sum()
    for values, said in (
        [["1", 1], "'1' as text"],
        [[True, "True"], "'True' as text"],
        [["a", b"a"], "bytes"],
    ):
        obs["mixed"] = (values * N)[:N]
        with pytest.raises(celltile.TableError, match=rf"'mixed'.*{said}"):
            celltile.write(adata(counts(), obs), tmp_path / "e", obs_mixed="string", progress=False)
    assert not (tmp_path / "e").exists()


def test_odd_frames(tmp_path: Path) -> None:
    a = adata(counts())
    a.obs.index.name = "barcode"
    a.obs["barcode"] = np.arange(N)
    celltile.write(a, tmp_path / "d", progress=False)
    pd.testing.assert_frame_equal(celltile.open(tmp_path / "d").obs(), a.obs)
    # A frame may have two columns of one name; anndata itself allows it in memory.
    twice = pd.DataFrame(np.zeros((N, 2)), columns=["x", "x"], index=a.obs_names)
    with pytest.raises(celltile.TableError, match="'x': there is more than one"):
        celltile.write(adata(counts(), twice), tmp_path / "e", progress=False)


def test_backed(h5ad: Path, tmp_path: Path, source: Any) -> None:
    backed = anndata.read_h5ad(h5ad, backed="r")
    summary = celltile.write(backed, tmp_path / "d", progress=False)
    assert summary.nonzeros == source.X.nnz
    np.testing.assert_array_equal(back(tmp_path / "d").X.toarray(), source.X.toarray())


def test_same_bytes_as_the_file(h5ad: Path, tmp_path: Path, source: Any) -> None:
    """What is in memory gives the tiles that its file gives."""
    celltile.convert(h5ad, tmp_path / "d", progress=False)
    celltile.write(source, tmp_path / "e", progress=False)
    tiles = sorted(path.relative_to(tmp_path / "d") for path in (tmp_path / "d").rglob("*.dct"))
    assert tiles
    for tile in [*tiles, Path("gene_order.npy"), Path("var_names.txt")]:
        assert (tmp_path / "d" / tile).read_bytes() == (tmp_path / "e" / tile).read_bytes()


def test_something_else(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="expected an AnnData object, found csr_matrix"):
        celltile.write(sparse.csr_matrix((3, 3)), tmp_path / "d")


def test_occupied(tmp_path: Path) -> None:
    celltile.write(adata(counts()), tmp_path / "d", progress=False)
    with pytest.raises(FileExistsError, match="overwrite"):
        celltile.write(adata(counts(1)), tmp_path / "d", progress=False)
    celltile.write(adata(counts(1)), tmp_path / "d", overwrite=True, progress=False)
    np.testing.assert_array_equal(back(tmp_path / "d").X.toarray(), counts(1).toarray())


def test_counts_above_2_24(tmp_path: Path) -> None:
    X = counts().tolil()
    X[0, 0] = 2**24 + 1
    celltile.write(adata(X.tocsr()), tmp_path / "d", progress=False)
    ds = celltile.open(tmp_path / "d")
    assert ds.csr().max() == 2**24 + 1
    with pytest.raises(ValueError, match="16777217"):
        ds.csr(dtype="float32")
    assert ds.csr(dtype="float32", round_counts=True).max() == 2**24


def test_no_cells(tmp_path: Path) -> None:
    empty = anndata.AnnData(
        X=sparse.csr_matrix((0, 3), dtype=np.int32), var=pd.DataFrame(index=["a", "b", "c"])
    )
    celltile.write(empty, tmp_path / "d", progress=False)
    assert celltile.open(tmp_path / "d").to_anndata().shape == (0, 3)


def test_exception_in_the_callers_matrix(tmp_path: Path) -> None:
    class Strange(np.ndarray):
        def __getitem__(self, key: Any) -> Any:
            raise LookupError("the caller's own")

    a = adata(counts().toarray().astype(np.int32))
    blocks = celltile._convert._blocks(a.X.view(Strange))
    with pytest.raises(LookupError, match="the caller's own"):
        blocks(0, 1)
    original = celltile._convert._blocks
    try:
        celltile._convert._blocks = lambda _: blocks  # type: ignore[assignment]
        with pytest.raises(LookupError, match="the caller's own"):
            celltile.write(a, tmp_path / "d", matrix="X", progress=False)
    finally:
        celltile._convert._blocks = original
    assert not (tmp_path / "d/manifest.json").exists()
