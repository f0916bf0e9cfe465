"""Slices against anndata's own of the source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celltile

pd = pytest.importorskip("pandas")
sparse = pytest.importorskip("scipy.sparse")


@pytest.fixture(scope="module")
def ds(dataset: Path) -> celltile.Dataset:
    return celltile.open(dataset)


@pytest.fixture(scope="module")
def ordered(source: Any, ds: celltile.Dataset) -> Any:
    """The source with its genes in the dataset's order."""
    return source[:, ds.var_names.tolist()].copy()


def same(found: Any, expected: Any) -> None:
    assert found.shape == expected.shape
    assert found.X.has_sorted_indices
    np.testing.assert_array_equal(found.X.toarray(), expected.X.toarray())
    assert found.obs_names.tolist() == expected.obs_names.tolist()
    assert found.var_names.tolist() == expected.var_names.tolist()
    for name in expected.obs:
        assert found.obs[name].tolist() == expected.obs[name].tolist(), name
    assert found.var.equals(expected.var)


def random_cells(rng: np.random.Generator, n: int) -> Any:  # noqa: PLR0911
    kind = rng.integers(9)
    a, b = sorted(int(x) for x in rng.integers(-n, n, 2))
    match kind:
        case 0:
            return slice(a, b)
        case 1:
            return slice(None, b, int(rng.integers(1, 9)))
        case 2:
            return slice(b, a, -int(rng.integers(1, 9)))
        case 3:
            return rng.integers(-n, n, int(rng.integers(0, 50)))
        case 4:
            return rng.integers(0, n, 10).tolist()
        case 5:
            return rng.random(n) < rng.random()
        case 6:
            return pd.Series(rng.random(n) < 0.01)
        case 7:
            return np.sort(rng.integers(0, n, 200)).astype(np.int32)
        case _:
            return int(rng.integers(-n, n))


def as_anndata_takes(key: Any, n: int) -> Any:
    """anndata refuses some keys (negative indices in arrays, repeats are fine): positions for all."""
    if isinstance(key, (int, np.integer)):
        return [int(key) % n]
    if isinstance(key, slice):
        return np.arange(n)[key]
    array = np.asarray(key)
    if array.size == 0:
        return np.array([], dtype=int)
    return np.flatnonzero(array) if array.dtype == bool else array % n


@pytest.mark.parametrize("seed", range(60))
def test_random_selection(ds: celltile.Dataset, ordered: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = random_cells(rng, ds.n_cells)
    expected = ordered[as_anndata_takes(cells, ds.n_cells)]
    if seed % 3 == 0:
        same(ds[cells], expected)
        return
    genes = random_cells(rng, ds.n_genes)
    where = as_anndata_takes(genes, ds.n_genes)
    if seed % 3 == 2:
        # Names, which anndata takes once each.
        where = np.unique(where)
        rng.shuffle(where)
        genes = ds.var_names[where].tolist()
    same(ds[cells, genes], expected[:, where])


def test_whole(ds: celltile.Dataset, ordered: Any, source: Any) -> None:
    same(ds.to_anndata(), ordered)
    same(ds[:], ordered)
    same(ds[..., ...], ordered)
    same(ds.to_anndata(source_order=True), source)


def test_dtypes(ds: celltile.Dataset) -> None:
    whole = ds.csr()
    assert whole.dtype == np.int32
    floats = ds.csr(dtype="float32")
    assert floats.dtype == np.float32
    assert (whole != floats).nnz == 0
    assert ds[:3].X.dtype == np.int32
    with pytest.raises(ValueError, match="dtype"):
        ds.csr(dtype="float64")  # type: ignore[arg-type]


def test_arrays_are_numpy_own(ds: celltile.Dataset) -> None:
    indptr, indices, data = ds.arrays(slice(0, 100))
    assert (indptr.dtype, indices.dtype, data.dtype) == (np.int64, np.int32, np.int32)
    for array in (indptr, indices, data):
        assert array.flags.writeable
        assert array.flags.c_contiguous
        # Rust's memory, kept alive by the array's base: nothing was copied.
        assert array.base is not None
    data[:] = 0
    assert ds.arrays(slice(0, 100))[2].any()


def test_scipy_takes_the_arrays_as_they_are(ds: celltile.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    read = ds._native.rows
    kept: list[Any] = []

    class Spy:
        def __getattr__(self, name: str) -> Any:
            return getattr(native, name)

        def rows(self, *args: Any, **options: Any) -> Any:
            kept.append(read(*args, **options))
            return kept[-1]

    native = ds._native
    monkeypatch.setattr(ds, "_native", Spy())
    matrix = ds.csr(slice(0, 500))
    (arrays,) = kept
    assert np.shares_memory(matrix.indices, arrays[1])
    assert np.shares_memory(matrix.data, arrays[2])


def test_repeated_genes(ds: celltile.Dataset, ordered: Any) -> None:
    genes = [5, 2, 5, 5, 0]
    np.testing.assert_array_equal(ds.csr(slice(10), genes).toarray(), ordered.X[:10].toarray()[:, genes])
    with pytest.raises(ValueError, match="more than once"):
        ds.arrays(slice(10), genes)


def test_empty(ds: celltile.Dataset) -> None:
    assert ds[[]].shape == (0, 300)
    assert ds[5:5].shape == (0, 300)
    assert ds[:, []].shape == (1500, 0)
    assert ds[np.zeros(1500, dtype=bool)].shape == (0, 300)


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (1500, IndexError),
        (-1501, IndexError),
        ([0, 1500], IndexError),
        (2**70, IndexError),
        ([2**70], IndexError),
        (np.zeros(1499, dtype=bool), IndexError),
        (True, TypeError),
        ("AAACCTG", TypeError),
        (["AAACCTG"], TypeError),
        ([1.5], TypeError),
        (slice("a", "b"), TypeError),
        (np.zeros((2, 2), dtype=int), ValueError),
        ((0, "no gene of that name"), KeyError),
        ((0, ["no gene", "nor that"]), KeyError),
        ((0, 300), IndexError),
        ((0, 0, 0), IndexError),
    ],
)
def test_bad_key(ds: celltile.Dataset, key: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        ds[key]


def test_error_says_what_was_asked(ds: celltile.Dataset) -> None:
    with pytest.raises(celltile.OutOfRangeError, match="cell 1500 is out of range: there are 1500"):
        ds[1500]
    with pytest.raises(celltile.NoGeneError, match="there is no gene 'nix'"):
        ds[0, "nix"]


def test_not_iterable(ds: celltile.Dataset) -> None:
    with pytest.raises(TypeError):
        iter(ds)  # type: ignore[call-overload]
    assert len(ds) == 1500


def test_random_slices_of_many_tiles(big: Path) -> None:
    """Several cores and calls that run on a thread of their own give what single cells give."""
    ds = celltile.open(big)
    rng = np.random.default_rng(0)
    whole = ds.csr()
    for _ in range(5):
        cells = rng.integers(0, ds.n_cells, 300)
        assert (ds.csr(cells) != whole[cells]).nnz == 0
    one = celltile.open(big, threads=1)
    assert (one.csr(slice(1500, 6500)) != whole[1500:6500]).nnz == 0


def test_memory_of_large_results_is_used_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    counts = sparse.csr_matrix(rng.integers(0, 4, (3000, 400)).astype(np.int32))
    anndata = pytest.importorskip("anndata")
    celltile.write(anndata.AnnData(counts), tmp_path / "ds")
    ds = celltile.open(tmp_path / "ds")
    want = ds.csr(np.arange(3000)).copy()
    first = ds.csr(rng.permutation(3000))
    assert first.nnz >= 1 << 19
    second = ds.csr(np.arange(2900))
    assert not np.shares_memory(first.data, second.data)
    assert (second != want[:2900]).nnz == 0
    at = second.data.ctypes.data
    view = second.data[5:9]
    before = view.copy()
    del second
    # The view keeps the memory, so that the next result takes another.
    cells = rng.integers(0, 3000, 2900)
    third = ds.csr(cells)
    assert third.data.ctypes.data != at
    np.testing.assert_array_equal(view, before)
    assert (third != want[cells]).nnz == 0
    del view
    fourth = ds.csr(cells[::-1])
    assert fourth.data.ctypes.data == at
    assert (fourth != want[cells[::-1]]).nnz == 0
    # A result outlives its dataset.
    del ds
    assert (fourth != want[cells[::-1]]).nnz == 0
