"""The forms in which a batch's counts are handed out."""

from __future__ import annotations

import sys
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from celltile._exceptions import ArgumentError
from celltile._optional import need

Layout: TypeAlias = Literal["csr", "numpy", "torch", "torch_csr", "jax"]

LAYOUTS = get_args(Layout)


def build(
    layout: Layout,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    data: NDArray[Any],
    n_genes: int,
    *,
    pin: bool,
) -> Any:
    """A batch's counts in a layout. Sparse ones share the arrays' memory."""
    shape = (len(indptr) - 1, n_genes)
    if layout == "csr":
        return scipy_csr(indptr, indices, data, shape)
    if layout == "numpy":
        return dense(indptr, indices, data, shape)
    if layout == "jax":
        return need("jax", "the layout 'jax'").dlpack.from_dlpack(dense(indptr, indices, data, shape))
    torch = need("torch", f"the layout {layout!r}")
    if pin and not torch.cuda.is_available():
        raise ArgumentError("pin_memory: found no CUDA device, for which memory could be pinned")
    if layout == "torch":
        out = torch.from_numpy(dense(indptr, indices, data, shape))
    else:
        out = torch_csr(torch, (_narrow(indptr, data), indices, data), shape)
    return pinned(out) if pin else out


def _narrow(indptr: NDArray[np.int64], data: NDArray[Any]) -> NDArray[Any]:
    """``indptr`` as wide as ``indices`` if it can be: libraries want both alike."""
    return indptr.astype(np.int32) if len(data) < 1 << 31 else indptr


def scipy_csr(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], data: NDArray[Any], shape: tuple[int, int]
) -> Any:
    """A SciPy matrix over these arrays, whose indices do not decrease within a row.

    In datasets of other makers a gene may be there twice: SciPy looks for that when it matters.
    """
    sparse = need("scipy.sparse", "the layout 'csr'")
    matrix = sparse.csr_matrix(shape, dtype=data.dtype)
    # What the constructor would do, without looking at every index again.
    matrix.indptr, matrix.indices, matrix.data = _narrow(indptr, data), indices, data
    matrix.has_sorted_indices = True
    return matrix


def dense(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], data: NDArray[Any], shape: tuple[int, int]
) -> NDArray[Any]:
    """A dense array with these nonzeros; those of one place are added up, as in every sparse matrix."""
    out = np.zeros(shape, dtype=data.dtype)
    places = np.repeat(np.arange(shape[0], dtype=np.int64) * shape[1], np.diff(indptr))
    places += indices
    if np.any(places[1:] == places[:-1]):
        np.add.at(out.reshape(-1), places, data)
    else:
        out.reshape(-1)[places] = data
    return out


def torch_csr(torch: Any, parts: tuple[NDArray[Any], ...], shape: tuple[int, int]) -> Any:
    """A tensor of PyTorch over the three arrays of a CSR matrix."""
    tensors = [torch.from_numpy(part) for part in parts]
    return torch.sparse_csr_tensor(*tensors, size=shape, check_invariants=False)


def pinned(X: Any) -> Any:
    """A tensor of PyTorch in pinned memory; anything else as it is."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(X, torch.Tensor):
        return X
    if X.layout != torch.sparse_csr:
        return X.pin_memory()
    parts = [part.pin_memory() for part in (X.crow_indices(), X.col_indices(), X.values())]
    return torch.sparse_csr_tensor(*parts, size=X.shape, check_invariants=False)
