"""Links, types and lengths that other files do not have, and files that stand for far more bytes than they hold."""

import os
import re

import h5py
import numpy as np
from base import OUT, SMALL, TEXT, case, compress, h5ad, sparse
from h5py import h5d, h5s, h5t

with h5ad("links_elsewhere.h5ad", 5, 6) as file:
    file["X"] = h5py.ExternalLink("links.h5ad", "/real")
case("links_elsewhere.h5ad", ["no X", "links to other files (links.h5ad), which are not read"])
for name, shape in (("shape_negative.h5ad", (-5, 6)), ("shape_text.h5ad", "5 x 6")):
    with h5ad(name, 5, 6) as file:
        sparse(file, "X", (5, 6), *compress(SMALL)).attrs["shape"] = shape
    case(name, ["X has shape", "there are 5 cells and 6 genes"])
with h5ad("shape_floats.h5ad", 5, 6) as file:
    sparse(file, "X", (5, 6), *compress(SMALL)).attrs["shape"] = (5.0, 6.0)
case("shape_floats.h5ad", SMALL)
# Numbers whose bits do not stand where their size alone says; a type of the file's own that is an ordinary one.
with h5ad("odd_numbers.h5ad", 5, 6) as file:
    for name, base, change in (
        ("shifted", h5t.STD_I32LE, lambda t: (t.set_precision(16), t.set_offset(8))),
        ("bias", h5t.IEEE_F32LE, lambda t: t.set_ebias(126)),
        (
            "brain",
            h5t.IEEE_F32LE,
            lambda t: (t.set_fields(15, 7, 8, 0, 7), t.set_precision(16), t.set_size(2)),
        ),
        ("usual", h5t.STD_U32BE, lambda t: None),
    ):
        kind = base.copy()
        change(kind)
        group = sparse(file, f"layers/{name}", SMALL.shape, *compress(SMALL))
        values = group["data"][:].astype("f4" if base is h5t.IEEE_F32LE else "i4")
        del group["data"]
        space = h5s.create_simple(values.shape)
        h5d.create(group.id, b"data", kind, space).write(h5s.ALL, h5s.ALL, values)
    group = sparse(file, "layers/named", SMALL.shape, *compress(SMALL))
    file["of_its_own"] = np.dtype("i2")
    values = group["data"][:]
    del group["data"]
    group.create_dataset("data", data=values, dtype=file["of_its_own"])
for name, said in (
    ("shifted", "integer of 16 of 32 bits, from bit 8 on"),
    ("bias", "float of 32 bits that is not"),
):
    case("odd_numbers.h5ad", [f"layers/{name}/data", said], matrix=f"layers/{name}")
case("odd_numbers.h5ad", ["layers/brain/data", "float of 16 bits that is not"], matrix="layers/brain")
case("odd_numbers.h5ad", SMALL, matrix="layers/usual")
case("odd_numbers.h5ad", SMALL, matrix="layers/named")

# Columns that stand for far more bytes than the file has: slots of one long string, and chunks that were never written.
with h5ad("bomb_slots.h5ad", 5, 6) as file:
    file["X"] = SMALL
    del file["obs/_index"]
    long = file["obs"].create_dataset("_index", (5,), dtype=TEXT)
    long[0] = "x" * 1_000_000
with h5ad("bomb_attribute.h5ad", 5, 6) as file:
    file["X"] = SMALL
    file["obs"].attrs.create(
        "column-order", np.array(["x" * 1_000_000] + [""] * 3999, dtype=object), dtype=TEXT
    )
path = OUT / "bomb_attribute.h5ad"
stored = path.read_bytes()
at = next(
    found.start()
    for found in re.finditer(re.escape((1_000_000).to_bytes(4, "little")), stored)
    if 0 < int.from_bytes(stored[found.start() + 4 : found.start() + 12], "little") < len(stored)
)
path.write_bytes(stored[:at] + stored[at : at + 16] * 4000 + stored[at + 64_000 :])
case("bomb_attribute.h5ad", ["obs", "column-order"])
path = OUT / "bomb_slots.h5ad"
stored = path.read_bytes()
slot = (1_000_000).to_bytes(4, "little")
at = next(
    at for at in range(len(stored)) if stored.startswith(slot, at) and stored[at + 16 : at + 32] == bytes(16)
)
path.write_bytes(stored[:at] + stored[at : at + 16] * 5 + stored[at + 80 :])
case("bomb_slots.h5ad", ["string 1", "more text than the file has bytes"])
with h5ad("bomb_column.h5ad", 5, 6) as file:
    file["X"] = SMALL
    del file["var/_index"]
    file["var"].create_dataset("_index", (6,), dtype="S20000000", chunks=(1,), compression="gzip")
case("bomb_column.h5ad", ["var/_index", "hardly holds that"])
if hasattr(os, "mkfifo"):
    os.mkfifo(OUT / "pipe.h5ad")
    case("pipe.h5ad", ["a pipe or a device, not a file"])
