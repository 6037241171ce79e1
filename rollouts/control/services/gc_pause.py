"""Hold Python's garbage collector back for a moment, in every thread."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

PATIENCE_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.005


@contextmanager
def no_collection() -> Iterator[None]:
    """Let no thread collect garbage meanwhile, by itself; not to be entered twice at a time.

    A collection that has begun in another thread is waited for, at most 5 s: what it frees may
    run code, and so let this thread go on before it has ended.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _collected_here() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        yield
    finally:
        if collects:
            gc.enable()


def _collected_here() -> bool:
    """Collect the youngest objects; return False if another thread is at it, and nothing was."""
    begun: list[str] = []

    def note(phase: str, _: dict[str, Any]) -> None:
        begun.append(phase)

    gc.callbacks.append(note)
    try:
        gc.collect(0)
    finally:
        gc.callbacks.remove(note)
    return bool(begun)
