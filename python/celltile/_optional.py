"""Packages that only some functions need, asked for when they are."""

from __future__ import annotations

import importlib
from typing import Any

from celltile._exceptions import MissingDependencyError

# What each package is installed with; the extras are those of pyproject.toml.
_EXTRAS = {"anndata": "anndata", "pandas": "anndata", "scipy": "anndata", "tqdm": "anndata", "zarr": "zarr"}


def need(module: str, what: str) -> Any:
    """The module; or an error that says what needs it and how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        extra = _EXTRAS.get(package, package)
        message = f"{what} needs the package {package}: pip install 'celltile[{extra}]'"
        raise MissingDependencyError(message) from error
