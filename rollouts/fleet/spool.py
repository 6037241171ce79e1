"""Keep encoded fragments in a folder while the platform is away, oldest first."""

import shutil
from collections import deque
from pathlib import Path
from typing import Final

SPOOL_BYTES: Final = 512 * 1024 * 1024


class Spool:
    """A first-in-first-out queue of files; one thread at a time.

    A file is whole or not there. Files of an earlier process in the same folder come first.
    """

    def __init__(self, folder: Path, *, most_bytes: int = SPOOL_BYTES) -> None:
        """Take over what is in `folder`, which need not exist."""
        self._folder = folder
        self._most_bytes = most_bytes
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = sorted(folder.glob("*.fragment"))
        self._files: deque[tuple[Path, int]] = deque((path, path.stat().st_size) for path in found)
        self._bytes = sum(size for _, size in self._files)
        self._next = int(found[-1].stem) + 1 if found else 0

    def __len__(self) -> int:
        return len(self._files)

    def has_room(self) -> bool:
        """Whether a further fragment fits."""
        return self._bytes < self._most_bytes

    def append(self, content: bytes) -> None:
        """Write a fragment down behind all others."""
        path = self._folder / f"{self._next:020d}.fragment"
        part = path.with_suffix(".part")
        part.write_bytes(content)
        part.replace(path)
        self._next += 1
        self._files.append((path, len(content)))
        self._bytes += len(content)

    def oldest(self, count: int) -> list[bytes]:
        """Return up to `count` fragments, oldest first."""
        chosen = [path for path, _ in list(self._files)[:count]]
        return [path.read_bytes() for path in chosen]

    def remove_oldest(self, count: int) -> None:
        """Forget the first `count` fragments: the platform has them."""
        for _ in range(count):
            path, size = self._files.popleft()
            path.unlink(missing_ok=True)
            self._bytes -= size

    def close(self) -> None:
        """Remove the folder if nothing waits in it."""
        if not self._files:
            shutil.rmtree(self._folder, ignore_errors=True)
