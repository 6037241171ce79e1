"""Store encoded fragments in files, oldest first, until the platform has accepted them.

Each worker process has a folder below that of its run, and holds a lock on it. The kernel releases
the lock when the process ends for any reason. Any worker of the same run on the same machine can
then take the lock, and inherit and send the fragments.

A spool consists of files of consecutive fragments:

    8 bytes            offset of the first fragment without an answer from the platform
    for each fragment  8 bytes length, then the fragment

Numbers are unsigned and little-endian. Files are not synced: data written by a process is in the
kernel and survives the process. Only the last fragment can be truncated, by a kill during the
write or by a full disk.
"""

import errno
import fcntl
import os
import struct
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

_NUMBER: Final = struct.Struct("<Q")
_BEGINNING: Final = _NUMBER.size
_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
SPOOL_BYTES: Final = 512 * 1024 * 1024
SEGMENT_BYTES: Final = 8 * 1024 * 1024
"""Size at which a new segment file is started. The platform usually has all fragments of a segment
before the kernel would write it to disk, so most segments are never written."""
FREE_BYTES: Final = 512 * 1024 * 1024
FREE_SHARE: Final = 0.1
"""Free space below which a spool of more than a segment takes no more: `FREE_BYTES`, or this share
of a small disk. The disk may be the platform's, which needs it to accept fragments again."""
MEMORY_BYTES: Final = 16 * 1024 * 1024
"""Size of fragments also kept in memory, which need not be read again for sending."""
LOCK_TRIES: Final = 10
SPOOL_RETENTION_SECONDS: Final = 24 * 3600.0
"""Retention of folders that no worker inherits, because their run has ended or moved."""


class FragmentPosition(NamedTuple):
    """Position of a fragment in its segment."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        """Offset of the next fragment."""
        return self.offset + self.size


class Segment:
    """An open file of a spool; not thread-safe."""

    def __init__(self, path: Path, file: int, *, size: int) -> None:
        """Wrap a file opened by `create` or `reopen`; `size` is the end of its last fragment."""
        self.path = path
        self.size = size
        self._file = file

    @classmethod
    def create(cls, path: Path) -> Self:
        """Create an empty file.

        Raises:
            OSError: If the file cannot be created.
        """
        file = os.open(path, _FLAGS | os.O_CREAT, 0o600)
        try:
            _write(file, [_NUMBER.pack(_BEGINNING)], 0)
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        return cls(path, file, size=_BEGINNING)

    @classmethod
    def reopen(cls, path: Path) -> Self:
        """Open a file written by another process.

        Raises:
            OSError: If it cannot be opened.
        """
        return cls(path, os.open(path, _FLAGS), size=_BEGINNING)

    def positions(self) -> tuple[list[FragmentPosition], bool]:
        """Return the unanswered fragments, oldest first, and whether the last one is truncated."""
        length = os.fstat(self._file).st_size
        found: list[FragmentPosition] = []
        at = self._number(0) or _BEGINNING
        while (size := self._number(at)) is not None and at + _NUMBER.size + size <= length:
            found.append(FragmentPosition(at + _NUMBER.size, size))
            at = found[-1].end
        self.size = at
        return found, at < length

    def append(self, content: bytes) -> FragmentPosition:
        """Append a fragment.

        Raises:
            OSError: If the disk does not accept it; the file is unchanged then.
        """
        try:
            _write(self._file, [_NUMBER.pack(len(content)), content], self.size)
        except OSError:
            os.ftruncate(self._file, self.size)
            raise
        place = FragmentPosition(self.size + _NUMBER.size, len(content))
        self.size = place.end
        return place

    def read(self, place: FragmentPosition) -> bytes:
        """Return a fragment.

        Raises:
            OSError: If it can no longer be read.
        """
        content = os.pread(self._file, place.size, place.offset)
        if len(content) < place.size:
            raise OSError(errno.EIO, "the spool file is truncated", str(self.path))
        return content

    def answered(self, place: FragmentPosition) -> None:
        """Mark a fragment and all before it as answered.

        A lost mark causes a duplicate, which the platform counts and does not store.
        """
        os.pwrite(self._file, _NUMBER.pack(place.end), 0)

    def close(self) -> None:
        """Close the file and keep it."""
        os.close(self._file)

    def remove(self) -> None:
        """Close the file and delete it."""
        self.close()
        self.path.unlink(missing_ok=True)

    def _number(self, offset: int) -> int | None:
        raw = os.pread(self._file, _NUMBER.size, offset)
        return _NUMBER.unpack(raw)[0] if len(raw) == _NUMBER.size else None


def _write(file: int, parts: list[bytes], offset: int) -> None:
    if os.pwritev(file, parts, offset) < sum(map(len, parts)):
        # A partial write means that the disk is full.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@dataclass(frozen=True, slots=True)
class _Entry:
    segment: Segment
    place: FragmentPosition
    content: bytes | None
    """Content; None if it must be read from the file."""


class Spool:
    """FIFO queue that survives its process; not thread-safe.

    Fragments are written atomically. The folder is created with the first fragment.
    """

    def __init__(self, folder: Path, *, most_bytes: int = SPOOL_BYTES) -> None:
        """Prepare a spool; `folder` must be used by this process only."""
        self.folder = folder
        self.lost = 0
        """Number of fragments that were at least partly written and cannot be read."""
        self._most_bytes = most_bytes
        self._entries: deque[_Entry] = deque()
        self._segments: deque[Segment] = deque()
        self._bytes = self._bytes_in_memory = 0
        self._next = 0
        self._lock: int | None = None

    @classmethod
    def inherit(cls, folder: Path) -> Self | None:
        """Return the fragments that a process left in `folder`; None if it is in use or empty."""
        spool = cls(folder)
        if not spool._take_lock():
            return None
        for path in sorted(folder.glob("*.segment")):
            try:
                segment = Segment.reopen(path)
                places, is_cut_short = segment.positions()
            except OSError:
                spool.lost += 1
                continue
            spool._segments.append(segment)
            spool._entries.extend(_Entry(segment, place, None) for place in places)
            spool._bytes += sum(place.size for place in places)
            spool.lost += is_cut_short
        if not spool._entries and not spool.lost:
            spool.close()
            return None
        return spool

    def __len__(self) -> int:
        return len(self._entries)

    def has_room(self) -> bool:
        """Return whether another fragment fits."""
        if self._bytes < min(SEGMENT_BYTES, self._most_bytes):
            return True
        if self._bytes >= self._most_bytes:
            return False
        try:
            disk = os.statvfs(self.folder)
        except OSError:
            return True
        least = min(FREE_BYTES, FREE_SHARE * disk.f_blocks * disk.f_frsize)
        return disk.f_bavail * disk.f_frsize >= least

    def append(self, content: bytes) -> None:
        """Append a fragment.

        Raises:
            OSError: If the disk does not accept it; nothing is written then.
        """
        for _ in range(LOCK_TRIES):
            if self._lock is not None:
                break
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Fails if another process removes the empty folder in between.
            self._take_lock()
        if self._lock is None:
            raise OSError(f"{self.folder} cannot be locked")
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
        """Return up to `count` fragments, oldest first; unreadable ones are counted as lost."""
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
        """Remove the first fragment, which the platform has accepted."""
        entry = self._entries.popleft()
        self._bytes -= entry.place.size
        self._bytes_in_memory -= 0 if entry.content is None else entry.place.size
        with suppress(OSError):  # it may be sent twice, but is stored once
            entry.segment.answered(entry.place)
        while self._segments:
            segment = self._segments[0]
            is_used = bool(self._entries) and self._entries[0].segment is segment
            # The last segment gets further fragments until it is full.
            is_open = segment is self._segments[-1] and segment.size < SEGMENT_BYTES
            if is_used or is_open:
                break
            self._segments.popleft().remove()

    def close(self) -> None:
        """Release the folder; delete it if it has no fragments and no other files."""
        if self._lock is None:
            return
        while self._segments:
            self._segments.popleft().close()
        if not self._entries:
            with suppress(OSError):
                for path in self.folder.glob("*.segment"):  # unreadable ones
                    path.unlink()
                self.folder.rmdir()
        os.close(self._lock)
        self._lock = None

    def _take_lock(self) -> bool:
        """Lock the folder; return whether this process now owns it."""
        try:
            lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        # The previous owner may have deleted the folder in between.
        if not os.fstat(lock).st_nlink:
            os.close(lock)
            return False
        self._lock = lock
        return True


class SpoolDirectory:
    """Spool directory of one run on this machine, with the folders of its workers."""

    def __init__(self, root: Path, run_key: str) -> None:
        """Name the directory.

        Args:
            root: Parent of the directories of all runs.
            run_key: Name of this run's directory.
        """
        self._root = root
        self.folder = root / run_key

    def next_orphaned_spool(self) -> Spool | None:
        """Return the oldest spool of an ended worker, locked for this process."""
        for folder in _folders(self.folder):
            spool = Spool.inherit(folder)
            if spool is not None:
                return spool
        return None

    def sweep(self, now: float) -> int:
        """Delete spools unused for `SPOOL_RETENTION_SECONDS`; return the number of fragments.

        Links are not followed, and other files and their folders stay.

        Args:
            now: Unix time in seconds.
        """
        removed = 0
        for run in _folders(self._root):
            for folder in _folders(run):
                if now - _touched_at(folder) > SPOOL_RETENTION_SECONDS:
                    removed += _remove(folder)
            # Fails while the directory still contains folders.
            with suppress(OSError):
                run.rmdir()
        return removed


def _folders(parent: Path) -> list[Path]:
    try:
        found = [path for path in parent.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []
    return sorted(found, key=_touched_at)


def _touched_at(folder: Path) -> float:
    try:
        # The folder's own time may be older than that of a file in it.
        return max(path.lstat().st_mtime for path in (folder, *folder.iterdir()))
    except OSError:
        # Another process removed the folder in between.
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
