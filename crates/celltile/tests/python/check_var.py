"""Checks that pandas reads a var.parquet as the frame that it was made from.

python check_var.py write FOLDER    frames as pandas writes them: foreign-*.parquet
python check_var.py read FOLDER     the same frames, written again by celltile: ours-*.parquet
"""

import pathlib
import sys

import numpy as np
import pandas as pd
from pandas.testing import assert_frame_equal


def frames():
    n = 7
    columns = {
        "text": pd.Categorical(["b", "a", None, "b", "b", "a", "b"], categories=["z", "b", "a", "unused"]),
        "ordered": pd.Categorical(
            ["lo", "hi", "lo", None, "hi", "mid", "lo"], ["lo", "mid", "hi"], ordered=True
        ),
        "one": pd.Categorical(["Gene Expression"] * n),
        "missing": pd.Categorical([None] * n, categories=["a", "b"]),
        "object": ["x", None, "", "y", "\u00e9", "x", "z"],
        "string": pd.array(["x", None, "y", "", "z", "a", "b"], dtype="string"),
        "Int64": pd.array([1, None, 2**53 + 1, 4, 5, 6, -7], dtype="Int64"),
        "UInt8": pd.array([1, None, 255, 4, 5, 6, 7], dtype="UInt8"),
        "Float32": pd.array([1.5, None, 2, 4, 5, 6, 7], dtype="Float32"),
        "boolean": pd.array([True, None, False, True, True, False, True], dtype="boolean"),
        "bool": [True, False] * 3 + [True],
        "float": [1.5, np.nan, np.inf, -0.0, 1e300, 6, 7],
        "a/b": np.arange(n, dtype="int16"),
        "": np.arange(n, dtype="uint64") + 2**63,
        "f2": np.arange(n, dtype="float16"),
    }
    names = ["g1", "g2", "g2", "g4", "g5", "g6", ""]
    yield "unnamed", pd.DataFrame(columns, index=pd.Index(names))
    yield "named", pd.DataFrame(columns, index=pd.Index(names, name="gene"))
    yield "collision", pd.DataFrame(columns, index=pd.Index(names, name="object"))
    yield "literal", pd.DataFrame({"_index": names, "index": names}, index=pd.Index(names))
    yield "range", pd.DataFrame(columns)
    yield "numbers", pd.DataFrame({"a": [1, 2, 3]}, index=pd.Index([5, 3, 1], name="id"))
    yield "no_columns", pd.DataFrame(index=pd.Index(names))
    for n in (126, 127, 128, 129):
        edge = [f"c{i}" for i in range(n)]
        yield f"edge{n}", pd.DataFrame({"c": pd.Categorical([edge[0], edge[-1]], categories=edge)})
    many = [f"c{i}" for i in range(300)]
    values = [many[(i * 7) % 300] if i % 11 else None for i in range(5000)]
    yield "many", pd.DataFrame({"c": pd.Categorical(values, categories=many[::-1])})


def main(mode, folder):
    for name, frame in frames():
        if mode == "write":
            frame.to_parquet(
                folder / f"foreign-{name}.parquet", row_group_size=3 if name == "named" else None
            )
        else:
            back = pd.read_parquet(folder / f"ours-{name}.parquet")
            kinds = {"check_index_type": "equiv" if name == "range" else "exact"}
            # The labels of no columns have no type that could be kept.
            assert_frame_equal(back, frame, check_column_type=name != "no_columns", **kinds)
            assert list(back.index.names) == list(frame.index.names), name
            for column in frame.columns:
                if isinstance(frame[column].dtype, pd.CategoricalDtype):
                    assert list(back[column].cat.categories) == list(frame[column].cat.categories), (
                        name,
                        column,
                    )
            print("ok", name)


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
