"""Threads, forks, spawned processes, signals."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from forks import forked, needs_fork

import celltile

WAIT = 120


def total(ds: celltile.Dataset, start: int, stop: int) -> int:
    return int(ds.arrays(slice(start, stop))[2].sum())


def test_pickle(dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(dataset.parent)
    ds = celltile.open(dataset.name, cache_dir="c", verify="structure", threads=1)
    data = pickle.dumps(ds)
    assert len(data) < 1000
    monkeypatch.chdir(tmp_path)
    again = pickle.loads(data)
    assert again.location == str(dataset)
    assert total(again, 0, 1500) == total(ds, 0, 1500)
    assert again._options == ds._options


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes(dataset: Path, method: str) -> None:
    ds = celltile.open(dataset)
    # The parent's threads are running before it forks.
    expected = [total(ds, start, start + 100) for start in range(0, 1500, 100)]
    assert ds.obs("donor").shape == (1500, 1)
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        futures = [pool.submit(total, ds, start, start + 100) for start in range(0, 1500, 100)]
        assert [future.result(WAIT) for future in futures] == expected


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_in_the_middle_of_reads(big: Path) -> None:
    """Children that inherit an open dataset while threads of the parent decode: no deadlock, right data."""
    ds = celltile.open(big, threads=2)
    expected = total(ds, 0, 3000)
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            ds.arrays(slice(0, 4000))

    def reads_right() -> bool:
        right = total(ds, 0, 3000) == expected and len(ds.obs("donor")) == ds.n_cells
        gc.collect()
        return right

    def with_a_child_of_its_own() -> bool:
        forked(reads_right)
        return reads_right()

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(4):
            time.sleep(0.05)
            forked(with_a_child_of_its_own)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert total(ds, 0, 3000) == expected


def test_many_threads_at_once(dataset: Path) -> None:
    ds = celltile.open(dataset)
    expected = ds.csr()
    rng = np.random.default_rng(0)
    picks = [rng.integers(0, 1500, 100) for _ in range(100)]
    with ThreadPoolExecutor(8) as pool:
        for cells, found in zip(picks, pool.map(ds.csr, picks), strict=True):
            assert (found != expected[cells]).nnz == 0


def test_lock_is_released(big: Path) -> None:
    """Other Python code goes on while cells are decoded."""
    ds = celltile.open(big, threads=1)
    ds.arrays()
    ticks = 0
    done = threading.Event()

    def read() -> None:
        ds.arrays()
        done.set()

    thread = threading.Thread(target=read)
    thread.start()
    while not done.is_set():
        ticks += 1
        time.sleep(0.001)
    thread.join()
    # 40 million nonzeros take a good part of a second even optimised; a held lock would give one tick or two.
    assert ticks > 20


CTRL_C = """
import sys, threading, time, os, signal
import celltile
action, *args = sys.argv[1:]
def work():
    if action == "read":
        ds = celltile.open(args[0], threads=1)
        print("ready", flush=True)
        while True:
            ds.arrays()
    if action == "verify":
        ds = celltile.open(args[0])
        print("ready", flush=True)
        while True:
            ds.verify(strict=True)
    if action == "convert":
        print("ready", flush=True)
        celltile.convert(args[0], args[1], progress=False, level=19)
    if action == "zarr":
        ds = celltile.open(args[0])
        print("ready", flush=True)
        ds.to_zarr(args[1], progress=False, zstd_level=9)
start = time.monotonic()
try:
    work()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    # Nothing of it goes on, and the process ends as ever.
    sys.exit(42)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise there")
@pytest.mark.parametrize("action", ["read", "verify", "convert", "zarr"])
def test_ctrl_c(big: Path, tmp_path: Path, action: str) -> None:
    args = [str(big), str(tmp_path / "out")]
    if action == "convert":
        source = tmp_path / "s.h5ad"
        line = ["simulate", "-o", source, "--cells", "20000", "--genes", "5000", "--nonzeros", "1000"]
        subprocess.run([sys.executable, "-m", "celltile", "--progress", "none", *map(str, line)], check=True)
        args[0] = str(source)
    command = [sys.executable, "-c", CTRL_C, action, *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        try:
            out, _ = process.communicate(timeout=WAIT)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert (out, process.returncode) == ("interrupted\n", 42)
    # Nothing half valid is left: no manifest, no root of a store.
    assert not (tmp_path / "out/manifest.json").exists()
    assert not (tmp_path / "out/zarr.json").exists()
    if action == "convert":
        celltile.convert(args[0], tmp_path / "out", preset="fast", progress=False, overwrite=True)
        celltile.open(tmp_path / "out").verify()


def test_memory_does_not_grow(dataset: Path) -> None:
    """1,000 slices cost no more memory than 100."""
    pytest.importorskip("anndata")
    psutil = pytest.importorskip("psutil")
    ds = celltile.open(dataset)
    rng = np.random.default_rng(0)
    process = psutil.Process()

    def slices(n: int) -> int:
        for _ in range(n):
            ds[rng.integers(0, 1500, 200), :50]
            ds.arrays(slice(0, 1000))
        gc.collect()
        return int(process.memory_info().rss)

    before = slices(100)
    after = slices(1000)
    assert after - before < 12 << 20


def test_many_opened_and_dropped(dataset: Path) -> None:
    before = threading.active_count(), len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 0
    for _ in range(100):
        celltile.open(dataset, threads=4).arrays()
    if sys.platform == "linux":
        deadline = time.monotonic() + 10
        while len(os.listdir("/proc/self/task")) > before[1] + 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(os.listdir("/proc/self/task")) <= before[1] + 4
