"""Datasets on a server: forks, workers, caches, and a server that does not answer."""

from __future__ import annotations

import multiprocessing
import pickle
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forks import forked, needs_fork

import celltile


class Handler(BaseHTTPRequestHandler):
    """Files with ranges, and nothing else."""

    protocol_version = "HTTP/1.1"
    requests: list[str] = []  # noqa: RUF012

    def __init__(self, root: Path, *args: Any) -> None:
        self.root = root
        super().__init__(*args)

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.requests.append(self.path)
        path = self.root / self.path.partition("?")[0].lstrip("/")
        if not path.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        data = path.read_bytes()
        size = len(data)
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if found:
            start, end = int(found[1]), min(int(found[2] or size - 1), size - 1)
            data = data[start : end + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end}/{size}")
        else:
            self.send_response(200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{size}"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@pytest.fixture
def url(dataset: Path) -> Iterator[str]:
    Handler.requests.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, dataset))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


# Plain HTTP is refused unless it is asked for.
SETTINGS = {"allow_http": "true"}


def total(ds: celltile.Dataset, start: int, stop: int) -> int:
    return int(ds.arrays(slice(start, stop))[2].sum())


def test_same_as_local(url: str, dataset: Path) -> None:
    remote, local = celltile.open(url, settings=SETTINGS), celltile.open(dataset)
    for cells in (slice(None), [3, 1499, 3, 700]):
        for found, expected in zip(remote.arrays(cells), local.arrays(cells), strict=True):
            np.testing.assert_array_equal(found, expected)
    pytest.importorskip("pandas")
    assert remote.obs().equals(local.obs())
    assert remote.var.equals(local.var)
    remote.verify(strict=True)
    assert remote.location == url
    assert pickle.loads(pickle.dumps(remote))._options == remote._options


def test_secrets_are_not_shown(url: str) -> None:
    ds = celltile.open(f"{url}/?token=secret", settings=SETTINGS)
    assert "secret" in ds.location
    assert "secret" not in repr(ds)
    with pytest.raises(celltile.CelltileError) as caught:
        celltile.open(f"{url}/nix?token=secret", settings=SETTINGS)
    assert "secret" not in str(caught.value)


def test_tiles_are_kept(url: str, tmp_path: Path) -> None:
    kept = {"cache_dir": tmp_path / "c", "cache_tiles": 1 << 20, "settings": SETTINGS}
    first = celltile.open(url, **kept)  # type: ignore[arg-type]
    expected = total(first, 0, 1500)
    Handler.requests.clear()
    again = celltile.open(url, **kept)  # type: ignore[arg-type]
    assert total(again, 0, 1500) == expected
    assert again.arrays([1400, 3])[2].tolist() == first.arrays([1400, 3])[2].tolist()
    assert not [path for path in Handler.requests if path.endswith(".dct")]


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_worker_processes(url: str, method: str) -> None:
    ds = celltile.open(url, settings=SETTINGS)
    # The parent's threads and connections are there before it forks.
    expected = [total(ds, start, start + 300) for start in range(0, 1500, 300)]
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        futures = [pool.submit(total, ds, start, start + 300) for start in range(0, 1500, 300)]
        assert [future.result(60) for future in futures] == expected


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_inherited_dataset(url: str) -> None:
    """The object itself, not a pickle of it, in a forked child."""
    ds = celltile.open(url, settings=SETTINGS)
    expected = total(ds, 0, 1500)
    forked(lambda: total(ds, 0, 1500) == expected, 60)
    assert total(ds, 0, 1500) == expected


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise there")
def test_ctrl_c_while_a_server_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        code = f"import celltile; print('ready', flush=True); celltile.open({url!r}, settings={SETTINGS!r})"
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.5)
            asked = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
            took = time.monotonic() - asked
    assert "KeyboardInterrupt" in err
    # Long before the request itself is given up.
    assert took < 40


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise there")
def test_ctrl_c_in_a_loop_over_batches_while_a_server_is_silent(dataset: Path) -> None:
    """The process ends while its request is still open: nobody waits for the threads that made it."""
    asked, answer = threading.Event(), threading.Event()

    class Silent(Handler):
        def do_GET(self) -> None:
            if self.path.endswith(".dct"):
                asked.set()
                answer.wait(120)
            super().do_GET()

    code = (
        "import sys, celltile\n"
        f"ds = celltile.open(sys.argv[1], settings={SETTINGS!r})\n"
        "for batch in ds.loader(100, 'tiles'): pass"
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, dataset))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        with subprocess.Popen(
            [sys.executable, "-c", code, url], stderr=subprocess.PIPE, text=True
        ) as process:
            assert asked.wait(60)
            process.send_signal(signal.SIGINT)
            try:
                _, err = process.communicate(timeout=60)
            finally:
                process.kill()
        assert not answer.is_set()
        assert "KeyboardInterrupt" in err
    finally:
        answer.set()
        server.shutdown()
        thread.join()
        server.server_close()
