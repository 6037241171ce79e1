"""Console progress of a backup: a line rewritten in a terminal, or a line every 10 s in a log."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol, TextIO

EVERY_SECONDS: Final = 0.5
LOG_EVERY_SECONDS: Final = 10.0
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


class Counted(Protocol):
    """The running totals of a copy."""

    files: int
    size_bytes: int


class Progress:
    """Progress lines on a stream.

    Args:
        stream: Target of the lines; a stream that is not a terminal gets fewer.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._next_at = 0.0
        self._is_open = False

    def report(self, text: str) -> None:
        """Write a permanent line."""
        self.end()
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def copied(self, what: str, counted: Counted) -> None:
        """Show the files copied so far, unless a line was written recently."""
        self._now(f"{what}: {counted.files} files, {size(counted.size_bytes)}")

    def checked(self, what: str, files: int, size_bytes: int) -> None:
        """Show the files read or written so far, unless a line was written recently."""
        self._now(f"{what}: {files} files, {size(size_bytes)}")

    @contextmanager
    def of(self, path: Path) -> Iterator[None]:
        """Show the growing size of a file that another program writes."""
        is_over = threading.Event()

        def watch() -> None:
            while not is_over.wait(EVERY_SECONDS):
                if path.exists():
                    self._now(f"{path.name}: {size(path.stat().st_size)}")

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            is_over.set()
            watcher.join()

    def _now(self, text: str) -> None:
        now = time.monotonic()
        if now < self._next_at:
            return
        self._next_at = now + (EVERY_SECONDS if self._is_terminal else LOG_EVERY_SECONDS)
        if self._is_terminal:
            self._stream.write(f"\r\x1b[K{text}")
            self._is_open = True
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def end(self) -> None:
        """Clear the line that is being rewritten."""
        if self._is_open:
            self._stream.write("\r\x1b[K")
            self._is_open = False


def size(count: int) -> str:
    """Return a size for people, such as ``1.5 GB``."""
    value, unit = float(count), _UNITS[0]
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            break
        value /= 1000
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
