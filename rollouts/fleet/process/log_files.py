"""Log files of a fleet's processes, of bounded size; they outlive the processes.

The files of a run share a folder on each node: ``manager.log``, ``w0.log`` for worker 0, and
``w0-slot-8.log`` for the env process whose first slot is 8. A new process appends to the file of
its predecessor, so the end of a crashed process' log is preserved.
"""

import contextlib
import os
import re
import socket
import threading
import time
from pathlib import Path
from typing import Final

from rolldeck.operator_requests import LogLines
from rollouts.fleet.process import log_text
from rollouts.fleet.process.private_folder import MODE, private_folder
from rollouts.fleet.process.settings import FleetSettings

MOST_BYTES: Final = 1 << 20
"""Size at which the older half of a file is discarded."""
LAST_OUTPUT_BYTES: Final = 20
"""Number of log lines in the event about a lost worker."""
LOG_RETENTION_SECONDS: Final = 7 * 86_400.0


class RingFile:
    """File with the newest bytes written to it; thread-safe."""

    def __init__(self, path: Path, *, most_bytes: int = MOST_BYTES) -> None:
        """Open the file for appending, creating it if necessary.

        Args:
            path: Path of the file, no link; missing parent folders are created.
            most_bytes: Size limit, exceeded by one write at most.
        """
        self.path = path
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        path.parent.mkdir(mode=MODE, parents=True, exist_ok=True)
        # Append mode, because other descriptors such as a stderr write to the file as well.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(path, flags, 0o600)

    def fileno(self) -> int:
        """Return the file's descriptor, for `os.dup2`."""
        return self._file

    def write(self, raw: bytes) -> None:
        """Append bytes; on a full disk they are discarded, so that logging never fails."""
        with self._lock, contextlib.suppress(OSError):
            os.write(self._file, raw[-self._most_bytes :])
            self._trim()

    def write_line(self, text: str) -> None:
        """Append a marked line that is not output of the process."""
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        begin = "" if self._is_at_line_begin() else "\n"
        self.write(f"{begin}--- {at} UTC {text}\n".encode(errors="replace"))

    def trim(self) -> None:
        """Discard the older half if other writers have made the file too large."""
        with self._lock, contextlib.suppress(OSError):
            self._trim()

    def end(self, most_bytes: int) -> bytes:
        """Return the newest bytes of the file; empty if it is closed or unreadable."""
        with self._lock, contextlib.suppress(OSError):
            size = os.fstat(self._file).st_size
            return os.pread(self._file, most_bytes, max(0, size - most_bytes))
        return b""

    def close(self) -> None:
        """Close this descriptor."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            # The descriptor number may be reused: late writers must not write to another file.
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
        os.write(self._file, b"--- older lines were discarded\n" + kept.partition(b"\n")[2])


def folder_of(settings: FleetSettings) -> Path:
    """Return the log folder of the run on this node."""
    root = settings.log_root or private_folder("logs")
    return Path(root, re.sub(r"[^A-Za-z0-9_.-]", "_", settings.run_key or settings.run))


def log_of(settings: FleetSettings, *, worker: int | None, slot: int | None) -> Path:
    """Return the log file of a manager, a worker, or the env process that runs a slot."""
    if worker is None:
        return folder_of(settings) / "manager.log"
    if slot is None:
        return folder_of(settings) / f"w{worker}.log"
    size = settings.config.fleet.envs_per_process
    return folder_of(settings) / f"w{worker}-slot-{slot // size * size}.log"


def last_log_lines(settings: FleetSettings, *, worker: int) -> list[str]:
    """Return the last lines of a worker's log, if the worker ran on this node."""
    return tail(log_of(settings, worker=worker, slot=None), lines=LAST_OUTPUT_BYTES)


def tail(path: Path, *, lines: int) -> list[str]:
    """Return the last lines of a log; empty if there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = max(0, size - log_text.TAIL_BYTES)
            file.seek(begin)
            raw = file.read(log_text.TAIL_BYTES)
    except OSError:
        return []
    return log_text.last_lines(raw, lines=lines, is_whole=begin == 0)


def delete_old_runs(settings: FleetSettings) -> None:
    """Delete the logs of runs without output for a week, and no other files."""
    mine = folder_of(settings)
    oldest = time.time() - LOG_RETENTION_SECONDS
    with contextlib.suppress(OSError):
        for folder in mine.parent.iterdir():
            if folder == mine or folder.is_symlink():
                continue
            with contextlib.suppress(OSError):
                logs = list(folder.glob("*.log"))
                if max((log.lstat().st_mtime for log in logs), default=0.0) < oldest:
                    for log in logs:
                        log.unlink()
                    folder.rmdir()  # fails while the folder contains anything else


def read_log(
    settings: FleetSettings, *, worker: int | None, slot: int | None, lines: int
) -> LogLines:
    """Return the end of a log on this node."""
    path = log_of(settings, worker=worker, slot=slot)
    found = tail(path, lines=lines)
    return LogLines(lines=found, node=socket.gethostname()[:200], path=str(path)[-500:])
