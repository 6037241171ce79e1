"""One file of a spool: consecutive fragments, and the position of the first unanswered one.

    8 bytes            offset of the first fragment without an answer from the platform
    for each fragment  8 bytes length, then the fragment

Numbers are unsigned and little-endian. Files are not synced: data written by a process is in the
kernel and survives the process. Only the last fragment can be truncated, by a kill during the
write or by a full disk.
"""

import errno
import os
import struct
from pathlib import Path
from typing import Final, NamedTuple, Self

_NUMBER: Final = struct.Struct("<Q")
_BEGINNING: Final = _NUMBER.size
_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


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
