"""Forked children whose end is waited for, however they end."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def forked(check: Callable[[], bool], seconds: float = 120) -> None:
    """Calls `check` in a forked child, which must find it true, and neither hang nor crash."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if check() else 2
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    deadline = time.monotonic() + seconds
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("a forked child hangs")
        time.sleep(0.002)
    assert os.waitstatus_to_exitcode(ended[1]) == 0
