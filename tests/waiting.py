"""Wait for what must come: tests name how long at the most, and go on at once when it is there."""

import time
from collections.abc import Callable


def within(seconds: float, happens: Callable[[], object], *, every: float = 0.1) -> bool:
    """Return whether something became true in time; it is looked at once at least."""
    deadline = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


def eventually(
    happens: Callable[[], object], seconds: float = 120.0, *, every: float = 0.01
) -> float:
    """Wait until something is true, and fail if that takes too long; return the seconds it took."""
    began = time.monotonic()
    assert within(seconds, happens, every=every), f"it was not true within {seconds} s"
    return time.monotonic() - began
