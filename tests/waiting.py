"""Wait for conditions with a maximum time, and continue as soon as they hold.

A test never sleeps for a fixed time. It waits for what shall happen with `eventually` or `within`.
It observes that something does not happen with `stays`, and in coroutines with `stays_async`.
"""

import asyncio
import time
from collections.abc import Callable


def within(
    seconds: float, happens: Callable[[], object], *, interval_seconds: float = 0.05
) -> bool:
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


def stays(
    condition: Callable[[], object], seconds: float, *, interval_seconds: float = 0.02
) -> None:
    """Fail unless a condition is true at each check during `seconds`, the end included.

    This observes an absence, such as a fleet that makes no further step while it is paused. Use it
    only where no event of the subject is ordered after the one that must not happen. `seconds` is
    a few times the interval at which the subject would act.
    """
    began = time.monotonic()
    is_over = False
    while not is_over:
        passed = time.monotonic() - began
        is_over = passed >= seconds
        assert condition(), f"it was no longer true after {passed:.2f} of {seconds} s"
        if not is_over:
            time.sleep(interval_seconds)


async def stays_async(
    condition: Callable[[], object], seconds: float, *, interval_seconds: float = 0.02
) -> None:
    """Fail unless a condition is true at each check during `seconds`; see `stays`."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    is_over = False
    while not is_over:
        passed = loop.time() - began
        is_over = passed >= seconds
        assert condition(), f"it was no longer true after {passed:.2f} of {seconds} s"
        if not is_over:
            await asyncio.sleep(interval_seconds)
