"""Loaders: what is in batches, orders, states, interrupts, memory."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forks import forked, needs_fork

import celltile
from celltile._layouts import build

anndata = pytest.importorskip("anndata")


@pytest.fixture(scope="module")
def ds(dataset: Path) -> celltile.Dataset:
    return celltile.open(dataset)


@pytest.fixture(scope="module")
def counts(ds: celltile.Dataset) -> Any:
    return ds.csr()


def cells(loader: Any) -> list[list[int]]:
    return [batch.cells.tolist() for batch in loader]


@pytest.mark.parametrize("shuffle", ["tiles", "chunks", "cells", False])
def test_batches_hold_their_cells(ds: celltile.Dataset, counts: Any, shuffle: Any) -> None:
    obs = ds.obs(["cell_type", "donor"])
    loader = ds.loader(128, shuffle, 3, ["cell_type", "donor"], buffer=400, totals=True)
    assert (len(loader), loader.n_cells, loader.n_genes) == (12, 1500, ds.n_genes)
    seen = []
    for batch in loader:
        assert batch.X.dtype == np.float32 and batch.X.shape == (len(batch), ds.n_genes)
        assert (counts[batch.cells] != batch.X).nnz == 0
        assert np.array_equal(batch.totals, counts[batch.cells].sum(axis=1).A1)
        for name in ("cell_type", "donor"):
            assert np.array_equal(batch.obs[name], obs[name].cat.codes.to_numpy()[batch.cells])
            assert loader.categories[name] == obs[name].cat.categories.tolist()
        seen.extend(batch.cells)
    assert sorted(seen) == list(range(1500))
    assert (seen == sorted(seen)) == (shuffle is False)


def test_epochs_differ_and_runs_do_not(ds: celltile.Dataset) -> None:
    loader = ds.loader(100)
    first, second = cells(loader), cells(loader)
    assert first != second and loader.epoch == 2
    again = ds.loader(100, threads=1)
    assert cells(again) == first
    again.set_epoch(1)
    assert cells(again) == second


def test_genes_cells_and_transform(ds: celltile.Dataset, counts: Any) -> None:
    genes = ds.var_names[[40, 2, 17]]
    mask = np.arange(1500) % 3 == 1
    loader = ds.loader(64, genes=genes, cells=mask, transform="log1p_cp10k", layout="numpy", totals=True)
    assert loader.var_names.tolist() == list(genes)
    sums = counts.sum(axis=1).A1
    seen = []
    for batch in loader:
        X = counts[batch.cells][:, [40, 2, 17]].toarray()
        expected = np.log1p(X * (1e4 / sums[batch.cells])[:, None])
        assert np.allclose(batch.X, expected, rtol=1e-6)
        seen.extend(batch.cells)
    assert sorted(seen) == np.flatnonzero(mask).tolist()


@pytest.mark.parametrize("layout", ["csr", "numpy", "torch", "torch_csr"])
def test_a_gene_that_is_there_twice_is_added_up(layout: Any) -> None:
    """Datasets of other makers may have that: strict verification says so."""
    if layout.startswith("torch"):
        pytest.importorskip("torch")
    indptr = np.array([0, 3, 3, 5], dtype=np.int64)
    indices = np.array([1, 1, 4, 0, 2], dtype=np.int32)
    for dtype in (np.float32, np.int32):
        data = np.array([2, 3, 1, 7, 1], dtype=dtype)
        X = build(layout, indptr, indices, data, 5, pin=False)
        if layout == "csr":
            assert not X.has_canonical_format
            X = X.toarray()
        if layout == "torch_csr":
            X = X.to_dense()
        assert np.array_equal(np.asarray(X), [[0, 5, 0, 0, 1], [0] * 5, [7, 0, 1, 0, 0]])


def test_a_function_as_transform(ds: celltile.Dataset) -> None:
    sizes = list(ds.loader(500, transform=lambda batch: batch.X.nnz))
    assert sum(sizes) == ds.nnz


def test_int32_and_arrays_that_are_not_copies(ds: celltile.Dataset) -> None:
    batch = next(iter(ds.loader(64, dtype="int32")))
    assert batch.X.dtype == np.int32
    base = batch.X.data.base
    assert base is not None and type(base).__name__ == "SharedMemory"
    assert batch.X.indices.base is base
    batch.X.data *= 2
    batch.X.check_format(full_check=True)


def test_arrays_outlive_their_loader(ds: celltile.Dataset, counts: Any) -> None:
    loader = ds.loader(200, buffer=400)
    kept = list(loader)
    del loader
    gc.collect()
    for batch in kept:
        assert (counts[batch.cells] != batch.X).nnz == 0


def test_weights_and_balance(ds: celltile.Dataset) -> None:
    weights = np.where(np.arange(1500) < 10, 1.0, 0.0)
    drawn = np.concatenate(cells(ds.loader(300, weights=weights, draws=3000)))
    assert len(drawn) == 3000 and set(drawn) == set(range(10))
    once = np.concatenate(cells(ds.loader(300, weights=weights, replacement=False)))
    assert sorted(once) == list(range(10))
    types = ds.obs("cell_type")["cell_type"].cat.codes.to_numpy()
    drawn = np.concatenate(cells(ds.loader(500, balance="cell_type", draws=12000)))
    sizes = np.bincount(types[drawn])
    sizes = sizes[np.unique(types)]
    expected = 12000 / len(sizes)
    assert ((sizes - expected) ** 2 / expected).sum() < 60


def test_every_cut_point(ds: celltile.Dataset) -> None:
    whole = cells(ds.loader(130, seed=5, buffer=300))
    loader = ds.loader(130, seed=5, buffer=300)
    states = [loader.state_dict()]
    for _ in loader:
        states.append(loader.state_dict())
    for steps, state in enumerate(states[:-1]):
        other = ds.loader(130, seed=5, buffer=300)
        other.load_state_dict(state)
        assert cells(other) == whole[steps:]
    assert states[-1]["epoch"] == 1


def test_ranks_share_an_epoch_and_go_on_with_other_ranks(ds: celltile.Dataset) -> None:
    def of(rank: int, world: int) -> Any:
        return ds.loader(50, seed=2, buffer=200, rank=rank, world_size=world)

    taken: list[int] = []
    states = []
    for rank in range(3):
        loader = of(rank, 3)
        batches = iter(loader)
        for _ in range(4):
            taken.extend(next(batches).cells)
        states.append(loader.state_dict())
    assert states[0] == states[1] == states[2]
    for rank in range(2):
        loader = of(rank, 2)
        loader.load_state_dict(states[0])
        taken.extend(np.concatenate(cells(loader)))
    assert sorted(taken) == list(range(1500))


def test_a_loop_that_ends_early_begins_anew(ds: celltile.Dataset) -> None:
    loader = ds.loader(100)
    first = next(iter(loader)).cells.tolist()
    assert next(iter(loader)).cells.tolist() == first
    batches = iter(loader)
    next(batches)
    second = next(batches).cells.tolist()
    state = loader.state_dict()
    loader.load_state_dict(state)
    third = next(iter(loader)).cells.tolist()
    assert third not in (first, second)
    # An older loop ends when a newer one has begun.
    assert list(batches) == []


def test_a_loop_that_stops_at_the_last_batch_was_an_epoch(ds: celltile.Dataset) -> None:
    loader = ds.loader(100)
    epochs = [[batch.cells.tolist() for batch, _ in zip(loader, range(15), strict=False)] for _ in range(2)]
    again = ds.loader(100)
    assert epochs == [cells(again), cells(again)]


def test_an_exception_in_the_training_loop(ds: celltile.Dataset) -> None:
    loader = ds.loader(100, buffer=200)
    whole = cells(loader)
    loader.set_epoch(0)
    done = []
    with pytest.raises(ZeroDivisionError):
        for batch in loader:
            done.append(batch.cells.tolist())
            if len(done) == 4:
                raise ZeroDivisionError
    loader.load_state_dict(loader.state_dict())
    assert done + cells(loader) == whole


def test_pickled_loaders_go_on(ds: celltile.Dataset) -> None:
    loader = ds.loader(100, seed=9)
    whole = cells(ds.loader(100, seed=9))
    state = None
    for number, _ in enumerate(loader):
        if number == 3:
            state = loader.state_dict()
            break
    loader.load_state_dict(state)
    copy = pickle.loads(pickle.dumps(loader))
    assert cells(copy) == whole[4:]


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_makes_its_own(ds: celltile.Dataset) -> None:
    loader = ds.loader(100, buffer=200)
    whole = cells(ds.loader(100, buffer=200))
    batches = iter(loader)
    next(batches)
    forked(lambda: cells(loader) == whole)
    assert [batch.cells.tolist() for batch in batches] == whole[1:]


@needs_fork
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_forked_child_leaves_inherited_batches_alone(many: Path) -> None:
    """It may not give their memory back: a thread that it does not have could hold the lock for that. So what
    it lets go of stays where it is, which the size of its memory shows.
    """
    script = """
        import gc, sys, celltile
        sys.path.insert(0, sys.argv[2])
        from forks import forked
        def size():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[0])
        loader = celltile.open(sys.argv[1]).loader(1000, buffer=1000)
        kept = list(loader)
        def stays():
            before = size()
            kept.clear()
            gc.collect()
            return size() == before
        forked(stays, 60)
        # Where they are from, they are given back.
        assert not stays()
    """
    run = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            textwrap.dedent(script),
            str(many),
            str(Path(__file__).parent),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_damage_names_the_tile_or_is_skipped(dataset: Path, tmp_path: Path) -> None:
    import shutil  # noqa: PLC0415

    spoilt = tmp_path / "spoilt.ct"
    shutil.copytree(dataset, spoilt)
    tile = spoilt / "tiles" / "tile_000002.dct"
    content = bytearray(tile.read_bytes())
    content[-9] ^= 1
    tile.write_bytes(content)
    ds = celltile.open(spoilt)
    with pytest.raises(celltile.CorruptTileError, match="tile_000002"):
        list(ds.loader(100))
    loader = ds.loader(100, on_damage="skip")
    seen = sum(len(batch) for batch in loader)
    stats = loader.stats()
    assert 0 < stats["lost_cells"] == 1500 - seen and stats["damaged_chunks"] == 1


def test_options_that_make_no_sense(ds: celltile.Dataset) -> None:
    for options, message in [
        ({"batch_size": 0}, "batch_size"),
        ({"shuffle": "rows"}, "shuffle"),
        ({"dtype": "float64"}, "dtype"),
        ({"layout": "coo"}, "layout"),
        ({"transform": "sqrt"}, "transform"),
        ({"buffer": 1, "buffer_bytes": 1}, "buffer"),
        ({"weights": [1.0], "balance": "donor"}, "balance"),
        ({"weights": [1.0]}, "weights"),
        ({"draws": 5}, "draws"),
        ({"rank": 0}, "rank"),
        ({"rank": 2, "world_size": 2}, "rank"),
        ({"memory": 10}, "memory"),
    ]:
        with pytest.raises(celltile.ArgumentError, match=message):
            ds.loader(**options)
    with pytest.raises(celltile.NoColumnError):
        ds.loader(columns=["nothing"])
    with pytest.raises(celltile.NoGeneError):
        ds.loader(genes=["nothing"])
    loader = ds.loader()
    with pytest.raises(celltile.ArgumentError):
        loader.load_state_dict({"a": 1})
    with pytest.raises(celltile.ArgumentError, match="order"):
        loader.load_state_dict(ds.loader(seed=1).state_dict())


def test_worker_processes_share_the_machine(ds: celltile.Dataset) -> None:
    alone = ds.loader(100)._native.threads
    for workers in (1, 2, alone + 1):
        own = ds.loader(100)._of_worker(workers - 1, workers)
        assert own._own().threads == max(1, alone // workers)
    assert ds.loader(100, threads=3)._of_worker(1, 2)._own().threads == 3


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_hundred_loaders_made_and_dropped(ds: celltile.Dataset) -> None:
    next(iter(ds.loader(64, buffer=128)))
    gc.collect()
    before = _threads()
    for number in range(100):
        batches = iter(ds.loader(64, buffer=128))
        for _ in range(number % 5):
            next(batches)
        del batches
    gc.collect()
    deadline = time.monotonic() + 20
    while _threads() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert _threads() <= before


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
def test_an_interrupt_in_the_middle_of_an_epoch(dataset: Path) -> None:
    script = """
        import os, signal, sys, threading, time
        import celltile
        ds = celltile.open(sys.argv[1])
        loader = ds.loader(10, buffer=20)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                for batch in loader:
                    pass
        except KeyboardInterrupt:
            state = loader.state_dict()
            loader.load_state_dict(state)
            rest = sum(1 for _ in loader)
            assert rest == 150 - (state["segments"][0]["steps"] if state["segments"] else 0), (rest, state)
            print("interrupted")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(dataset)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "interrupted"


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("shuffle", ["chunks", "tiles", "cells", False, "weights"])
def test_memory_stays_where_it_is(many: Path, shuffle: Any) -> None:
    """An epoch over 100 buffers grows the process by nothing after its first tenth."""

    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    ds = celltile.open(many)
    options = {"shuffle": shuffle}
    if shuffle == "weights":
        options = {"weights": np.ones(ds.n_cells)}
    # A tile is as large as a buffer.
    loader = ds.loader(50, buffer=150, threads=2, **options)
    sizes = []
    for _ in loader:
        sizes.append(resident())
    assert len(sizes) == 300
    tenth = len(sizes) // 10
    assert max(sizes[tenth:]) - max(sizes[:tenth]) < 2 << 20


def test_loaders_in_several_threads(ds: celltile.Dataset) -> None:
    expected = cells(ds.loader(90))
    found: list[Any] = [None] * 4

    def run(number: int) -> None:
        found[number] = cells(ds.loader(90))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_signals_are_python_s(ds: celltile.Dataset) -> None:
    # Nothing of ours takes over the handling of signals.
    before = signal.getsignal(signal.SIGINT)
    list(ds.loader(500))
    assert signal.getsignal(signal.SIGINT) is before
