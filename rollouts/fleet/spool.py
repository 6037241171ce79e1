"""Keep encoded fragments on the disk while the platform is away, oldest first.

Each worker process has a folder of its own below that of its run, and holds a lock on it, which
the kernel frees when the process ends, however it does. Whoever gets the lock of a folder that
holds fragments is its heir: any worker of the same run on the same machine.
"""

import fcntl
import os
import shutil
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

SPOOL_BYTES: Final = 512 * 1024 * 1024
LOCK_TRIES: Final = 10
KEPT_SECONDS: Final = 24 * 3600.0
"""How long a folder that nobody inherits is kept: its run has ended, or runs elsewhere."""


class Spool:
    """A first-in-first-out queue of files; one thread at a time.

    A file is whole or not there. The folder is made with the first of them.
    """

    def __init__(self, folder: Path, *, most_bytes: int = SPOOL_BYTES) -> None:
        """Touch nothing yet; `folder` belongs to this process alone."""
        self.folder = folder
        self.lost = 0
        """Fragments that were written and could not be read again."""
        self._most_bytes = most_bytes
        self._files: deque[tuple[Path, int]] = deque()
        self._bytes = 0
        self._next = 0
        self._lock: int | None = None

    @classmethod
    def inherit(cls, folder: Path) -> Self | None:
        """Return what a process left in `folder`; None while it lives, or if there is nothing."""
        spool = cls(folder)
        if not spool._take_lock():
            return None
        found = sorted(folder.glob("*.fragment"))
        spool._files.extend((path, path.stat().st_size) for path in found)
        spool._bytes = sum(size for _, size in spool._files)
        if not found:
            spool.close()
            return None
        return spool

    def __len__(self) -> int:
        return len(self._files)

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
        path = self.folder / f"{self._next:020d}.fragment"
        part = path.with_suffix(".part")
        try:
            part.write_bytes(content)
            part.replace(path)
        except OSError:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise
        self._next += 1
        self._files.append((path, len(content)))
        self._bytes += len(content)

    def oldest(self, count: int) -> list[bytes]:
        """Return up to `count` fragments, oldest first; what cannot be read is lost."""
        chosen: list[bytes] = []
        while len(chosen) < min(count, len(self._files)):
            path, size = self._files[len(chosen)]
            try:
                chosen.append(path.read_bytes())
            except OSError:
                del self._files[len(chosen)]
                self._bytes -= size
                self.lost += 1
        return chosen

    def remove_oldest(self) -> None:
        """Forget the first fragment: the platform has it."""
        path, size = self._files.popleft()
        path.unlink(missing_ok=True)
        self._bytes -= size

    def close(self) -> None:
        """Let go of the folder, and remove it if nothing waits in it."""
        if self._lock is None:
            return
        if not self._files:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)
        self._lock = None

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
        return folder.stat().st_mtime
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
