"""Start processes that end with the test process, and inspect processes by id."""

import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rollouts.fleet.process import die_with_parent


class _Process(subprocess.Popen[Any]):
    """A process that is killed when its `with` block ends with an exception."""

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, *error)


def start(command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """Start a process that gets SIGTERM when this process ends in any way.

    It runs in a separate session, so that Ctrl-C in a terminal reaches only pytest. Used with
    `with`, it is killed at an exception.

    Args:
        command: Program and arguments.
        options: Further arguments of `subprocess.Popen`.
    """
    return _Process(_bound_to_us(command), start_new_session=True, **options)


def run(
    command: Sequence[str], *, check: bool = False, **options: Any
) -> "subprocess.CompletedProcess[Any]":
    """Run a command to its end, with the guarantees of `start`."""
    return subprocess.run(_bound_to_us(command), start_new_session=True, check=check, **options)


def _bound_to_us(command: Sequence[str]) -> list[str]:
    return [*die_with_parent.shim(signal.SIGTERM), *command]


def is_gone(pid: int) -> bool:
    """Return whether a process has ended or only needs to be reaped by its parent.

    The first thread may end before the others; until they have ended, the sockets are open.
    """
    process = Path("/proc", str(pid))
    try:
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        return state == "X" or (state == "Z" and len(list((process / "task").iterdir())) == 1)
    except OSError:  # no such file, or the process ended while it was read
        return True


def wait_until_gone(pid: int, *, seconds: float = 10) -> None:
    """Wait until a process has ended, because a signal is delivered asynchronously."""
    deadline = time.monotonic() + seconds
    while not is_gone(pid):
        assert time.monotonic() < deadline, f"process {pid} did not end within {seconds} s"
        time.sleep(0.01)
