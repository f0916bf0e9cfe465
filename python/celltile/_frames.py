"""pandas' tables from the parts that the extension module hands out, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from celltile._exceptions import ArgumentError, TableError
from celltile._optional import need

if TYPE_CHECKING:
    import pandas as pd

Parts: TypeAlias = dict[str, Any]
#: What to do with a column of dates or durations.
Datetimes: TypeAlias = Literal["refuse", "iso-string", "int64-ns"]
#: What to do with a column that mixes types.
Mixed: TypeAlias = Literal["refuse", "string"]

_NUMBERS = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)} | {
    "float16",
    "float32",
    "float64",
}


def to_pandas(parts: Parts) -> pd.DataFrame:
    """A table as a frame: kinds, categories and their order, masked dtypes and the index as they were."""
    pd = need("pandas", "a table")
    index = parts["index"]
    rows = pd.RangeIndex(parts["rows"])
    made = rows if index is None else pd.Index(_values(index), name=index["name"])
    columns = {at: _values(column) for at, column in enumerate(parts["columns"])}
    frame = pd.DataFrame(columns, index=made, copy=False)
    names = [column["name"] for column in parts["columns"]]
    # The kind of text that this pandas makes of names; it makes numbers of none.
    frame.columns = pd.Index(names) if names else pd.Index([], dtype=object)
    return frame


def _values(column: Parts) -> Any:
    kind = column["kind"]
    if kind == "category":
        return _category(column)
    if kind == "string":
        return _texts(column["values"], column["dtype"])
    return _numbers(column)


def _category(column: Parts) -> Any:
    pd = need("pandas", "a table")
    categories, dtype = column["categories"], column["dtype"]
    if dtype in ("object", "string", "str", "fixed"):
        index = pd.Index(_texts(categories, dtype))
    else:
        index = pd.Index(np.array(categories, dtype=dtype))
    return pd.Categorical.from_codes(column["codes"], categories=index, ordered=column["ordered"])


def _texts(values: list[Any], dtype: str) -> Any:
    pd = need("pandas", "a table")
    if dtype == "string":
        return pd.array(values, dtype="string")
    if dtype == "str":
        return pd.array(values, dtype=pd.StringDtype(na_value=np.nan))
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _numbers(column: Parts) -> Any:
    pd = need("pandas", "a table")
    values, mask = column["values"], column["mask"]
    if column["nullable"]:
        if mask is None:
            mask = np.zeros(len(values), dtype=bool)
        if values.dtype == np.bool_:
            return pd.arrays.BooleanArray(values, mask)
        if values.dtype.kind in "iu":
            return pd.arrays.IntegerArray(values, mask)
        # pandas has no masked float16.
        if values.dtype != np.float16:
            return pd.arrays.FloatingArray(values, mask)
    if mask is not None:
        values[mask] = np.nan
    return values


def from_pandas(
    frame: pd.DataFrame,
    kind: str,
    *,
    mixed: Mixed = "refuse",
    datetimes: Datetimes = "refuse",
) -> Parts:
    """A frame as parts. Every column that the format cannot hold is told at once.

    ``kind`` is what messages call the frame: ``obs`` or ``var``.
    """
    if mixed not in ("refuse", "string"):
        raise ArgumentError(f"obs_mixed: found {mixed!r}, expected 'refuse' or 'string'")
    if datetimes not in ("refuse", "iso-string", "int64-ns"):
        raise ArgumentError(
            f"obs_datetime: found {datetimes!r}, expected 'refuse', 'iso-string' or 'int64-ns'"
        )
    pd = need("pandas", "a table")
    bad: list[str] = []
    columns: list[Parts] = []
    names: set[Any] = set()
    for at, name in enumerate(frame.columns):
        if not isinstance(name, str):
            bad.append(f"{kind} column {name!r}: its name is {type(name).__name__}, expected text")
            continue
        if name in names:
            bad.append(f"{kind} column {name!r}: there is more than one of that name")
            continue
        names.add(name)
        try:
            columns.append(_parts(name, frame.iloc[:, at].array, mixed, datetimes))
        except _CannotHoldError as error:
            bad.append(f"{kind} column {name!r}: {error}")
    index: Parts | None = None
    if isinstance(frame.index, pd.MultiIndex):
        bad.insert(0, f"{kind} index: it has {frame.index.nlevels} levels, expected 1")
    elif not isinstance(frame.index, pd.RangeIndex) or frame.index.name is not None:
        called = frame.index.name
        if called is not None and not isinstance(called, str):
            bad.insert(0, f"{kind} index: its name is {type(called).__name__}, expected text")
        try:
            index = _parts(called, frame.index.array, mixed, datetimes)
        except _CannotHoldError as error:
            bad.insert(0, f"{kind} index: {error}")
    if bad:
        raise TableError("; ".join(bad))
    return {"rows": len(frame), "index": index, "columns": columns}


class _CannotHoldError(Exception):
    """Why a column cannot be held."""


def _parts(name: Any, array: Any, mixed: Mixed, datetimes: Datetimes) -> Parts:
    pd = need("pandas", "a table")
    dtype = array.dtype
    if isinstance(dtype, pd.SparseDtype):
        array = pd.array(np.asarray(array))
        dtype = array.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        parts = _category_parts(array)
    elif isinstance(dtype, pd.StringDtype):
        texts = [None if missing else str(x) for x, missing in zip(array, array.isna(), strict=True)]
        parts = {"kind": "string", "dtype": _string_name(dtype), "values": texts}
    elif isinstance(dtype, pd.BooleanDtype):
        parts = _masked("bool", array.to_numpy(dtype=bool, na_value=False), array)
    elif _is_masked_number(dtype):
        parts = _masked("numeric", array.to_numpy(dtype=dtype.numpy_dtype, na_value=0), array)
    elif getattr(dtype, "kind", "O") in "Mm":
        parts = _date_parts(array, datetimes)
    elif isinstance(array, pd.arrays.NumpyExtensionArray):
        parts = _plain_parts(np.asarray(array), mixed)
    else:
        raise _CannotHoldError(f"dtype {dtype} has no place in the format")
    return {"name": name, **parts}


def _masked(kind: str, values: Any, array: Any) -> Parts:
    mask = np.asarray(array.isna())
    return {"kind": kind, "dtype": values.dtype.name, "nullable": True, "values": values, "mask": mask}


def _plain_parts(values: Any, mixed: Mixed) -> Parts:
    plain = {"nullable": False, "mask": None}
    if values.dtype == np.bool_:
        return {"kind": "bool", "dtype": "bool", "values": values, **plain}
    if values.dtype.kind in "OU":
        return _object_parts(values.astype(object), mixed)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if values.dtype.name in _NUMBERS:
        return {"kind": "numeric", "dtype": values.dtype.name, "values": values, **plain}
    raise _CannotHoldError(f"dtype {values.dtype} has no place in the format")


def _is_masked_number(dtype: Any) -> bool:
    name = getattr(getattr(dtype, "numpy_dtype", None), "name", None)
    return name in _NUMBERS and str(dtype)[:1] in "IUF" and hasattr(dtype, "na_value")


def _string_name(dtype: Any) -> str:
    """pandas' two kinds of text columns differ in what is missing: ``NA``, or not-a-number."""
    na = getattr(dtype, "na_value", None)
    return "str" if isinstance(na, float) else "string"


def _category_parts(array: Any) -> Parts:
    pd = need("pandas", "a table")
    categories = array.categories
    dtype = categories.dtype
    if isinstance(dtype, pd.StringDtype):
        called, values = _string_name(dtype), [str(x) for x in categories]
    elif isinstance(dtype, np.dtype) and (dtype.name in _NUMBERS or dtype == np.bool_):
        called, values = dtype.name, categories.to_numpy().tolist()
    elif isinstance(dtype, np.dtype) and dtype == np.dtype(object):
        called, values = "object", [x.item() if isinstance(x, np.generic) else x for x in categories]
        for value in values:
            if not isinstance(value, (str, bool, int, float)):
                raise _CannotHoldError(
                    f"category {value!r} is a {type(value).__name__}, expected text or a number"
                )
    else:
        raise _CannotHoldError(f"its categories are of dtype {dtype}")
    codes = np.asarray(array.codes).astype(np.int64)
    parts = {"codes": codes, "categories": values, "dtype": called, "ordered": bool(array.ordered)}
    return {"kind": "category", **parts}


def _object_parts(values: Any, mixed: Mixed) -> Parts:
    pd = need("pandas", "a table")
    missing = pd.isna(values)
    texts: list[Any] = [None if gone else x for x, gone in zip(values.tolist(), missing, strict=True)]
    other = [type(x).__name__ for x in texts if x is not None and not isinstance(x, str)]
    if other:
        if mixed == "refuse":
            kinds = sorted({type(x).__name__ for x in texts if x is not None})
            raise _CannotHoldError(
                f"it holds objects of type {', '.join(kinds)}; obs_mixed='string' makes text of them"
            )
        texts = _spelled(texts)
    return {"kind": "string", "dtype": "object", "values": texts}


def _spelled(values: list[Any]) -> list[Any]:
    """Values of several types as text. Two that differ never become one: 1 is not "1"."""
    kinds: dict[str, str] = {}
    for value in values:
        if isinstance(value, (bytes, bytearray)):
            raise _CannotHoldError(f"it holds bytes ({value!r}): decode them to text first")
        if value is None:
            continue
        kind = "text" if isinstance(value, str) else "other"
        if kinds.setdefault(str(value), kind) != kind:
            raise _CannotHoldError(
                f"it holds {str(value)!r} as text and as a value of another type: they would become one"
            )
    return [None if value is None else str(value) for value in values]


def _date_parts(array: Any, datetimes: Datetimes) -> Parts:
    pd = need("pandas", "a table")
    dates = pd.Series(array)
    missing = dates.isna().to_numpy()
    if datetimes == "iso-string":
        values = [None if gone else x.isoformat() for x, gone in zip(dates, missing, strict=True)]
        return {"kind": "string", "dtype": "object", "values": values}
    if datetimes == "int64-ns":
        if getattr(dates.dtype, "tz", None) is not None:
            dates = dates.dt.tz_convert("UTC").dt.tz_localize(None)
        unit = "timedelta64[ns]" if dates.dtype.kind == "m" else "datetime64[ns]"
        numbers = dates.to_numpy().astype(unit).astype(np.int64)
        mask = missing if missing.any() else None
        parts = {"nullable": mask is not None, "values": np.where(missing, 0, numbers), "mask": mask}
        return {"kind": "numeric", "dtype": "int64", **parts}
    raise _CannotHoldError(
        f"dates and durations ({array.dtype}) have no place in the format; "
        "obs_datetime='iso-string' writes them as text, 'int64-ns' as nanoseconds"
    )


def texts_of(index: Sequence[Any]) -> list[str]:
    """An index as text."""
    return [x if isinstance(x, str) else str(x) for x in index]
