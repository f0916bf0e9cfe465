"""The command that the package brings is the Rust command, in this process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import celltile


def run(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "celltile", *map(str, args)], capture_output=True, text=True, check=False
    )


def test_version_and_help() -> None:
    assert run("--version").stdout.split() == ["celltile", celltile.__version__]
    done = run("convert", "--help")
    assert done.returncode == 0
    assert "--tile-size" in done.stdout


def test_exit_codes(dataset: Path, tmp_path: Path) -> None:
    assert run("info", dataset).returncode == 0
    assert run("info", tmp_path).returncode == 1
    assert run("nix").returncode == 2
    assert run().returncode == 2
    facts = json.loads(run("info", dataset, "--json").stdout)
    assert "1500" in json.dumps(facts)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise there")
def test_interrupt(tmp_path: Path) -> None:
    line = ["--progress", "none", "simulate", "-o", str(tmp_path / "s.h5ad"), "--cells", "2000000"]
    with subprocess.Popen(
        [sys.executable, "-m", "celltile", *line], stderr=subprocess.PIPE, text=True
    ) as process:
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (130, "interrupted")
    assert not (tmp_path / "s.h5ad").exists()
