"""Redirect the output of an actor and its env processes to log files."""

import contextlib
import faulthandler
import logging
import os
import selectors
import threading
import time
from typing import Final

from rollouts.fleet.process import log_files, log_text
from rollouts.fleet.process.log_files import RingFile
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings

FORMAT: Final = "%(asctime)s %(levelname)-7s %(threadName)s %(name)s: %(message)s"
READ_BYTES: Final = 1 << 16
NEWEST_BYTES: Final = 2048
"""Size of the end of a log that is searched for its newest line."""


class ActorLog:
    """Log of a manager or a worker: the fleet's log records and the output of its process.

    Several actors can share one process, as in a local fleet. Each then takes only the records of
    threads with its name prefix.
    """

    def __init__(self, ring: RingFile, *, threads: tuple[str, ...]) -> None:
        """Start taking records.

        Args:
            ring: Receives the records.
            threads: Name prefixes of this actor's threads.
        """
        self._ring = ring
        self._handler = _RingHandler(ring, threads)
        logging.getLogger("rollouts").addHandler(self._handler)
        ring.write_line(f"process {os.getpid()} starts")

    def trim(self) -> None:
        """Enforce the size limit of the file, which other descriptors also write to."""
        self._ring.trim()

    def newest_line(self) -> str:
        """Return the newest line of the log, truncated."""
        return log_text.newest(self._ring.end(NEWEST_BYTES))

    def close(self) -> None:
        """Stop taking records."""
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
    ring = RingFile(log_files.log_of(settings, worker=worker, slot=None))
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
                path = log_files.log_of(
                    self._settings.fleet, worker=self._settings.index, slot=slot
                )
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
        """Append a line to the log of a process."""
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
