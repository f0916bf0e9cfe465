"""What stands in square brackets: slices, indices, masks and names."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from celltile._exceptions import ArgumentError, NoGeneError, OutOfRangeError

#: Consecutive ones as a range, others as indices.
Chosen: TypeAlias = range | NDArray[np.int64]


def choose(key: Any, length: int, what: str) -> Chosen:
    """The cells (or genes) that a key names, none of them negative.

    ``key`` is an integer, a slice, a list or array of integers, or a mask of ``length`` booleans.
    """
    if key is None or key is Ellipsis:
        return range(length)
    if isinstance(key, slice):
        return _of_slice(key, length, what)
    if isinstance(key, range):
        key = np.arange(key.start, key.stop, key.step, dtype=np.int64)
    if isinstance(key, (bool, np.bool_, str, bytes)):
        raise TypeError(_not_by(what, f"one {type(key).__name__}"))
    if isinstance(key, (int, np.integer)):
        index = _check(np.array([key], dtype=object), length, what)[0]
        return range(int(index), int(index) + 1)
    array = np.asarray(key)
    if array.ndim == 0:
        raise TypeError(_not_by(what, type(key).__name__))
    if array.ndim != 1:
        raise ArgumentError(f"{what}s: an array of {array.ndim} dimensions, expected 1")
    if array.dtype == np.dtype(object) or array.size == 0:
        array = _of_objects(array, what)
    if array.dtype == np.bool_:
        if len(array) != length:
            raise OutOfRangeError(f"a mask of {len(array)} booleans for {length} {what}s")
        return np.flatnonzero(array).astype(np.int64, copy=False)
    if array.dtype.kind not in "iuO":
        raise TypeError(_not_by(what, str(array.dtype)))
    return _check(array, length, what)


def _not_by(what: str, found: str) -> str:
    return f"{what}s are chosen by integers, a slice or a mask, not by {found}"


def _of_objects(array: NDArray[Any], what: str) -> NDArray[Any]:
    """An array without a type of its own as one of booleans, or of integers that may be of any size."""
    if array.dtype == np.bool_:
        return array
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if all(isinstance(x, (bool, np.bool_)) for x in array):
        return array.astype(bool)
    wrong = next((x for x in array if not isinstance(x, (int, np.integer))), None)
    if wrong is not None or any(isinstance(x, bool) for x in array):
        raise TypeError(_not_by(what, f"a mix with {type(wrong).__name__}"))
    return array


def _of_slice(key: slice, length: int, what: str) -> Chosen:
    try:
        start, stop, step = key.indices(length)
    except TypeError as error:
        raise TypeError(f"a slice of {what}s has integers for its ends, not {key!r}") from error
    if step == 1:
        return range(start, max(start, stop))
    return np.arange(start, stop, step, dtype=np.int64)


def _check(array: NDArray[Any], length: int, what: str) -> NDArray[np.int64]:
    """Indices counted from the end made ordinary ones, and all of them in range."""
    wrong = (array >= length) | (array < -length)
    if np.any(wrong):
        index = operator.index(array[np.argmax(wrong)])
        raise OutOfRangeError(f"{what} {index} is out of range: there are {length}")
    array = array.astype(np.int64)
    return np.where(array < 0, array + length, array)


def choose_genes(key: Any, length: int, lookup: Callable[[], Mapping[str, int]]) -> Chosen:
    """As :func:`choose`, by names too; ``lookup`` gives the positions of names, -1 for a name of several
    genes.
    """
    if isinstance(key, str):
        return _named([key], lookup())
    if not isinstance(key, (slice, range, int, np.integer)) and key is not None and key is not Ellipsis:
        array = np.asarray(key)
        if array.ndim == 1 and array.size and (array.dtype.kind in "US" or isinstance(array[0], str)):
            return _named(array.tolist(), lookup())
        key = array
    return choose(key, length, "gene")


def _named(names: list[Any], positions: Mapping[str, int]) -> NDArray[np.int64]:
    found = [positions.get(name) for name in names]
    missing = [name for name, at in zip(names, found, strict=True) if at is None]
    if missing:
        shown = ", ".join(repr(name) for name in missing[:10])
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        raise NoGeneError(f"there is no gene {shown}{more}")
    for name, at in zip(names, found, strict=True):
        if at == -1:
            raise NoGeneError(f"there is more than one gene {name!r}: choose by position")
    return np.array(found, dtype=np.int64)
