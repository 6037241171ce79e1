"""Folder of encoded items without a platform, in files that are each the body of a push."""

import threading
from abc import abstractmethod
from pathlib import Path
from typing import ClassVar, Final

from rolldeck.closing import Closing

ITEMS_PER_FILE: Final = 128
BYTES_PER_FILE: Final = 8 * 1024 * 1024
"""Size at which a file is complete; one larger item has a file without others."""


class PushFiles(Closing):
    """Writer of a folder; thread-safe. Each file appears under its name once it is complete."""

    items: ClassVar[str]
    """Name of the items, with which the names of the files begin."""

    def __init__(self, folder: Path | str) -> None:
        """Create the folder if it does not exist.

        Raises:
            FileExistsError: If the folder has such files, or is a file.
            OSError: If the folder cannot be created.
        """
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        if any(self.folder.glob(f"{self.items}-*.msgpack")):
            raise FileExistsError(f"{folder} already contains {self.items}; use another folder")
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._files = 0

    @staticmethod
    @abstractmethod
    def body(items: list[bytes]) -> bytes:
        """Return the body of a push of encoded items."""

    def add(self, item: bytes) -> None:
        """Add an encoded item.

        Raises:
            OSError: If a file cannot be written.
        """
        with self._lock:
            if self._waiting and self._waiting_bytes + len(item) > BYTES_PER_FILE:
                self._write()
            self._waiting.append(item)
            self._waiting_bytes += len(item)
            if len(self._waiting) >= ITEMS_PER_FILE:
                self._write()

    def close(self) -> None:
        """Write the items that wait for a complete file.

        Raises:
            OSError: If the file cannot be written.
        """
        with self._lock:
            if self._waiting:
                self._write()

    def _write(self) -> None:
        path = self.folder / f"{self.items}-{self._files + 1:06}.msgpack"
        unfinished = path.with_name(f".{path.name}.part")
        try:
            unfinished.write_bytes(self.body(self._waiting))
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        self._files += 1
        self._waiting, self._waiting_bytes = [], 0


def files_in(folder: Path | str, items: str) -> list[Path]:
    """Return the files of some items in a folder, in the order in which they were written.

    Raises:
        FileNotFoundError: If there are none.
    """
    paths = sorted(Path(folder).glob(f"{items}-*.msgpack"))
    if not paths:
        raise FileNotFoundError(f"{folder} contains no {items}-*.msgpack")
    return paths
