"""One file of a spool: fragments end to end, and how far the platform has them.

    8 bytes            where the first fragment lies that the platform has not answered for
    for each fragment  8 bytes that say how long it is, then the fragment

Numbers are unsigned and little endian. Nothing is synced: what a process has written is the
kernel's, and stays when the process is killed. Only the last fragment can be cut short, by a kill
in the middle of the write, or by a disk that is full.
"""

import errno
import os
import struct
from pathlib import Path
from typing import Final, NamedTuple, Self

_NUMBER: Final = struct.Struct("<Q")
_BEGINNING: Final = _NUMBER.size


class Place(NamedTuple):
    """Where a fragment lies in its segment."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.offset + self.size


class Segment:
    """An open file of a spool; one thread at a time."""

    def __init__(self, path: Path, file: int, *, size: int) -> None:
        """Take a file that `create` or `reopen` opened; `size` is where its last fragment ends."""
        self.path = path
        self.size = size
        self._file = file

    @classmethod
    def create(cls, path: Path) -> Self:
        """Begin an empty file.

        Raises:
            OSError: If there can be none.
        """
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _write(file, [_NUMBER.pack(_BEGINNING)], 0)
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        return cls(path, file, size=_BEGINNING)

    @classmethod
    def reopen(cls, path: Path) -> Self:
        """Open what another process has written.

        Raises:
            OSError: If it cannot be read.
        """
        return cls(path, os.open(path, os.O_RDWR | os.O_CLOEXEC), size=_BEGINNING)

    def places(self) -> tuple[list[Place], bool]:
        """Return what was not answered for, oldest first, and whether the last one is cut short."""
        length = os.fstat(self._file).st_size
        found: list[Place] = []
        at = self._number(0) or _BEGINNING
        while (size := self._number(at)) is not None and at + _NUMBER.size + size <= length:
            found.append(Place(at + _NUMBER.size, size))
            at = found[-1].end
        self.size = at
        return found, at < length

    def append(self, content: bytes) -> Place:
        """Write a fragment behind the others.

        Raises:
            OSError: If the disk does not take it; the file is as before then.
        """
        try:
            _write(self._file, [_NUMBER.pack(len(content)), content], self.size)
        except OSError:
            os.ftruncate(self._file, self.size)
            raise
        place = Place(self.size + _NUMBER.size, len(content))
        self.size = place.end
        return place

    def read(self, place: Place) -> bytes:
        """Return a fragment.

        Raises:
            OSError: If it can no longer be read.
        """
        content = os.pread(self._file, place.size, place.offset)
        if len(content) < place.size:
            raise OSError(errno.EIO, "the file is shorter than it was", str(self.path))
        return content

    def answered(self, place: Place) -> None:
        """Write down that the platform has the fragment, and all before it.

        A mark that is lost costs a duplicate, which the platform counts and does not store.
        """
        os.pwrite(self._file, _NUMBER.pack(place.end), 0)

    def close(self) -> None:
        """Close the file and keep it."""
        os.close(self._file)

    def remove(self) -> None:
        """Close the file and remove it."""
        self.close()
        self.path.unlink(missing_ok=True)

    def _number(self, offset: int) -> int | None:
        raw = os.pread(self._file, _NUMBER.size, offset)
        return _NUMBER.unpack(raw)[0] if len(raw) == _NUMBER.size else None


def _write(file: int, parts: list[bytes], offset: int) -> None:
    if os.pwritev(file, parts, offset) < sum(map(len, parts)):
        # Less is written only where there is no room for all.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
