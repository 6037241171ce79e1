"""Keep encoded fragments in files until the platform has them, oldest first.

Each worker process has a folder of its own below that of its run, and holds a lock on it, which
the kernel frees when the process ends, however it does. Whoever gets the lock of a folder that
holds fragments is its heir: any worker of the same run on the same machine.
"""

import fcntl
import os
import shutil
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from rollouts.fleet.spool.spool_segment import Place, Segment

SPOOL_BYTES: Final = 512 * 1024 * 1024
SEGMENT_BYTES: Final = 8 * 1024 * 1024
"""Length from which on a file is followed by another. The platform usually has it all before the
kernel thinks of writing it to the disk, and then it never is."""
MEMORY_BYTES: Final = 16 * 1024 * 1024
"""Of fragments that need not be read again to be sent."""
LOCK_TRIES: Final = 10
KEPT_SECONDS: Final = 24 * 3600.0
"""How long a folder that nobody inherits is kept: its run has ended, or runs elsewhere."""


@dataclass(frozen=True, slots=True)
class _Entry:
    segment: Segment
    place: Place
    content: bytes | None
    """None: to be read from the file."""


class Spool:
    """A first-in-first-out queue that outlives its process; one thread at a time.

    A fragment is whole or not there. The folder is made with the first of them.
    """

    def __init__(self, folder: Path, *, most_bytes: int = SPOOL_BYTES) -> None:
        """Touch nothing yet; `folder` belongs to this process alone."""
        self.folder = folder
        self.lost = 0
        """Fragments that were written, or begun to be, and cannot be read again."""
        self._most_bytes = most_bytes
        self._entries: deque[_Entry] = deque()
        self._segments: deque[Segment] = deque()
        self._bytes = self._bytes_in_memory = 0
        self._next = 0
        self._lock: int | None = None

    @classmethod
    def inherit(cls, folder: Path) -> Self | None:
        """Return what a process left in `folder`; None while it lives, or if there is nothing."""
        spool = cls(folder)
        if not spool._take_lock():
            return None
        for path in sorted(folder.glob("*.segment")):
            spool._reopen(path)
        if not spool._entries and not spool.lost:
            spool.close()
            return None
        return spool

    def __len__(self) -> int:
        return len(self._entries)

    def has_room(self) -> bool:
        """Whether a further fragment fits."""
        return self._bytes < self._most_bytes

    def append(self, content: bytes) -> None:
        """Write a fragment down behind all others.

        Raises:
            OSError: If the disk does not take it; nothing is written then.
        """
        if self._lock is None:
            self._make_folder()
        if not self._segments or self._segments[-1].size >= SEGMENT_BYTES:
            self._segments.append(Segment.create(self.folder / f"{self._next:020d}.segment"))
            self._next += 1
        segment = self._segments[-1]
        place = segment.append(content)
        fits = self._bytes_in_memory + len(content) <= MEMORY_BYTES
        self._bytes += len(content)
        self._bytes_in_memory += len(content) if fits else 0
        self._entries.append(_Entry(segment, place, content if fits else None))

    def oldest(self, count: int) -> list[bytes]:
        """Return up to `count` fragments, oldest first; what cannot be read is lost."""
        chosen: list[bytes] = []
        while len(chosen) < min(count, len(self._entries)):
            entry = self._entries[len(chosen)]
            try:
                chosen.append(
                    entry.segment.read(entry.place) if entry.content is None else entry.content
                )
            except OSError:
                del self._entries[len(chosen)]
                self._bytes -= entry.place.size
                self.lost += 1
        return chosen

    def remove_oldest(self) -> None:
        """Forget the first fragment: the platform has it."""
        entry = self._entries.popleft()
        self._bytes -= entry.place.size
        self._bytes_in_memory -= 0 if entry.content is None else entry.place.size
        with suppress(OSError):  # then it is sent twice, and stored once
            entry.segment.answered(entry.place)
        while self._segments and self._is_over(self._segments[0]):
            self._segments.popleft().remove()

    def close(self) -> None:
        """Let go of the folder, and remove it if nothing waits in it."""
        if self._lock is None:
            return
        while self._segments:
            self._segments.popleft().close()
        if not self._entries:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)
        self._lock = None

    def _is_over(self, segment: Segment) -> bool:
        """Whether nothing in it waits, and nothing more will come into it."""
        if self._entries and self._entries[0].segment is segment:
            return False
        return segment is not self._segments[-1] or segment.size >= SEGMENT_BYTES

    def _reopen(self, path: Path) -> None:
        try:
            segment = Segment.reopen(path)
            places, is_cut_short = segment.places()
        except OSError:
            self.lost += 1
            return
        self._segments.append(segment)
        self._entries.extend(_Entry(segment, place, None) for place in places)
        self._bytes += sum(place.size for place in places)
        self.lost += is_cut_short

    def _make_folder(self) -> None:
        for _ in range(LOCK_TRIES):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self._take_lock():
                return
            # Somebody who looks for empty folders was quicker.
        raise OSError(f"{self.folder} cannot be locked")

    def _take_lock(self) -> bool:
        """Return whether this process has the folder for itself now."""
        try:
            lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        # Its last owner may have removed it in between.
        if not os.fstat(lock).st_nlink:
            os.close(lock)
            return False
        self._lock = lock
        return True


class Estate:
    """The folders that workers of one run have left on this machine."""

    def __init__(self, root: Path, run_key: str) -> None:
        """Look at nothing yet.

        Args:
            root: Of the folders of all runs.
            run_key: Name of this run's folder.
        """
        self._root = root
        self.folder = root / run_key

    def next_inheritance(self) -> Spool | None:
        """Return the oldest spool of a worker that is gone, locked for this process."""
        for folder in _folders(self.folder):
            spool = Spool.inherit(folder)
            if spool is not None:
                return spool
        return None

    def sweep(self, now: float) -> int:
        """Remove what nobody has touched for :data:`KEPT_SECONDS`; return how many fragments.

        Args:
            now: Seconds since 1970, as the file system counts them.
        """
        removed = 0
        for run in _folders(self._root):
            for folder in _folders(run):
                if now - _touched_at(folder) > KEPT_SECONDS:
                    removed += _remove(folder)
            # Fails while a folder is left in it.
            with suppress(OSError):
                run.rmdir()
        return removed


def _folders(parent: Path) -> list[Path]:
    try:
        found = [path for path in parent.iterdir() if path.is_dir()]
    except OSError:
        return []
    return sorted(found, key=_touched_at)


def _touched_at(folder: Path) -> float:
    try:
        # A folder that changes no more may hold a file that does.
        return max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
    except OSError:
        # Another heir was quicker.
        return float("inf")


def _remove(folder: Path) -> int:
    spool = Spool.inherit(folder)
    if spool is None:
        return 0
    count = len(spool)
    while len(spool):
        spool.remove_oldest()
    spool.close()
    return count
