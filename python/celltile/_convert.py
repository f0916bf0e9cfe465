"""Datasets from what other tools write, and from what is in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from celltile import _native
from celltile._exceptions import ArgumentError, CountError
from celltile._frames import Datetimes, Mixed, from_pandas, texts_of
from celltile._optional import need
from celltile._progress import Progress, showing

if TYPE_CHECKING:
    import anndata


@dataclass(frozen=True, slots=True)
class Summary:
    """What a conversion did."""

    #: The input, as it was named.
    input: str
    #: Kind of the input.
    format: str
    #: The matrix that was read, and why that one.
    matrix: str
    why: str
    #: Type of the source's values.
    dtype: str
    cells: int
    genes: int
    nonzeros: int
    #: Sum of all counts.
    sum: int
    tiles: int
    #: Bytes of all tiles, and of the input.
    tile_bytes: int
    input_bytes: int
    #: Cells with genes out of order, stored zeros left out, entries added to others of their cell and gene.
    unsorted_cells: int
    zeros_dropped: int
    repeated_summed: int
    #: What the input holds and a dataset does not, by path.
    not_carried: list[str]
    seconds: float
    #: All of that for people.
    text: str

    def __str__(self) -> str:
        return self.text


def convert(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: Progress = None,
    **options: Any,
) -> Summary:
    """Convert what another tool wrote (h5ad, 10x h5, ...) to a dataset at a path or URL.

    ``source`` is one input or several, which are joined as ``celltile convert`` does.

    ``options`` are those of the command ``celltile convert`` (see its ``--help``), with underscores:
    ``tile_size=5000``, ``preset="small"``, ``obs_columns=["donor", "cell_type"]``, ``round="nearest"``.
    Ctrl-C stops it; what it leaves is no dataset: ``resume=True`` goes on with it, ``overwrite=True``
    begins anew.
    """
    sources = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    arguments = _command([os.fspath(path) for path in sources], target, overwrite, options)
    with showing(progress) as tell:
        return Summary(**_native.convert(arguments, progress=tell))


def _command(
    sources: list[str], target: str | os.PathLike[str], overwrite: bool, options: Mapping[str, Any]
) -> list[str]:
    """A command line on which no name of a file is taken for an option."""
    replace = ["--overwrite"] if overwrite else []
    return [f"--output={os.fspath(target)}", *replace, *_arguments(options), "--", *sources]


def _arguments(options: Mapping[str, Any]) -> list[str]:
    """Options as a command line has them: ``name=value`` as ``--name=value``, ``True`` as ``--name``."""
    out: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            out.append(flag)
        elif isinstance(value, (str, os.PathLike)):
            out.append(f"{flag}={os.fspath(value)}")
        elif isinstance(value, Sequence):
            for item in value:
                if isinstance(item, str) and "," in item:
                    raise ArgumentError(f"{name}: {item!r} has a comma, which stands between names here")
            out.append(f"{flag}={','.join(map(str, value))}")
        elif isinstance(value, (int, float, np.integer, np.floating)):
            out.append(f"{flag}={value}")
        else:
            raise ArgumentError(
                f"{name}: found {type(value).__name__}, expected text, a number, a bool or a list"
            )
    return out


# Entries looked at to tell counts from other numbers.
_SAMPLE = 100_000


def write(
    adata: anndata.AnnData,
    target: str | os.PathLike[str],
    *,
    matrix: str = "auto",
    overwrite: bool = False,
    obs_mixed: Mixed = "refuse",
    obs_datetime: Datetimes = "refuse",
    progress: Progress = None,
    **options: Any,
) -> Summary:
    """Write an AnnData object (in memory or backed) as a dataset at a path or URL: its counts, ``obs`` and
    ``var``.

    ``matrix`` is ``"X"``, ``"raw/X"``, ``"layers/NAME"``, or ``"auto"``: the first of ``raw/X``,
    ``layers/counts`` and ``X`` that holds counts. Values must be whole numbers from 0 to 2^31 - 1;
    ``round="nearest"`` and ``round="floor"`` make them such. Columns that the format cannot hold are
    refused, all at once; ``obs_mixed="string"`` makes text of those that mix types, and ``obs_datetime``
    says what becomes of dates. The other options are those of :func:`convert` that are about encoding.
    """
    if not hasattr(adata, "obs") or not hasattr(adata, "raw"):
        raise TypeError(f"expected an AnnData object, found {type(adata).__name__}")
    name, why, values, var = _choose(adata, matrix)
    genes = texts_of(var.index)
    obs_parts = from_pandas(adata.obs, "obs", mixed=obs_mixed, datetimes=obs_datetime)
    var_parts = from_pandas(var, "var", mixed=obs_mixed, datetimes=obs_datetime)
    cells, n_genes = map(int, values.shape)
    if n_genes != len(genes):
        raise ArgumentError(f"{name}: {n_genes} genes, but {len(genes)} names")
    stored = _stored(values)
    parts = {
        "name": "AnnData",
        "matrix": name,
        "why": why,
        "dtype": str(values.dtype),
        "shape": (cells, n_genes),
        "stored": stored,
        "bytes": stored * (np.dtype(values.dtype).itemsize + 4),
        "genes": genes,
        "obs": obs_parts,
        "var": var_parts,
        "not_carried": _not_carried(adata, name),
    }
    arguments = _command(["AnnData"], target, overwrite, options)
    with showing(progress) as tell:
        return Summary(**_native.write(parts, _blocks(values), arguments, progress=tell))


def _choose(adata: anndata.AnnData, matrix: str) -> tuple[str, str, Any, Any]:
    """Name of the matrix, why that one, its values and its gene table."""
    found: dict[str, tuple[Any, Any]] = {}
    if adata.raw is not None:
        found["raw/X"] = (adata.raw.X, adata.raw.var)
    for layer in adata.layers:
        found[f"layers/{layer}"] = (adata.layers[layer], adata.var)
    if adata.X is not None:
        found["X"] = (adata.X, adata.var)
    if matrix != "auto":
        if matrix not in found:
            raise ArgumentError(f"matrix: found {matrix!r}, expected one of {', '.join(found) or 'none'}")
        return matrix, "", *found[matrix]
    candidates = [name for name in ("raw/X", "layers/counts", "X") if name in found]
    faults: list[str] = []
    for name in candidates:
        fault = _sample_fault(found[name][0])
        if fault is None:
            why = f"holds counts, unlike {', '.join(faults)}" if faults else "the first that holds counts"
            return name, why, *found[name]
        faults.append(f"{name} ({fault})")
    raise CountError(f"AnnData: no matrix holds counts: {'; '.join(faults) or 'there is none'}")


def _sample_fault(values: Any) -> str | None:
    """The first of some values that is no count."""
    cells = values.shape[0]
    mean = max(1, _stored(values) // max(1, cells))
    step = max(1, _SAMPLE // mean // 3)
    for start in sorted({0, max(0, cells // 2 - step // 2), max(0, cells - step)}):
        data = _blocks(values)(start, min(cells, start + step))[2]
        if data.dtype.kind == "f":
            wrong = ~np.isfinite(data) | (data != np.floor(data)) | (data < 0)
        else:
            wrong = data < 0
        if wrong.any():
            return str(data[np.argmax(wrong)])
    return None


def _stored(values: Any) -> int:
    """Entries of a matrix, zeros of a dense one included."""
    nnz = getattr(values, "nnz", None)
    if nnz is None:
        indptr = getattr(values, "_indptr", None)
        nnz = int(indptr[-1]) if indptr is not None and len(indptr) else values.shape[0] * values.shape[1]
    return int(nnz)


def _blocks(values: Any) -> Any:
    """What gives cells ``start`` to ``stop`` as ``indptr`` (int64), ``indices`` and ``data``."""
    sparse = need("scipy.sparse", "writing")
    if sparse.issparse(values) and values.format != "csr":
        # Genes to cells; once, since every block needs all of it.
        values = values.tocsr()
    dtype = np.dtype(values.dtype)
    if dtype.kind not in "biuf":
        raise CountError(f"AnnData: values of dtype {dtype}, expected numbers")

    def block(start: int, stop: int) -> tuple[Any, Any, Any]:
        if sparse.issparse(values):
            low, high = int(values.indptr[start]), int(values.indptr[stop])
            indptr = values.indptr[start : stop + 1].astype(np.int64) - low
            indices, data = values.indices[low:high], values.data[low:high]
        else:
            rows = values[start:stop]
            rows = rows if sparse.issparse(rows) else np.asarray(rows)
            # Not-a-number is no zero, so that it is kept and refused. SciPy knows no half precision.
            rows = sparse.csr_matrix(rows.astype(np.float32) if rows.dtype == np.float16 else rows)
            indptr, indices, data = rows.indptr.astype(np.int64), rows.indices, rows.data
        return indptr, indices, _plain(data)

    return block


def _plain(data: Any) -> Any:
    """Numbers of a type that the extension module takes."""
    if data.dtype == np.bool_:
        return data.view(np.uint8)
    if data.dtype.kind == "f" and data.dtype.itemsize not in (4, 8):
        return data.astype(np.float32 if data.dtype.itemsize == 2 else np.float64)
    return data.astype(data.dtype.newbyteorder("="), copy=False)


def _not_carried(adata: anndata.AnnData, matrix: str) -> list[tuple[str, list[int], str]]:
    """What the object holds and a dataset does not."""
    found: list[tuple[str, list[int], str]] = []
    if adata.X is not None and matrix != "X":
        found.append(("X", list(adata.shape), type(adata.X).__name__))
    if adata.raw is not None and matrix != "raw/X":
        found.append(("raw/X", list(adata.raw.shape), type(adata.raw.X).__name__))
    for part in ("layers", "obsm", "varm", "obsp", "varp", "uns"):
        members = getattr(adata, part)
        for name in members:
            if f"{part}/{name}" != matrix:
                value = members[name]
                found.append((f"{part}/{name}", list(getattr(value, "shape", [])), type(value).__name__))
    return found
