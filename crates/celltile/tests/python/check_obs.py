"""Checks the obs part of a dataset from the specification alone: pyarrow, hashlib, json.

    python check_obs.py DATASET

Recomputes fingerprint and hashes, and compares row groups, column names and types with manifest and schema. Prints the number
of shards and columns; any difference is an AssertionError.
"""

import hashlib
import json
import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as pq


def check(root):
    manifest = json.loads((root / "manifest.json").read_text())
    assert manifest["has_obs"] is True
    text = (root / "obs" / "schema.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    assert schema["format"] == "deltacells-obs" and schema["version"] == 1
    tile_cells, per_file = manifest["tile_cells"], manifest["obs_tiles_per_file"]
    n_shards = -(-len(tile_cells) // per_file)
    names = sorted(p.name for p in (root / "obs").iterdir())
    assert names == sorted(["schema.json"] + [f"obs_{s:04d}.parquet" for s in range(n_shards)]), names

    digests = []
    for shard in range(n_shards):
        data = (root / "obs" / f"obs_{shard:04d}.parquet").read_bytes()
        digests.append(hashlib.sha256(data).hexdigest())
        assert len(data) == manifest["obs_shard_bytes"][shard]
    assert digests == manifest["obs_shard_sha256"]

    document = {"schema": text, "tile_cells": tile_cells, "shards": digests}
    canonical = json.dumps(document, sort_keys=True).encode()
    assert hashlib.sha256(canonical).hexdigest()[:24] == manifest["obs_fingerprint"]

    for shard in range(n_shards):
        check_shard(
            root / "obs" / f"obs_{shard:04d}.parquet",
            schema["columns"],
            tile_cells[shard * per_file : (shard + 1) * per_file],
        )
    print(f"{n_shards} shards, {len(schema['columns'])} columns")


def check_shard(path, columns, tile_cells):
    file = pq.ParquetFile(path)
    assert file.num_row_groups == len(tile_cells)
    arrow = file.schema_arrow
    assert arrow.names == [c["name"] for c in columns], arrow.names
    for field, column in zip(arrow, columns):
        assert str(field.type) == column["arrow_type"], (column["name"], field.type)
    for group, cells in enumerate(tile_cells):
        meta = file.metadata.row_group(group)
        assert meta.num_rows == cells
        for i in range(meta.num_columns):
            assert meta.column(i).compression == "ZSTD"
            assert not meta.column(i).is_stats_set
        table = file.read_row_group(group)
        for column, values in zip(columns, table.columns):
            check_values(column, values)


def check_values(column, values):
    kind, categories = column["kind"], column["categories"]
    if kind == "category":
        n = len(categories)
        width = "int8" if n <= 128 else "int16" if n <= 32768 else "int32"
        assert column["arrow_type"] == width
        assert values.null_count == 0
        codes = values.to_pylist()
        assert all(-1 <= code < n for code in codes), column["name"]
        keys = [(type(c), c) for c in categories]
        assert len(set(keys)) == n
        return
    assert not categories
    expected = {
        "numeric": lambda t: pa.types.is_integer(t) or pa.types.is_floating(t),
        "bool": pa.types.is_boolean,
        "string": pa.types.is_string,
    }[kind]
    assert expected(values.type), (column["name"], kind, values.type)


if __name__ == "__main__":
    check(pathlib.Path(sys.argv[1]))
