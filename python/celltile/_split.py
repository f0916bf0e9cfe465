"""Which cells are for training and which for testing: whole groups, the same for the same seed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from celltile._exceptions import ArgumentError


def check_fractions(fractions: Mapping[str, float] | Sequence[float]) -> tuple[list[str] | None, list[float]]:
    """Names, if there are any, and shares that add up to at most 1."""
    names = list(fractions) if isinstance(fractions, Mapping) else None
    shares = [float(x) for x in (fractions.values() if isinstance(fractions, Mapping) else fractions)]
    if not shares or any(not 0 < share <= 1 for share in shares):
        raise ArgumentError(f"fractions: found {shares}, expected numbers above 0 and at most 1")
    if sum(shares) > 1 + 1e-9:
        raise ArgumentError(f"fractions: they add up to {sum(shares)}, expected at most 1")
    return names, shares


def split_groups(
    codes: NDArray[np.int64], labels: Sequence[str], shares: Sequence[float], seed: int
) -> list[NDArray[np.int64]]:
    """Cells of each part, in order; a group's cells are all in one part.

    ``codes`` names each cell's group, an index into ``labels``. Groups are taken in an order that depends
    on the seed and their labels only, and each goes to the part that lacks the most of its share. What no
    share asks for is in no part.
    """
    sizes = np.bincount(codes, minlength=len(labels))
    order = sorted(
        (group for group in range(len(labels)) if sizes[group]),
        key=lambda group: hashlib.sha256(f"{seed}\n{labels[group]}".encode()).digest(),
    )
    if len(order) < len(shares):
        raise ArgumentError(f"{len(order)} groups cannot be split into {len(shares)} parts")
    rest = max(0.0, 1 - sum(shares))
    wanted = np.array([*shares, rest]) * len(codes)
    lacks = wanted.copy()
    # Large groups first, so that small ones even out; those of one size in the seed's order.
    order.sort(key=lambda group: -int(sizes[group]))
    part_of = np.full(len(labels), -1)
    for at, group in enumerate(order):
        empty = [part for part in range(len(shares)) if not np.any(part_of == part)]
        # No part stays empty.
        if len(order) - at <= len(empty):
            part = empty[0]
        else:
            part = int(np.argmax(lacks if rest > 1e-9 else lacks[:-1]))
        part_of[group] = part
        lacks[part] -= sizes[group]
    of_cell = part_of[codes]
    return [np.flatnonzero(of_cell == part).astype(np.int64) for part in range(len(shares))]


def split_cells(n_cells: int, shares: Sequence[float], seed: int) -> list[NDArray[np.int64]]:
    """Cells of each part, drawn at random, each part in order."""
    order = np.argsort(_scrambled(n_cells, seed), kind="stable")
    ends = np.rint(np.cumsum(shares) * n_cells).astype(np.int64).clip(max=n_cells)
    starts = np.concatenate([[0], ends[:-1]])
    return [np.sort(order[start:end]).astype(np.int64) for start, end in zip(starts, ends, strict=True)]


def _scrambled(n: int, seed: int) -> NDArray[np.uint64]:
    """A number for each cell: the output function of SplitMix64, the same wherever and whenever it is
    computed.
    """
    digest = hashlib.sha256(f"{seed}".encode()).digest()
    start = np.uint64(int.from_bytes(digest[:8], "little"))
    step = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        x = start + step * np.arange(1, n + 1, dtype=np.uint64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
