"""A reader of deltacells datasets, written from the specification's text alone.

It shares no code with celltile, and is slow on purpose: each rule is one line, to be held against the text.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np


class FormatError(ValueError):
    """A rule of the format is broken."""


def check(condition: Any, what: str) -> None:
    if not condition:
        raise FormatError(what)


def inflate(frame: bytes, size: int) -> bytes:
    import pyarrow  # noqa: PLC0415

    try:
        return bytes(pyarrow.decompress(frame, decompressed_size=size, codec="zstd", asbytes=True))
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise FormatError(f"zstd: {error}") from error


@dataclass(frozen=True)
class Tile:
    n_genes: int
    indptr: list[int]
    genes: list[int]
    counts: list[int]


def frame_extent(data: bytes) -> tuple[int, int]:
    """Content size and length of the zstd frame at the start of some bytes (RFC 8878)."""
    check(len(data) >= 5 and data[:4] == b"\x28\xb5\x2f\xfd", "a stream is a zstd frame")
    descriptor = data[4]
    single_segment = descriptor >> 5 & 1
    at = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    flag = descriptor >> 6
    width = (1 if single_segment else 0, 2, 4, 8)[flag]
    check(width, "a frame includes its content size")
    check(len(data) >= at + width, "a frame is whole")
    content = int.from_bytes(data[at : at + width], "little") + (256 if flag == 1 else 0)
    at += width
    last = False
    while not last:
        check(len(data) >= at + 3, "a frame is whole")
        block = int.from_bytes(data[at : at + 3], "little")
        last = bool(block & 1)
        kind = block >> 1 & 3
        check(kind != 3, "a block is of a known kind")
        at += 3 + (1 if kind == 1 else block >> 3)
    at += 4 if descriptor >> 2 & 1 else 0
    check(len(data) >= at, "a frame is whole")
    return content, at


def slot(data: bytes, offset: int, length: int, size: int) -> bytes:
    """What the single frame of a slot decompresses to, which is ``size`` bytes."""
    check(offset + length <= len(data), "a stream lies inside the tile")
    frame = data[offset : offset + length]
    content, extent = frame_extent(frame)
    check(extent == length, "a stream is one frame")
    check(content == size, f"a frame holds {content} bytes, expected {size}")
    out = inflate(frame, size)
    check(len(out) == size, "a frame decompresses to its content size")
    return out


def uint16s(planes: bytes, n: int) -> list[int]:
    """All low bytes, then all high bytes."""
    return [low | high << 8 for low, high in zip(planes[:n], planes[n:], strict=True)]


def exceptions(data: bytes, offset: int, length: int, n: int) -> list[tuple[int, int]]:
    if length == 0:
        return []
    check(offset + length <= len(data), "an exception frame lies inside the tile")
    content, _ = frame_extent(data[offset : offset + length])
    k = content // 8
    check(content % 8 == 0 and 1 <= k <= n, "an exception frame holds 8 bytes for each of at most n")
    words = struct.unpack(f"<{2 * k}I", slot(data, offset, length, 8 * k))
    positions, payloads = words[:k], words[k:]
    check(all(a < b for a, b in pairwise(positions)), "positions increase")
    check(all(p < n for p in positions), "positions are inside the chunk")
    return list(zip(positions, payloads, strict=True))


def decode_tile(data: bytes) -> Tile:
    check(len(data) >= 64, "a header has 64 bytes")
    magic, version, flags, n_cells, nnz, n_genes, n_chunks, indptr_off, total, crc, reserved = struct.unpack(
        "<8sIIQQIIQQII", data[:64]
    )
    check(magic == b"DELTACEL", "magic")
    check(version == 2, "version")
    check(flags == 0, "flags")
    check(total == len(data), "total_size is the object's size")
    check(crc == zlib.crc32(data[64:]), "crc32")
    check(reserved == 0, "reserved")
    check(1 <= n_genes <= 1 << 31, "n_genes")
    table_end = 64 + n_chunks * 96
    check(indptr_off % 8 == 0 and indptr_off >= table_end, "indptr_off")
    check(indptr_off + (n_cells + 1) * 8 <= len(data), "indptr lies inside the tile")
    indptr = list(struct.unpack_from(f"<{n_cells + 1}q", data, indptr_off))
    check(indptr[0] == 0 and indptr[-1] == nnz, "indptr goes from 0 to nnz")
    check(all(a <= b for a, b in pairwise(indptr)), "indptr does not fall")
    check((n_chunks == 0) == (n_cells == 0), "a tile without cells has no chunks")

    genes: list[int] = []
    counts: list[int] = []
    cell = nonzero = 0
    for chunk in range(n_chunks):
        fields = struct.unpack_from("<12Q", data, 64 + chunk * 96)
        cell_lo, cell_hi, nnz_lo, nnz_hi = fields[:4]
        check((cell_lo, nnz_lo) == (cell, nonzero), "a chunk starts where the one before ended")
        check(cell_lo <= cell_hi <= n_cells and nnz_lo <= nnz_hi <= nnz, "a chunk lies inside the tile")
        check(indptr[cell_lo] == nnz_lo and indptr[cell_hi] == nnz_hi, "a chunk agrees with indptr")
        n = nnz_hi - nnz_lo
        gaps = uint16s(slot(data, fields[4], fields[5], 2 * n), n)
        values = uint16s(slot(data, fields[6], fields[7], 2 * n), n)
        for position, payload in exceptions(data, fields[8], fields[9], n):
            check(65536 <= payload < 1 << 31, "the payload of a count")
            values[position] = payload
        for position, payload in exceptions(data, fields[10], fields[11], n):
            check(1 <= payload < n_genes, "the payload of a gap")
            gaps[position] += payload
        for row in range(cell_lo, cell_hi):
            gene = 0
            for at in range(indptr[row] - nnz_lo, indptr[row + 1] - nnz_lo):
                gene += gaps[at]
                check(gene < n_genes, "a gene index is below n_genes")
                genes.append(gene)
        counts.extend(values)
        cell, nonzero = cell_hi, nnz_hi
    check((cell, nonzero) == (n_cells, nnz), "the last chunk ends the tile")
    return Tile(n_genes, indptr, genes, counts)


@dataclass(frozen=True)
class Dataset:
    root: Path
    manifest: dict[str, Any]

    @classmethod
    def open(cls, root: Path) -> Dataset:
        manifest = json.loads((root / "manifest.json").read_text())
        check(manifest["format"] == "deltacells-dataset" and manifest["version"] == 2, "format and version")
        cells, size = manifest["tile_cells"], manifest["tile_size"]
        check(sum(cells) == manifest["n_cells"], "tile_cells add up to n_cells")
        check(all(n == size for n in cells[:-1]) and all(1 <= n <= size for n in cells[-1:]), "tile_cells")
        return cls(root, manifest)

    def tiles(self) -> Iterator[Tile]:
        facts = zip(*(self.manifest[key] for key in ("tile_cells", "tile_nnz", "tile_bytes")), strict=True)
        for number, (cells, nnz, size) in enumerate(facts):
            data = (self.root / f"tiles/tile_{number:06}.dct").read_bytes()
            tile = decode_tile(data)
            check(len(data) == size, "tile_bytes")
            check((len(tile.indptr) - 1, tile.indptr[-1]) == (cells, nnz), "tile_cells and tile_nnz")
            check(tile.n_genes == self.manifest["n_genes"], "n_genes")
            yield tile

    def csr(self) -> tuple[list[int], list[int], list[int]]:
        """The whole matrix."""
        indptr, genes, counts = [0], [], []
        for tile in self.tiles():
            before = indptr[-1]
            indptr.extend(before + offset for offset in tile.indptr[1:])
            genes.extend(tile.genes)
            counts.extend(tile.counts)
        return indptr, genes, counts

    def gene_order(self) -> list[int] | None:
        return np.load(self.root / "gene_order.npy").tolist() if self.manifest["has_gene_order"] else None

    def var_names(self) -> list[str] | None:
        if not self.manifest["has_var_names"]:
            return None
        return (self.root / "var_names.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")

    def obs(self) -> dict[str, list[Any]] | None:
        """Columns as Python values: categories in place of their codes, ``None`` where missing."""
        import pyarrow.parquet  # noqa: PLC0415

        if not self.manifest["has_obs"]:
            return None
        text = (self.root / "obs/schema.json").read_text(encoding="utf-8")
        schema = json.loads(text)
        check(schema["format"] == "deltacells-obs" and schema["version"] == 1, "obs: format and version")
        columns: dict[str, list[Any]] = {column["name"]: [] for column in schema["columns"]}
        cells, per_shard = self.manifest["tile_cells"], self.manifest["obs_tiles_per_file"]
        digests = self.manifest["obs_shard_sha256"]
        for shard, digest in enumerate(digests):
            path = self.root / f"obs/obs_{shard:04}.parquet"
            data = path.read_bytes()
            check(len(data) == self.manifest["obs_shard_bytes"][shard], "obs_shard_bytes")
            check(hashlib.sha256(data).hexdigest() == digest, "obs_shard_sha256")
            file = pyarrow.parquet.ParquetFile(path)
            own = cells[shard * per_shard : (shard + 1) * per_shard]
            groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            check(groups == own, "one row group a tile")
            check(file.schema_arrow.names == list(columns), "the schema's columns, in order")
            table = file.read()
            for column in schema["columns"]:
                values = table.column(column["name"]).to_pylist()
                if column["kind"] == "category":
                    values = [None if code == -1 else column["categories"][code] for code in values]
                columns[column["name"]].extend(values)
        document = {"schema": text, "tile_cells": cells, "shards": digests}
        canonical = json.dumps(document, sort_keys=True).encode()
        check(
            hashlib.sha256(canonical).hexdigest()[:24] == self.manifest["obs_fingerprint"], "obs_fingerprint"
        )
        return columns
