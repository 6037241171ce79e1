"""Temporary suspension of Python's garbage collection in all threads."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

MAX_PAUSE_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.005


@contextmanager
def no_collection() -> Iterator[None]:
    """Suspend automatic garbage collection in all threads; not reentrant.

    A collection running in another thread is waited for, at most 5 s: objects that it frees may run
    code, so that this thread could continue before it has ended.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        deadline = time.monotonic() + MAX_PAUSE_SECONDS
        while not _collected_here() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        yield
    finally:
        if collects:
            gc.enable()


def _collected_here() -> bool:
    """Collect the youngest objects; return False if another thread's collection prevents it."""
    begun: list[str] = []

    def note(phase: str, _: dict[str, Any]) -> None:
        begun.append(phase)

    gc.callbacks.append(note)
    try:
        gc.collect(0)
    finally:
        gc.callbacks.remove(note)
    return bool(begun)
