"""A dataset, open for reading."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from celltile import _native
from celltile._exceptions import ArgumentError, CelltileError, NoColumnError, VerificationError
from celltile._frames import to_pandas
from celltile._matrix import CountType, read, width
from celltile._optional import need
from celltile._progress import Progress, showing
from celltile._selection import Chosen, choose, choose_genes
from celltile._split import check_fractions, split_cells, split_groups

if TYPE_CHECKING:
    import anndata
    import pandas as pd
    import scipy.sparse

    from celltile._zarr import ZarrStore
    from celltile.loader import Loader

_GIB = 1 << 30


def is_url(location: str) -> bool:
    """Whether a location is a URL rather than a path."""
    scheme, found, _ = location.partition("://")
    return bool(found) and len(scheme) > 1 and scheme[0].isalpha()


class Dataset:
    """A dataset, open for reading; :func:`celltile.open` makes one.

    Slices are AnnData objects: ``ds[10:20]``, ``ds[[3, 1, 2]]``, ``ds[mask]``, ``ds[cells, genes]`` with
    genes by position or by name. Cells may come in any order, and more than once. Only what is asked for
    is read and decoded, on all cores, without the interpreter's lock. Genes are in the dataset's own
    order, which is that of ``var_names``.

    A dataset can be shared between threads, pickled (as its location and options), and used after a fork:
    the child opens it anew.
    """

    def __init__(
        self,
        location: str | os.PathLike[str],
        *,
        cache_dir: str | os.PathLike[str] | None = None,
        cache_tiles: bool | int = False,
        verify: Literal["full", "structure"] = "full",
        threads: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        location = os.fsdecode(location)
        if not is_url(location):
            # Another process may be elsewhere.
            location = os.path.abspath(location)
        self._location = location
        self._options: dict[str, Any] = {
            "cache_dir": None if cache_dir is None else os.path.abspath(os.fspath(cache_dir)),
            "cache_tiles": cache_tiles,
            "verify": verify,
            "threads": threads,
            "settings": dict(settings or {}),
        }
        self._native = _native.Dataset(
            location,
            threads=threads,
            verify=verify,
            cache_dir=self._options["cache_dir"],
            tile_cache=_tile_cache(self._options["cache_dir"], cache_tiles),
            settings=list(self._options["settings"].items()),
        )
        self._names: list[str] | None = None
        self._positions: dict[str, int] | None = None
        self._var: pd.DataFrame | None = None
        self._schema: tuple[list[tuple[str, str, str]], str | None] | None = None

    # What it is

    @property
    def location(self) -> str:
        """Path or URL."""
        return self._location

    @property
    def shape(self) -> tuple[int, int]:
        """Cells and genes."""
        return self.n_cells, self.n_genes

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self._native.n_cells

    @property
    def n_genes(self) -> int:
        """Number of genes."""
        return self._native.n_genes

    @property
    def nnz(self) -> int:
        """Number of counts that are not zero."""
        return self._native.nnz

    @property
    def nbytes(self) -> int:
        """Bytes of the tiles, as they are stored."""
        return self._native.tile_bytes

    @property
    def n_tiles(self) -> int:
        """Number of tiles."""
        return self._native.n_tiles

    @property
    def metadata(self) -> dict[str, Any]:
        """The free-form part of the manifest: a copy."""
        return json.loads(self._native.metadata_json)

    def __len__(self) -> int:
        return self.n_cells

    # The old protocol of iteration would hand out the cells one by one, each a read of its own.
    __iter__ = None

    def __repr__(self) -> str:
        cells, genes = self.shape
        size = _size(self.nbytes)
        lines = [
            f"celltile.Dataset {self._native.shown!r}",
            f"  {cells:,} cells x {genes:,} genes, {self.nnz:,} nonzeros in {self.n_tiles:,} tiles of {size}",
        ]
        try:
            fields, index = self._obs_schema()
        except CelltileError as error:
            # What cannot be read is for whoever reads it to hear of.
            return "\n".join([*lines, f"  obs: {error}"])
        columns = [(name, kind) for name, kind, _ in fields if name != index]
        if columns:
            shown = [f"{name} ({kind})" for name, kind in columns[:8]]
            more = f" and {len(columns) - 8} more" if len(columns) > 8 else ""
            lines.append(f"  obs: {', '.join(shown)}{more}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self._location, self._options)

    # Genes

    @property
    def var_names(self) -> NDArray[np.object_]:
        """Names of the genes in the dataset's order; their numbers as text where it has no names."""
        if self._names is None:
            names = self._native.var_names()
            if names is None:
                table = self._native.var()
                index = None if table is None else table["index"]
                if index is not None and index["kind"] == "string":
                    names = ["" if name is None else name for name in index["values"]]
                else:
                    names = [str(gene) for gene in range(self.n_genes)]
            self._names = names
        out = np.empty(len(self._names), dtype=object)
        out[:] = self._names
        return out

    @property
    def var(self) -> pd.DataFrame:
        """The gene table, in the dataset's order: a copy."""
        if self._var is None:
            pd = need("pandas", "the gene table")
            parts = self._native.var()
            if parts is None:
                self._var = pd.DataFrame(index=pd.Index(self.var_names, dtype=object))
            else:
                self._var = to_pandas(parts)
        return self._var.copy()

    @property
    def gene_order(self) -> NDArray[np.int64] | None:
        """The column of the source that each gene was; ``None`` if the dataset does not say."""
        order = self._native.gene_order()
        return None if order is None else np.array(order, dtype=np.int64)

    def gene_positions(self, genes: Any) -> NDArray[np.int64]:
        """Positions of genes that are given by name, or in any way that indexing allows."""
        return np.asarray(self._genes(genes), dtype=np.int64)

    def _lookup(self) -> dict[str, int]:
        if self._positions is None:
            positions: dict[str, int] = {}
            for at, name in enumerate(self.var_names):
                positions[name] = -1 if name in positions else at
            self._positions = positions
        return self._positions

    def _genes(self, key: Any) -> Chosen:
        return choose_genes(key, self.n_genes, self._lookup)

    # Cells

    def _obs_schema(self) -> tuple[list[tuple[str, str, str]], str | None]:
        if self._schema is None:
            self._schema = self._native.obs_schema()
        return self._schema

    @property
    def obs_columns(self) -> list[str]:
        """Names of the columns of obs, the cells' names not among them."""
        fields, index = self._obs_schema()
        return [name for name, _, _ in fields if name != index]

    def obs(self, columns: str | Sequence[str] | None = None, cells: Any = None) -> pd.DataFrame:
        """Columns of obs, all if none are named, of all cells or of those chosen as in square brackets.

        Categories, their order, those that no cell has, and masked dtypes are those of the source; cell
        names are the index. Columns are fetched once and kept in the cache folder. A missing column is a
        :class:`NoColumnError`.
        """
        fields, index = self._obs_schema()
        wanted = (
            [columns] if isinstance(columns, str) else self.obs_columns if columns is None else list(columns)
        )
        there = {name for name, _, _ in fields}
        missing = [name for name in wanted if name not in there]
        if missing:
            raise NoColumnError(
                f"there is no obs column {missing[0]!r}; there are {', '.join(self.obs_columns)}"
            )
        names = list(dict.fromkeys([*wanted, *([] if index is None else [index])]))
        chosen = None if cells is None else choose(cells, self.n_cells, "cell")
        if isinstance(chosen, range):
            chosen = None if len(chosen) == self.n_cells else np.arange(chosen.start, chosen.stop)
        frame = to_pandas(self._native.obs(names, None if chosen is None else chosen.astype(np.uint64)))
        if index is None and chosen is not None:
            frame.index = need("pandas", "obs").Index(chosen)
        return frame

    def split(
        self,
        by: str | Sequence[str] | None = None,
        fractions: Mapping[str, float] | Sequence[float] = (0.8, 0.2),
        seed: int = 0,
    ) -> Any:
        """Cells for training, testing and so on, as arrays of indices: a list, or a dictionary as
        ``fractions`` is one.

        ``by`` names one or more columns of obs: cells that agree in them are a group, and a group's cells
        are all in one part (a missing value is a value of its own). The parts' sizes are as near to the
        fractions as whole groups allow. Without ``by`` single cells are drawn. The result depends on the
        groups, the fractions and the seed only.
        """
        names, shares = check_fractions(fractions)
        if by is None:
            parts = split_cells(self.n_cells, shares, seed)
        else:
            columns = [by] if isinstance(by, str) else list(by)
            if not columns:
                raise ArgumentError("by: found no columns, expected at least one")
            frame = self.obs(columns)
            labels = [_label(frame[column]) for column in columns]
            joined = labels[0] if len(labels) == 1 else ["\x1f".join(x) for x in zip(*labels, strict=True)]
            groups, codes = np.unique(np.array(joined, dtype=object), return_inverse=True)
            parts = split_groups(codes.astype(np.int64), groups.tolist(), shares, seed)
        return parts if names is None else dict(zip(names, parts, strict=True))

    # The matrix

    def csr(
        self,
        cells: Any = None,
        genes: Any = None,
        *,
        dtype: CountType = "int32",
        round_counts: bool = False,
    ) -> scipy.sparse.csr_matrix:
        """Counts of cells as a SciPy CSR matrix; all cells and genes if none are chosen.

        ``float32`` holds counts up to 2^24 exactly; larger ones are an error unless ``round_counts``.
        """
        sparse = need("scipy.sparse", "a sparse matrix")
        chosen = self._genes(genes)
        indptr, indices, data, ordered = read(
            self._native, choose(cells, self.n_cells, "cell"), chosen, dtype, round_counts
        )
        if len(data) < 1 << 31:
            # What SciPy would choose; it takes the other two as they are.
            indptr = indptr.astype(np.int32)
        columns, repeat = width(chosen)
        shape = len(indptr) - 1, columns
        matrix = sparse.csr_matrix((data, indices, indptr), shape=shape, copy=False)
        if not ordered:
            matrix.sort_indices()
        return matrix if repeat is None else matrix[:, repeat]

    def arrays(
        self,
        cells: Any = None,
        genes: Any = None,
        *,
        dtype: CountType = "int32",
        round_counts: bool = False,
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
        """Counts of cells as the three arrays of a CSR matrix: ``indptr``, ``indices``, ``data``.

        Needs NumPy only. ``indices`` count the chosen genes, in the order in which they were chosen;
        within a cell they come in the dataset's order. A gene may be chosen once.
        """
        chosen = self._genes(genes)
        if width(chosen)[1] is not None:
            raise ArgumentError("genes: a gene is chosen more than once, which arrays() does not do")
        indptr, indices, data, _ = read(
            self._native, choose(cells, self.n_cells, "cell"), chosen, dtype, round_counts
        )
        return indptr, indices, data

    def __getitem__(self, key: Any) -> anndata.AnnData:
        if isinstance(key, tuple):
            if len(key) > 2:
                raise IndexError(f"{len(key)} indices, expected cells and genes")
            cells, genes = (*key, None, None)[:2]
        else:
            cells, genes = key, None
        return self.to_anndata(cells, genes)

    def to_anndata(
        self,
        cells: Any = None,
        genes: Any = None,
        *,
        columns: str | Sequence[str] | None = None,
        dtype: CountType = "int32",
        source_order: bool = False,
    ) -> anndata.AnnData:
        """Cells as an AnnData object in memory: ``X`` (CSR), ``obs`` and ``var``.

        All cells and genes if none are chosen, and all columns of obs if none are named. ``source_order``
        puts the genes into the order of the file that the dataset was made from, instead of choosing them.
        """
        module = need("anndata", "a slice")
        if source_order:
            if genes is not None:
                raise ArgumentError("source_order: genes are chosen, which have an order of their own")
            order = self.gene_order
            genes = None if order is None else np.argsort(order, kind="stable")
        chosen = choose(cells, self.n_cells, "cell")
        kept = self._genes(genes)
        matrix = self.csr(chosen, kept, dtype=dtype)
        obs = self.obs(columns, chosen)
        var = self.var.iloc[kept.start : kept.stop] if isinstance(kept, range) else self.var.iloc[kept]
        for frame in (obs, var):
            if frame.index.inferred_type not in ("string", "empty"):
                frame.index = frame.index.astype(str)
        return module.AnnData(X=matrix, obs=obs, var=var)

    # Minibatches

    def loader(
        self,
        batch_size: int = 4096,
        shuffle: Literal["tiles", "chunks", "cells", False] = "chunks",
        seed: int = 0,
        columns: str | Sequence[str] = (),
        **options: Any,
    ) -> Loader:
        """Batches of cells, in random order, one epoch a ``for`` loop; see :class:`celltile.loader.Loader`
        for all options. ::

            loader = ds.loader(batch_size=4096, shuffle="chunks", seed=0, columns=["cell_type"])
            for batch in loader:
                train(batch.X, batch.obs["cell_type"])
        """
        module = need("celltile.loader", "a loader")
        return module.Loader(self, batch_size, shuffle, seed, columns, **options)

    # Other stores

    def to_zarr(
        self,
        target: str | os.PathLike[str],
        *,
        cut: Literal["chunk", "tile", "regular"] = "chunk",
        nonzeros: int = 1 << 20,
        zstd_level: int | None = None,
        dtype: CountType = "int32",
        threads: int | None = None,
        progress: Progress = None,
    ) -> dict[str, Any]:
        """Write the dataset as an AnnData store of Zarr v3 to a new folder or URL, and say what was
        written.

        ``cut`` says where the nonzeros are cut into grid chunks: ``"chunk"`` joins tile chunks up to
        ``nonzeros``, ``"tile"`` takes whole tiles (both make a rectilinear grid), ``"regular"`` makes
        chunks of ``nonzeros`` for any reader.
        """
        with showing(progress) as tell:
            return _native.zarr_export(
                self._native,
                target,
                cut=cut,
                nonzeros=nonzeros,
                zstd_level=zstd_level,
                float32=dtype == "float32",
                threads=threads,
                progress=tell,
            )

    def zarr_store(
        self,
        *,
        cut: Literal["chunk", "tile", "regular"] = "chunk",
        nonzeros: int = 1 << 20,
        zstd_level: int | None = None,
        dtype: CountType = "int32",
    ) -> ZarrStore:
        """The dataset as a read-only store of zarr-python: what :meth:`to_zarr` would write, made when it
        is asked for.

        zarr-python 3.4 reads rectilinear grids once it is told to, by
        ``zarr.config.set({"array.rectilinear_chunks": True})``; ``cut="regular"`` is for those that do not.
        """
        need("zarr", "a Zarr store")
        module = need("celltile._zarr", "a Zarr store")
        options = {"cut": cut, "nonzeros": nonzeros, "zstd_level": zstd_level, "float32": dtype == "float32"}
        return module.ZarrStore(self, options)

    # Soundness

    def verify(self, *, strict: bool = False, progress: Progress = None) -> None:
        """Hold the dataset against its manifest: sizes, checksums, hashes, missing and surplus files.

        ``strict`` decodes every count too and checks every rule of the format. All faults are found before
        the :class:`VerificationError` that lists them is raised.
        """
        with showing(progress) as tell:
            faults = self._native.verify(strict=strict, progress=tell)
        if faults:
            shown = "\n".join(faults[:20])
            more = f"\nand {len(faults) - 20} more" if len(faults) > 20 else ""
            error = VerificationError(f"{len(faults)} faults:\n{shown}{more}")
            error.faults = faults
            raise error


def _reopen(cls: type[Dataset], location: str, options: dict[str, Any]) -> Dataset:
    return cls(location, **options)


def _tile_cache(cache_dir: str | None, cache_tiles: bool | int) -> tuple[str, int] | None:
    """Folder and size of the cache of tiles."""
    if cache_tiles is False:
        return None
    limit = 64 * _GIB if cache_tiles is True else int(cache_tiles)
    if limit < 1:
        raise ArgumentError(f"cache_tiles: found {cache_tiles}, expected a number of bytes, True or False")
    if cache_dir is None:
        xdg = os.environ.get("XDG_CACHE_HOME", "")
        home = xdg if os.path.isabs(xdg) else os.path.join(os.path.expanduser("~"), ".cache")
        cache_dir = os.environ.get("DELTACELLS_CACHE") or os.path.join(home, "deltacells")
    return os.path.join(cache_dir, "tiles"), limit


def _label(column: pd.Series[Any]) -> list[str]:
    """Each cell's group as text; missing ones differ from every text."""
    missing = column.isna().to_numpy()
    return ["\x00missing" if gone else str(x) for x, gone in zip(column, missing, strict=True)]


def _size(n: int) -> str:
    size = float(n)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
