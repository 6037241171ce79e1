"""Logs of fleet processes on each node, as sanitized, bounded text.

The files of a run share a folder on each node: ``manager.log``, ``w0.log`` for worker 0, and
``w0-slot-8.log`` for the env process whose first slot is 8. A new process appends to the file of
its predecessor, so the end of a crashed process' log is preserved. Environment output is shown to
users in a browser or a terminal: escape sequences are removed, and every other control character
is shown as one replacement character.
"""

import contextlib
import faulthandler
import logging
import os
import re
import selectors
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rolldeck.operator_requests import LogLines
from rollouts.fleet.process.private_folder import MODE, private_folder
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings

LINES_AT_MOST: Final = 1000
LINE_CHARACTERS: Final = 2000
NEWEST_CHARACTERS: Final = 240
"""Maximum length of the one line included in every report."""
TAIL_BYTES: Final = 1 << 18
"""Bytes read from the end of a log, regardless of line lengths."""

# ECMA-48: CSI with its parameters, OSC and other strings up to their end, and two-byte escapes.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]?"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
MOST_BYTES: Final = 1 << 20
"""Size at which the older half of a file is discarded."""
LAST_OUTPUT_LINES: Final = 20
"""Number of log lines in the event about a lost worker."""
LOG_RETENTION_SECONDS: Final = 7 * 86_400.0
FORMAT: Final = "%(asctime)s %(levelname)-7s %(threadName)s %(name)s: %(message)s"
READ_BYTES: Final = 1 << 16
NEWEST_BYTES: Final = 2048
"""Size of the end of a log that is searched for its newest line."""
FRAMES_AT_MOST: Final = 60
"""Maximum number of innermost frames per thread."""


def clean(line: str) -> str:
    """Return a line without escape sequences and control characters, at most LINE_CHARACTERS long.

    Of a line overwritten with carriage returns, the last state is kept.
    """
    drawn = line.rstrip("\r\n").rpartition("\r")[2]
    shown = _CONTROLS.sub("\ufffd", _ESCAPES.sub("", drawn[: 4 * LINE_CHARACTERS]))
    left_out = len(shown) - LINE_CHARACTERS + max(0, len(drawn) - 4 * LINE_CHARACTERS)
    if left_out > 0:
        return f"{shown[:LINE_CHARACTERS]} … {left_out} characters left out"
    return shown


def clean_lines(lines: Iterable[str], *, most: int = LINES_AT_MOST) -> list[str]:
    """Return the last `most` of `lines`, each as :func:`clean` leaves it."""
    kept = list(lines)[-most:] if most > 0 else []
    return [clean(line) for line in kept]


def newest(raw: bytes) -> str:
    """Return the last non-empty line of a log's end, at most NEWEST_CHARACTERS of it."""
    for line in reversed(raw.decode("utf-8", errors="replace").split("\n")):
        shown = clean(line).strip()
        if shown:
            return (
                shown if len(shown) <= NEWEST_CHARACTERS else f"{shown[: NEWEST_CHARACTERS - 1]}…"
            )
    return ""


def last_lines(raw: bytes, *, lines: int, is_whole: bool) -> list[str]:
    """Return the last lines of a log's end.

    Args:
        raw: The end of the log; bytes that are not UTF-8 become replacement characters.
        lines: Maximum number of lines.
        is_whole: Whether `raw` is the entire log. Otherwise it may begin inside a line, which is
            omitted unless it is the only one.
    """
    found = raw.decode("utf-8", errors="replace").split("\n")
    if found[-1] == "":
        found.pop()
    if not is_whole and len(found) > 1:
        found = found[1:]
    return clean_lines(found, most=min(lines, LINES_AT_MOST))


class RingFile:
    """File with the newest bytes written to it; thread-safe."""

    def __init__(self, path: Path, *, most_bytes: int = MOST_BYTES) -> None:
        """Open the file for appending; it and its folders are created if they are missing.

        It is no link. One write at most exceeds `most_bytes`.
        """
        self.path = path
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        path.parent.mkdir(mode=MODE, parents=True, exist_ok=True)
        # Append mode, because other descriptors such as a stderr write to the file as well.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(path, flags, 0o600)

    def fileno(self) -> int:
        return self._file

    def write(self, raw: bytes) -> None:
        """Append bytes; on a full disk they are discarded, so that logging never fails."""
        with self._lock, contextlib.suppress(OSError):
            os.write(self._file, raw[-self._most_bytes :])
            self._trim()

    def write_line(self, text: str) -> None:
        """Append a marked line that is not output of the process."""
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        begin = "" if self.end(1) in (b"", b"\n") else "\n"
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
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            # The descriptor number may be reused: late writers must not write to another file.
            self._file = -1

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


def tail(path: Path, *, lines: int) -> list[str]:
    """Return the last lines of a log; empty if there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = max(0, size - TAIL_BYTES)
            file.seek(begin)
            raw = file.read(TAIL_BYTES)
    except OSError:
        return []
    return last_lines(raw, lines=lines, is_whole=begin == 0)


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


class ActorLog:
    """Log of a manager or a worker: the fleet's log records and the output of its process.

    Several actors can share one process, as in a local fleet. Each then takes only the records of
    threads with its name prefix.
    """

    def __init__(self, ring: RingFile, *, threads: tuple[str, ...]) -> None:
        """Start taking the records of threads whose names begin with one of `threads`."""
        self._ring = ring
        self._handler = _RingHandler(ring, threads)
        logging.getLogger("rollouts").addHandler(self._handler)
        ring.write_line(f"process {os.getpid()} starts")

    def trim(self) -> None:
        """Enforce the size limit of the file, which other descriptors also write to."""
        self._ring.trim()

    def newest_line(self) -> str:
        return newest(self._ring.end(NEWEST_BYTES))

    def close(self) -> None:
        logging.getLogger("rollouts").removeHandler(self._handler)
        self._ring.write_line(f"process {os.getpid()} was asked to end")
        self._ring.close()


class _RingHandler(logging.Handler):
    def __init__(self, ring: RingFile, threads: tuple[str, ...]) -> None:
        super().__init__()
        self._ring = ring
        self._threads = threads
        formatter = logging.Formatter(FORMAT)
        # Nodes may be in different time zones; readers expect UTC.
        formatter.converter = time.gmtime
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        if (record.threadName or "").startswith(self._threads):
            self._ring.write(self.format(record).encode(errors="replace") + b"\n")


def redirect_output(settings: FleetSettings, *, worker: int | None) -> None:
    """Redirect stdout and stderr of this process to its log, until its end.

    For processes that hold a single actor. The kernel performs the writes, so the file also
    contains the last output before a crash in native code.
    """
    ring = RingFile(log_of(settings, worker=worker, slot=None))
    print(f"output continues in {ring.path}", flush=True)  # noqa: T201 into the cluster's own log
    logging.getLogger("rollouts").setLevel(logging.INFO)
    logging.getLogger("rollouts").propagate = False
    for descriptor in (1, 2):
        os.dup2(ring.fileno(), descriptor)
    ring.close()
    faulthandler.enable()


class OutputPump:
    """Reads the output of env processes into one log file per process.

    One thread sleeps until there is output. A process that writes too much is slowed down by its
    pipe, and cannot fill the disk.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        """Prepare the pump; the first process starts its thread."""
        self._settings = settings
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._logs: dict[int, RingFile] = {}
        self._reading: dict[int, int] = {}
        self._thread: threading.Thread | None = None
        self._bell, self._button = os.pipe()
        self._is_closed = False
        self._selector.register(self._bell, selectors.EVENT_READ, None)

    def open(self, slot: int) -> int:
        """Return a descriptor for the output of the process whose first slot is `slot`.

        The caller closes it once the process has inherited it.
        """
        with self._lock:
            self._drain_old_output(slot)
            if slot not in self._logs:
                path = log_of(self._settings.fleet, worker=self._settings.index, slot=slot)
                self._logs[slot] = RingFile(path)
            reading, writing = os.pipe()
            os.set_blocking(reading, False)
            self._reading[slot] = reading
            self._selector.register(reading, selectors.EVENT_READ, slot)
            if self._thread is None:
                name = f"{self._settings.name} output"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()
            return writing

    def write_line(self, slot: int, text: str) -> None:
        with self._lock:
            self._drain(slot)
            if slot in self._logs:
                self._logs[slot].write_line(text)

    def close(self) -> None:
        """Read the remaining output and stop; all processes have ended."""
        with self._lock:
            self._is_closed = True
            os.write(self._button, b"!")
        if self._thread is not None:
            self._thread.join(2.0)
        with self._lock:
            for slot in list(self._logs):
                self._drain_old_output(slot)
                self._logs.pop(slot).close()
            self._selector.close()
            os.close(self._bell)
            os.close(self._button)

    def _run(self) -> None:
        while True:
            found = self._selector.select()
            with self._lock:
                if self._is_closed:
                    return
                for key, _ in found:
                    if key.data is not None and self._reading.get(key.data) == key.fd:
                        self._read(key.data)

    def _read(self, slot: int) -> bool:
        """Read one chunk of output; return whether there may be more."""
        try:
            raw = os.read(self._reading[slot], READ_BYTES)
        except BlockingIOError:
            return False
        if not raw:
            self._stop_reading(slot)
            return False
        self._logs[slot].write(raw)
        return True

    def _drain(self, slot: int) -> None:
        # Bounded, because a living process may write without end.
        for _ in range(64):
            if slot not in self._reading or not self._read(slot):
                return

    def _drain_old_output(self, slot: int) -> None:
        """Read the last output of an earlier process; output of its children is discarded."""
        self._drain(slot)
        self._stop_reading(slot)

    def _stop_reading(self, slot: int) -> None:
        descriptor = self._reading.pop(slot, None)
        if descriptor is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(descriptor)
            os.close(descriptor)


def read_stacks() -> LogLines:
    """Return the stacks of all Python threads, innermost call last, at most 1,000 lines.

    Native threads have no Python stack. The call needs the GIL, so native code that holds the GIL
    delays it.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    own = threading.get_ident()
    lines = []
    for ident, frame in sorted(sys._current_frames().items()):  # noqa: SLF001 documented
        if ident == own:
            continue
        calls = traceback.extract_stack(frame)
        lines.append(f"Thread {names.get(ident, 'not started by Python')} ({ident:#x})")
        if len(calls) > FRAMES_AT_MOST:
            lines.append(f"  … {len(calls) - FRAMES_AT_MOST} outer calls omitted")
        for call in calls[-FRAMES_AT_MOST:]:
            lines.append(f"  {call.filename}:{call.lineno} in {call.name}")
            lines += [f"    {call.line}"] if call.line else []
        lines.append("")
    left_out = max(0, len(lines) - LINES_AT_MOST)
    return LogLines(
        lines=[clean(line) for line in lines[:LINES_AT_MOST]],
        node=socket.gethostname()[:200],
        path=f"pid {os.getpid()}",
        note=f"{left_out} lines omitted" if left_out else "",
    )
