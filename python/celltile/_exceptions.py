"""Everything that can go wrong, as a tree: each class is also the built-in one that fits.

So code that knows nothing of celltile catches it. The extension module raises these classes by name.
"""


class CelltileError(Exception):
    """Anything that celltile says is wrong."""

    def __str__(self) -> str:
        # KeyError would print the representation of its text.
        return str(self.args[0]) if self.args else ""


class StorageError(CelltileError, OSError):
    """The operating system or the bucket refuses to read or write."""


class NotFoundError(StorageError, FileNotFoundError):
    """A file or object that must be there is not."""


class NotADatasetError(NotFoundError):
    """There is no dataset here, or one whose writing never ended."""


class ChangedError(StorageError):
    """An object was replaced while it was being read: open the dataset again."""


class CacheError(StorageError):
    """The local cache cannot be used."""


class LockedError(StorageError):
    """Another process has the file open for writing."""


class OccupiedError(StorageError, FileExistsError):
    """Something is where a dataset would be written; ``overwrite=True`` replaces a dataset."""


class CorruptDataError(CelltileError, ValueError):
    """Bytes that are not what was written, or that break the format."""


class CorruptTileError(CorruptDataError):
    """A damaged tile; the attribute ``tile`` is its index."""

    tile: int


class CorruptManifestError(CorruptDataError):
    """A manifest that breaks a rule of the format."""


class CorruptFileError(CorruptDataError):
    """A damaged file beside the tiles: obs, genes, checksums."""


class CorruptInputError(CorruptDataError):
    """A damaged file of another tool."""


class NotRecognisedError(CelltileError, ValueError):
    """A file of no kind that celltile reads."""


class UnsupportedError(CelltileError, ValueError):
    """Valid, but nothing that celltile reads or the format can hold."""


class MissingPartError(CelltileError, KeyError):
    """A part of an input that must be there is not: a matrix, a table."""


class CountError(CelltileError, ValueError):
    """A value that is no count, or a gene that a cell has twice; the message names cell, gene and value."""


class TableError(CelltileError, ValueError):
    """Columns of obs or var that the format cannot hold; all of them are listed."""


class NoColumnError(CelltileError, KeyError):
    """There is no obs column of that name."""


class NoGeneError(CelltileError, KeyError):
    """There is no gene of that name, or more than one."""


class OutOfRangeError(CelltileError, IndexError):
    """An index past the end: a cell, a gene, a chunk."""


class ArgumentError(CelltileError, ValueError):
    """An argument that makes no sense."""


class MemoryLimitError(CelltileError, MemoryError):
    """The memory that was allowed does not suffice."""


class WriterStoppedError(CelltileError, RuntimeError):
    """An earlier error stopped this writer."""


class UnsupportedHostError(CelltileError, RuntimeError):
    """The format is little-endian and this machine is not."""


class GridError(CelltileError, ValueError):
    """A chunk grid that the specification does not allow."""


class ZarrError(CelltileError, ValueError):
    """A Zarr array or group that cannot be read or written."""


class VerificationError(CorruptDataError):
    """A dataset has faults; the attribute ``faults`` lists them."""

    faults: list[str]


class MissingDependencyError(CelltileError, ImportError):
    """An optional package is not installed; the message says what installs it."""
