"""Runs the celltile command and tells what it took."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Run:
    """A finished run: seconds, the largest resident set in bytes, standard output, processor seconds."""

    seconds: float
    peak: int
    out: str
    cpu: float


class Celltile:
    """The command at a path."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    def __call__(self, *args: object) -> Run:
        """Runs it; ends the whole program if it fails."""
        start = time.perf_counter()
        command = [str(self.path), *map(str, args)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        ) as process:
            out = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit code {process.returncode}\n{out}")
        return Run(time.perf_counter() - start, usage.ru_maxrss * 1024, out, usage.ru_utime + usage.ru_stime)


def size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def print_table(rows: list[tuple[str, ...]]) -> None:
    """The first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        print("  ".join(cells).rstrip())
