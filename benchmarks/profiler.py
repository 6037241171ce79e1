"""Profile our web processes, with a report as text."""

import contextlib
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

SAMPLES_PER_SECOND: Final = 400
STOP_SECONDS: Final = 60.0
SHOWN: Final = 45
# Innermost functions of idle threads, which py-spy does not always recognize.
IDLE: Final = (
    "wait (threading.py",
    "_worker (concurrent/futures/thread.py",
    "_wait_for_tstate_lock (threading.py",
    "run (asyncio/runners.py",
    "get_message (redis/",
    "_read_from_socket (redis/",
    "select (selectors.py",
    "_work (buffer/ingest/services/idempotency.py",
    "_publish_for_ever (platform/web/live/announcements.py",
)
Stacks = Counter[tuple[str, ...]]


class ProfilerMissing(Exception):
    """py-spy is not installed next to this interpreter."""


class Profiler:
    """Sampler of web processes with py-spy during a measurement."""

    def __init__(self) -> None:
        self._program = Path(sys.executable).with_name("py-spy")
        if not self._program.is_file():
            raise ProfilerMissing(f"{sys.executable} -m pip install py-spy")
        self._pids: Callable[[], list[int]] = list
        self.stacks: Stacks = Counter()

    def watch(self, pids: Callable[[], list[int]]) -> None:
        """Set the processes to sample."""
        self._pids = pids

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Sample while the block runs, without idle threads."""
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, f"{pid}.folded") for pid in self._pids()]
            running = [self._start(file) for file in files]
            try:
                yield
            finally:
                for process in running:
                    process.send_signal(2)
                    process.wait(STOP_SECONDS)
            for file in files:
                self.stacks += folded(file.read_text(encoding="utf-8"))

    def _start(self, file: Path) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [
                *(str(self._program), "record", "--pid", file.stem, "--output", str(file)),
                *("--format", "raw", "--rate", str(SAMPLES_PER_SECOND), "--duration", "3600"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None  # noqa: S101 it was asked for above
        process.stdout.readline()  # printed when sampling has begun
        return process


def folded(text: str) -> Stacks:
    """Return the busy stacks of py-spy's raw format: `outer;…;inner count` on each line."""
    stacks: Stacks = Counter()
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = tuple(stack.split(";"))
        if not any(idle in frames[-1] for idle in IDLE):
            stacks[frames] += int(count)
    return stacks


def as_text(stacks: Stacks, *, title: str) -> str:
    """Return the functions with the most samples, alone and with the functions they call."""
    total = sum(stacks.values()) or 1
    alone: Counter[str] = Counter()
    within: Counter[str] = Counter()
    for stack, count in stacks.items():
        alone[_function(stack[-1])] += count
        for name in {_function(frame) for frame in stack}:
            within[name] += count
    lines = [
        f"{title}: {total} samples of busy threads, {SAMPLES_PER_SECOND} a second.",
        "`wait (psycopg/connection.py)` is the time that PostgreSQL takes.",
        "",
    ]
    packages: Counter[str] = Counter()
    for name, count in alone.items():
        packages[_package(name)] += count
    parts = (
        ("by package", packages),
        ("in the function itself", alone),
        ("with all it calls", within),
    )
    for words, counts in parts:
        lines += [words, *_table(counts, total), ""]
    return "\n".join(lines)


def _table(counts: Counter[str], total: int) -> list[str]:
    return [f"{count / total:7.1%}  {name}" for name, count in counts.most_common(SHOWN)]


def _function(frame: str) -> str:
    """Return `name (file)` without the line number."""
    name, _, place = frame.partition(" (")
    file = place.rstrip(")").rpartition(":")[0]
    return f"{name} ({file})" if file else frame


def _package(function: str) -> str:
    """Return a function's package; waits for PostgreSQL are listed separately."""
    if function.startswith("Connection.wait (psycopg"):
        return "waiting for PostgreSQL"
    return function.rpartition("(")[2].partition("/")[0].rstrip(")") or "?"
