"""Start processes that end with the test process, and inspect processes by id."""

import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rollouts.fleet.process import die_with_parent


def start(command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """Start a process that gets SIGTERM when this process ends in any way.

    It runs in a separate session, so that Ctrl-C in a terminal reaches only pytest.

    Args:
        command: Program and arguments.
        options: Further arguments of `subprocess.Popen`.
    """
    return subprocess.Popen(_bound_to_us(command), start_new_session=True, **options)


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


def descendants(pid: int) -> dict[int, str]:
    """Return the command lines of all descendants of a process, by process id."""
    parents: dict[int, int] = {}
    lines: dict[int, str] = {}
    for child, stat, line in _processes():
        parents[child] = int(stat.rpartition(")")[2].split()[1])
        lines[child] = line

    def is_below(step: int) -> bool:
        while step in parents:
            step = parents[step]
            if step == pid:
                return True
        return False

    return {name: line for name, line in lines.items() if is_below(name)}


def is_waiting_spare(pid: int, line: str) -> bool:
    """Return whether a process has not taken the place of another one yet."""
    if not line.endswith(" spare "):
        return False
    try:
        return Path(f"/proc/{pid}/fd/0").readlink().name.startswith("pipe:")
    except OSError:
        return False


def _processes() -> Iterator[tuple[int, str, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_text().replace("\0", " ")
                yield int(entry.name), (entry / "stat").read_text(), line
            except OSError:
                continue
