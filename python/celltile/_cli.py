"""The ``celltile`` command: the same code as the Rust binary's, in this process."""

from __future__ import annotations

import sys

from celltile._native import run_cli


def main() -> None:
    """Run the command line of this process and end it with the exit code."""
    sys.exit(run_cli(["celltile", *sys.argv[1:]]))
