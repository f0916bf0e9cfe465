"""Both sides of the bindings know the same errors."""

from __future__ import annotations

import builtins
import inspect
import pickle
from pathlib import Path

import pytest

import celltile
from celltile import _exceptions, _native

CLASSES = {
    name: cls
    for name, cls in vars(_exceptions).items()
    if inspect.isclass(cls) and issubclass(cls, _exceptions.CelltileError)
}
# Raised by Python code, by kinds of grids and stores, or the root of a branch.
NOT_BY_KIND = {
    "CelltileError",
    "CorruptDataError",
    "GridError",
    "MissingDependencyError",
    "NoGeneError",
    "VerificationError",
    "ZarrError",
}
# Kinds that are no class of ours.
WITHOUT = {("celltile", "Cancelled"), ("celltile-ingest", "Cancelled"), ("celltile-ingest", "Dataset")}


def test_every_kind_has_a_class() -> None:
    kinds = _native.error_kinds()
    assert len(kinds) > 30
    for crate, kind, cls in kinds:
        if (crate, kind) in WITHOUT:
            assert cls == ""
        else:
            assert cls in CLASSES, f"{crate} {kind}: no class {cls!r}"


def test_every_class_has_a_kind() -> None:
    used = {cls for _, _, cls in _native.error_kinds()}
    assert set(CLASSES) - used == NOT_BY_KIND


def test_every_class_is_public_and_built_in() -> None:
    for name, cls in CLASSES.items():
        assert getattr(celltile, name) is cls
        assert name in celltile.__all__
        assert cls.__doc__
        if name != "CelltileError":
            built_in = [base for base in cls.__mro__ if base.__module__ == "builtins"]
            assert any(base not in (Exception, BaseException, object) for base in built_in), name


def test_messages_survive() -> None:
    for name, cls in CLASSES.items():
        error = cls("what\nwas found")
        assert str(error) == "what\nwas found", name
        assert str(pickle.loads(pickle.dumps(error))) == "what\nwas found"


@pytest.mark.parametrize(
    ("name", "built_in"),
    [
        ("CorruptTileError", "ValueError"),
        ("NotFoundError", "FileNotFoundError"),
        ("OutOfRangeError", "IndexError"),
        ("NoColumnError", "KeyError"),
        ("OccupiedError", "FileExistsError"),
        ("StorageError", "OSError"),
        ("MemoryLimitError", "MemoryError"),
        ("MissingDependencyError", "ImportError"),
    ],
)
def test_tree(name: str, built_in: str) -> None:
    assert issubclass(CLASSES[name], getattr(builtins, built_in))


def copy(dataset: Path, target: Path) -> Path:
    for path in dataset.rglob("*"):
        if path.is_file():
            (target / path.relative_to(dataset)).parent.mkdir(parents=True, exist_ok=True)
            (target / path.relative_to(dataset)).write_bytes(path.read_bytes())
    return target


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def test_damage(dataset: Path, tmp_path: Path) -> None:
    root = copy(dataset, tmp_path / "d")
    flip(root / "tiles/tile_000002.dct", 9000)
    ds = celltile.open(root)
    ds.arrays(slice(0, 800))
    with pytest.raises(celltile.CorruptTileError, match=r"tile_000002\.dct") as caught:
        ds.arrays()
    assert caught.value.tile == 2
    with pytest.raises(celltile.VerificationError) as faults:
        ds.verify()
    assert faults.value.faults
    assert all("tile_000002.dct" in fault for fault in faults.value.faults)

    (root / "tiles/tile_000003.dct").unlink()
    with pytest.raises(FileNotFoundError, match=r"tile_000003\.dct"):
        celltile.open(root).arrays([1400])
    flip(root / "obs/schema.json", 40)
    with pytest.raises(celltile.CorruptFileError):
        celltile.open(root).obs()
    assert "schema.json: damaged" in repr(celltile.open(root))
    (root / "manifest.json").write_text("{}")
    with pytest.raises(celltile.CorruptManifestError, match="format"):
        celltile.open(root)


def test_sound(dataset: Path) -> None:
    celltile.open(dataset).verify()
    celltile.open(dataset).verify(strict=True)


@pytest.mark.parametrize(
    "options",
    [{"verify": "some"}, {"threads": 0}, {"threads": 1025}, {"cache_tiles": -1}],
    ids=lambda options: next(iter(options)),
)
def test_bad_options(dataset: Path, options: dict[str, object]) -> None:
    with pytest.raises(celltile.ArgumentError):
        celltile.open(dataset, **options)  # type: ignore[arg-type]


def test_url_of_no_kind() -> None:
    with pytest.raises(celltile.CelltileError):
        celltile.open("gopher://host/dataset")
