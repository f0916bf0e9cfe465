"""Progress bars of long calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from celltile._optional import need

#: Called with the name of a stage, what is counted, how many are done, and of how many.
ProgressCallback: TypeAlias = Callable[[str, str, int, int], object]
#: A bar (``True``), none (``False``), a bar on a terminal (``None``), or a callable of the caller's.
Progress: TypeAlias = bool | ProgressCallback | None


@contextmanager
def showing(progress: Progress) -> Iterator[ProgressCallback | None]:
    """What the extension module calls, while a bar is shown."""
    if progress is False:
        yield None
        return
    if callable(progress):
        yield progress
        return
    try:
        tqdm = need("tqdm.auto", "a progress bar").tqdm
    except ImportError:
        if progress:
            raise
        yield None
        return
    bars: dict[str, Any] = {}

    def tell(stage: str, unit: str, done: int, total: int) -> None:
        bar = bars.get(stage)
        if bar is None:
            for earlier in bars.values():
                earlier.close()
            # None turns the bar off where there is no terminal.
            disable = False if progress else None
            bar = bars[stage] = tqdm(total=total, desc=stage, unit=f" {unit}", disable=disable)
        bar.total = total
        bar.update(done - bar.n)

    try:
        yield tell
    finally:
        for bar in bars.values():
            bar.close()
