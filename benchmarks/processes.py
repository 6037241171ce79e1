"""Start servers that end with this process, and measure their memory and processor time."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.http_client import Line, request_bytes
from rollouts.fleet.process import die_with_parent

ROOT: Final = Path(__file__).resolve().parents[1]
STOP_SECONDS: Final = 20.0


class NotStarted(Exception):
    """A server did not respond in time; the message ends with its log."""


def free_port() -> int:
    """Return a free port on the loopback interface."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def server(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    url: str,
    ready_path: str,
    start_seconds: float = 60.0,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a server until the block ends; if this process is killed, the kernel stops it."""
    with log.open("ab") as file:
        process = subprocess.Popen(
            [*die_with_parent.shim(signal.SIGINT), *argv],
            cwd=ROOT,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        _wait_until_ready(process, url, ready_path, seconds=start_seconds, log=log)
        yield process
    finally:
        _end(process)


def _wait_until_ready(
    process: "subprocess.Popen[bytes]", url: str, path: str, *, seconds: float, log: Path
) -> None:
    deadline = time.monotonic() + seconds
    request = request_bytes("GET", path, headers={"Connection": "close"})
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), Line(url) as line:
            if line.ask(request).status == 200:
                return
        time.sleep(0.05)
    raise NotStarted(f"{url} does not answer; its log ends:\n{log.read_text()[-3000:]}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def descendants(pid: int) -> dict[int, str]:
    """Return the command line of every process below `pid`, at any depth, by id."""
    parents: dict[int, int] = {}
    lines: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            line = (entry / "cmdline").read_text(encoding="utf-8", errors="replace")
            lines[int(entry.name)] = line.replace("\0", " ").strip()
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    commands: dict[int, str] = {}
    wave = {pid}
    while wave:
        wave = {child for child, parent in parents.items() if parent in wave}
        commands |= {child: lines[child] for child in wave}
    return commands


def is_waiting_spare(pid: int, line: str) -> bool:
    """Return whether a web process has not taken the place of another one yet."""
    if not line.endswith(" spare"):
        return False
    try:
        return Path(f"/proc/{pid}/fd/0").readlink().name.startswith("pipe:")
    except OSError:
        return False


def memory_bytes(pid: int, field: str) -> int:
    """Return a memory figure of a process: `Rss`, `Pss`, `Private_Dirty`, …; 0 if it has ended."""
    with contextlib.suppress(OSError):
        text = Path("/proc", str(pid), "smaps_rollup").read_text(encoding="utf-8")
        return sum(
            int(line.split()[1]) * 1024
            for line in text.splitlines()
            if line.startswith(f"{field}:")
        )
    return 0


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the processor time of processes and of their ended children."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            stat = Path("/proc", str(pid), "stat").read_text(encoding="utf-8", errors="replace")
            ticks += sum(int(field) for field in stat.rpartition(")")[2].split()[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")
