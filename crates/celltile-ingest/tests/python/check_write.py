"""Checks a file of tests/hdf5_write.rs with h5py."""

import sys

import h5py
import numpy as np


def check_attrs(obj):
    assert obj.attrs["text"] == "é"
    assert obj.attrs["empty text"] == ""
    assert list(obj.attrs["texts"]) == ["a", "", "ß"]
    assert obj.attrs["no texts"].shape == (0,), obj.attrs["no texts"]
    assert list(obj.attrs["many texts"]) == [f"column number {i}" for i in range(5_000)]
    assert obj.attrs["integers"].dtype == np.int64
    assert obj.attrs["integers"].tolist() == [3, -4_000_000_000]
    assert obj.attrs["true"].dtype == np.bool_ and obj.attrs["true"]


with h5py.File(sys.argv[1]) as file:
    check_attrs(file)
    check_attrs(file["g"])
    for name in ["int8", "uint16", "int32", "int64", "float16", "float32", "float64"]:
        array = file["g"][name]
        assert array.dtype == np.dtype(name), (array.dtype, name)
        assert array[:].tolist() == [0, 1, 100]
        check_attrs(array)
        empty = file["g"]["no " + name]
        assert empty.shape == (0,) and empty.dtype == np.dtype(name)
        assert empty[:].tolist() == []
    assert file["g/bool"].dtype == np.bool_
    assert file["g/bool"][:].tolist() == [False, True, True]
    assert file["scalar"][()] == 7
    check_attrs(file["g/texts"])
    assert h5py.check_string_dtype(file["g/texts"].dtype).encoding == "utf-8"
    assert file["g/texts"].asstr()[:].tolist() == ["", "a", "日本"]
    assert file["g/no texts"].asstr()[:].tolist() == []
    many = file["g/deeper/many texts"].asstr()[:]
    assert many.tolist() == [f"AAAC{i}-1" for i in range(100_000)]
    assert (file["stream"][:] == np.arange(300_000)).all()
