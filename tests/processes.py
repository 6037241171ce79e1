"""Looks at processes by their ids."""

import time
from pathlib import Path


def is_gone(pid: int) -> bool:
    """Return whether a process has ended, or has only to be reaped by its parent.

    Its first thread may end before the others; until they have, its sockets are open.
    """
    process = Path("/proc", str(pid))
    try:
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        return state == "X" or (state == "Z" and len(list((process / "task").iterdir())) == 1)
    except OSError:  # no such file, or the process ended while it was read
        return True


def wait_until_gone(pid: int, *, seconds: float = 10) -> None:
    """Return once a process has ended: a signal takes a moment to arrive."""
    deadline = time.monotonic() + seconds
    while not is_gone(pid):
        assert time.monotonic() < deadline, f"process {pid} did not end within {seconds} s"
        time.sleep(0.01)
