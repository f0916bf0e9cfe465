"""A dataset as a store of zarr-python."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)

from celltile import _native
from celltile._exceptions import ArgumentError

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer, BufferPrototype

    from celltile._dataset import Dataset


class ZarrStore(Store):
    """The keys and bytes that :meth:`Dataset.to_zarr` would write, made when they are asked for. Read
    only.
    """

    def __init__(self, dataset: Dataset, options: dict[str, Any]) -> None:
        super().__init__(read_only=True)
        self._dataset = dataset
        self._options = options
        self._view = _native.ZarrView(dataset._native, **options)
        self._is_open = True

    @property
    def left_out(self) -> list[str]:
        """Columns that have no place in a Zarr store because of their names, as ``obs/name``."""
        return self._view.left_out

    def with_read_only(self, read_only: bool = False) -> ZarrStore:
        """This store: it cannot be written to."""
        if not read_only:
            raise ValueError("a dataset's Zarr store is read-only")
        return ZarrStore(self._dataset, self._options)

    def __eq__(self, value: object) -> bool:
        return (
            isinstance(value, ZarrStore)
            and self._dataset.location == value._dataset.location
            and self._options == value._options
        )

    def __hash__(self) -> int:
        return hash((self._dataset.location, tuple(self._options.items())))

    def __repr__(self) -> str:
        return f"celltile.ZarrStore({self._dataset._native.shown!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ZarrStore, (self._dataset, self._options)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The bytes of a key, or a range of them."""
        value = await asyncio.to_thread(self._bytes, key, byte_range)
        return None if value is None else prototype.buffer.from_bytes(value)

    def _bytes(self, key: str, byte_range: ByteRequest | None) -> bytes | None:
        match byte_range:
            case None:
                return self._view.get(key)
            case RangeByteRequest():
                return self._view.get(key, byte_range.start, byte_range.end)
            case OffsetByteRequest():
                return self._view.get(key, byte_range.offset)
            case SuffixByteRequest():
                size = self._view.size(key)
                return None if size is None else self._view.get(key, max(0, size - byte_range.suffix))
            case _:
                raise ArgumentError(f"byte_range: found {byte_range!r}")

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Ranges of several keys."""
        return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

    async def exists(self, key: str) -> bool:
        """Whether there is such a key."""
        return self._view.contains(key)

    async def getsize(self, key: str) -> int:
        """Bytes of a key's value."""
        size = await asyncio.to_thread(self._view.size, key)
        if size is None:
            raise FileNotFoundError(key)
        return size

    @property
    def supports_writes(self) -> bool:
        """No."""
        return False

    @property
    def supports_deletes(self) -> bool:
        """No."""
        return False

    @property
    def supports_listing(self) -> bool:
        """Yes."""
        return True

    async def set(self, key: str, value: Buffer) -> None:
        """Not here."""
        raise ValueError("a dataset's Zarr store is read-only")

    async def delete(self, key: str) -> None:
        """Not here."""
        raise ValueError("a dataset's Zarr store is read-only")

    async def list(self) -> AsyncIterator[str]:
        """Every key."""
        for key in self._view.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Every key that starts with a prefix."""
        for key in self._view.list_prefix(prefix):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Names directly in a folder."""
        for name in self._view.list_dir(prefix):
            yield name
