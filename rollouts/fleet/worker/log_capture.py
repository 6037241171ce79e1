"""Bring what an actor and its env processes write into their log files."""

import contextlib
import faulthandler
import logging
import os
import selectors
import threading
import time
from typing import Final

from rollouts.fleet.worker import log_files, log_text
from rollouts.fleet.worker.log_files import RingFile
from rollouts.fleet.worker.settings import FleetSettings, WorkerSettings

FORMAT: Final = "%(asctime)s %(levelname)-7s %(threadName)s %(name)s: %(message)s"
READ_BYTES: Final = 1 << 16
NEWEST_BYTES: Final = 2048
"""Of a log's end that are looked at for its newest line."""


class ActorLog:
    """The log of a manager or a worker: the fleet's own log records, and a process' output.

    Where several share one process, as in a local fleet, each takes the records of its own
    threads, whose names begin alike.
    """

    def __init__(self, ring: RingFile, *, threads: tuple[str, ...]) -> None:
        """Take records from now on.

        Args:
            ring: Where they go.
            threads: What the names of this actor's threads begin with.
        """
        self._ring = ring
        self._handler = _RingHandler(ring, threads)
        logging.getLogger("rollouts").addHandler(self._handler)
        ring.say(f"process {os.getpid()} begins")

    def trim(self) -> None:
        """Keep the file in its bounds, whatever wrote to it."""
        self._ring.trim()

    def newest_line(self) -> str:
        """Return the line that was written last, whoever wrote it, cut."""
        return log_text.newest(self._ring.end(NEWEST_BYTES))

    def close(self) -> None:
        """Take no further records."""
        logging.getLogger("rollouts").removeHandler(self._handler)
        self._ring.say(f"process {os.getpid()} was asked to end")
        self._ring.close()


class _RingHandler(logging.Handler):
    def __init__(self, ring: RingFile, threads: tuple[str, ...]) -> None:
        super().__init__()
        self._ring = ring
        self._threads = threads
        formatter = logging.Formatter(FORMAT)
        # Nodes may stand in different zones; what reads these times takes them for UTC.
        formatter.converter = time.gmtime
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        if (record.threadName or "").startswith(self._threads):
            self._ring.write(self.format(record).encode(errors="replace") + b"\n")


def take_output(settings: FleetSettings, *, worker: int | None) -> None:
    """Send all that this process writes to stdout and stderr into its log, until its end.

    For processes that hold one actor and nothing else. The kernel writes without our help, so
    the file also has the last words of a process that was killed by a crash in native code.
    """
    ring = RingFile(log_files.log_of(settings, worker=worker, slot=None))
    print(f"output goes on in {ring.path}", flush=True)  # noqa: T201 into the cluster's own log
    logging.getLogger("rollouts").setLevel(logging.INFO)
    logging.getLogger("rollouts").propagate = False
    for descriptor in (1, 2):
        os.dup2(ring.fileno(), descriptor)
    ring.close()
    faulthandler.enable()


class OutputPump:
    """Reads what env processes write, and keeps the newest of it by process.

    One thread sleeps until somebody writes. An env process that floods its output is slowed down
    by its own pipe and fills no disk.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        """Start nothing yet; the first process does."""
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
        """Return a descriptor to be the output of the process whose first slot is `slot`.

        The caller closes it once the process has it.
        """
        with self._lock:
            self._let_go(slot)
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

    def say(self, slot: int, text: str) -> None:
        """Write a line of our own behind the output of a process."""
        with self._lock:
            self._drain(slot)
            if slot in self._logs:
                self._logs[slot].say(text)

    def close(self) -> None:
        """Read what is left and end; the processes are gone."""
        with self._lock:
            self._is_closed = True
            os.write(self._button, b"!")
        if self._thread is not None:
            self._thread.join(2.0)
        with self._lock:
            for slot in list(self._logs):
                self._let_go(slot)
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
        """Take one piece of output; return whether there may be more now."""
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
        # Bounded: a process that is still there may write for ever.
        for _ in range(64):
            if slot not in self._reading or not self._read(slot):
                return

    def _let_go(self, slot: int) -> None:
        """Take the last words of an earlier process; children that it left write to nobody."""
        self._drain(slot)
        self._stop_reading(slot)

    def _stop_reading(self, slot: int) -> None:
        descriptor = self._reading.pop(slot, None)
        if descriptor is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(descriptor)
            os.close(descriptor)
