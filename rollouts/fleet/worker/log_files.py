"""Keep what a fleet's processes say in files of bounded size, which outlive the processes.

The files of a run lie together on each node: ``manager.log``, ``w0.log`` for worker 0 and
``w0-slot-8.log`` for the env process whose first slot is 8. A new process goes on writing where
the one before ended, so the last words of one that crashed stay above the first of the next.
"""

import contextlib
import os
import re
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from rollouts.fleet.worker import log_text
from rollouts.fleet.worker.settings import FleetSettings

MOST_BYTES: Final = 1 << 20
"""Size at which the older half of a file is let go."""
LAST_WORDS: Final = 20
"""Lines of a lost worker's log that go into the event about it."""
FORGET_AFTER_SECONDS: Final = 7 * 86_400.0


class RingFile:
    """A file that keeps the newest bytes written to it; any thread may write."""

    def __init__(self, path: Path, *, most_bytes: int = MOST_BYTES) -> None:
        """Go on with the file, or begin it.

        Args:
            path: Of the file; its folder is made where it is missing.
            most_bytes: Size that it never exceeds by more than one write.
        """
        self.path = path
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        # Appending: other descriptors of the file, such as a stderr, write behind what is there.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)

    def fileno(self) -> int:
        """Return the file's descriptor, for `os.dup2`."""
        return self._file

    def write(self, raw: bytes) -> None:
        """Append bytes; a full disk loses them, silently: a log must not stop what it is about."""
        with self._lock, contextlib.suppress(OSError):
            os.write(self._file, raw[-self._most_bytes :])
            self._trim()

    def say(self, text: str) -> None:
        """Append a line of our own among those of the process."""
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        begin = "" if self._is_at_line_begin() else "\n"
        self.write(f"{begin}--- {at} UTC {text}\n".encode(errors="replace"))

    def trim(self) -> None:
        """Let the older half go if others have made the file too large."""
        with self._lock, contextlib.suppress(OSError):
            self._trim()

    def end(self, most_bytes: int) -> bytes:
        """Return the newest bytes of the file; none once it is closed, or cannot be read."""
        with self._lock, contextlib.suppress(OSError):
            size = os.fstat(self._file).st_size
            return os.pread(self._file, most_bytes, max(0, size - most_bytes))
        return b""

    def close(self) -> None:
        """Close this descriptor."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            # Its number may belong to another file soon: late writers must not find it.
            self._file = -1

    def _is_at_line_begin(self) -> bool:
        with self._lock, contextlib.suppress(OSError):
            size = os.fstat(self._file).st_size
            return size == 0 or os.pread(self._file, 1, size - 1) == b"\n"
        return True

    def _trim(self) -> None:
        size = os.fstat(self._file).st_size
        if size <= self._most_bytes:
            return
        kept = os.pread(self._file, self._most_bytes // 2, size - self._most_bytes // 2)
        os.ftruncate(self._file, 0)
        os.write(self._file, b"--- older lines were let go\n" + kept.partition(b"\n")[2])


def folder_of(settings: FleetSettings) -> Path:
    """Return where the logs of the run lie on this node."""
    root = settings.log_root or str(Path(tempfile.gettempdir(), "rolldeck-logs"))
    return Path(root, re.sub(r"[^A-Za-z0-9_.-]", "_", settings.run_key or settings.run))


def log_of(settings: FleetSettings, *, worker: int | None, slot: int | None) -> Path:
    """Return the file of a manager, a worker, or the env process that holds a slot."""
    if worker is None:
        return folder_of(settings) / "manager.log"
    if slot is None:
        return folder_of(settings) / f"w{worker}.log"
    size = settings.config.fleet.envs_per_process
    return folder_of(settings) / f"w{worker}-slot-{slot // size * size}.log"


def last_words(settings: FleetSettings, *, worker: int) -> list[str]:
    """Return how a worker's log ends, where it was on this node."""
    return tail(log_of(settings, worker=worker, slot=None), lines=LAST_WORDS)


def tail(path: Path, *, lines: int) -> list[str]:
    """Return the last lines of a log; empty where there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = max(0, size - log_text.TAIL_BYTES)
            file.seek(begin)
            raw = file.read(log_text.TAIL_BYTES)
    except OSError:
        return []
    return log_text.last_lines(raw, lines=lines, is_whole=begin == 0)


def forget_old_runs(settings: FleetSettings) -> None:
    """Remove the logs of runs that have said nothing for a week."""
    mine = folder_of(settings)
    oldest = time.time() - FORGET_AFTER_SECONDS
    with contextlib.suppress(OSError):
        for folder in mine.parent.iterdir():
            newest = max((file.stat().st_mtime for file in folder.iterdir()), default=0.0)
            if folder != mine and newest < oldest:
                shutil.rmtree(folder, ignore_errors=True)
