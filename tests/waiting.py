"""Wait for conditions with a maximum time, and continue as soon as they hold."""

import time
from collections.abc import Callable


def within(seconds: float, happens: Callable[[], object], *, interval_seconds: float = 0.1) -> bool:
    """Return whether a condition became true in time; it is checked at least once."""
    deadline = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval_seconds)
    return True


def eventually(
    happens: Callable[[], object], seconds: float = 120.0, *, interval_seconds: float = 0.01
) -> float:
    """Wait until a condition is true or fail after a timeout; return the seconds it took."""
    began = time.monotonic()
    assert within(seconds, happens, interval_seconds=interval_seconds), (
        f"it was not true within {seconds} s"
    )
    return time.monotonic() - began
