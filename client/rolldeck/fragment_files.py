"""Folder of fragments without a platform: write it during rollouts, read it for training.

A file ``fragments-000001.msgpack`` is the body of a push, an encoded
:class:`rolldeck.wire.FragmentPush`, so a platform accepts it too. A trainer reads a folder with::

    arrays = stack(join([*read_fragments("rollouts")]))  # rolldeck.training.chunks
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from rolldeck.batches import FragmentView
from rolldeck.closing import Closing
from rolldeck.errors import InvalidMessageError
from rolldeck.wire import (
    Fragment,
    FragmentPush,
    encode_push,
)

FRAGMENTS_PER_FILE: Final = 128
BYTES_PER_FILE: Final = 8 * 1024 * 1024
"""Size at which a file is complete; one larger fragment has a file without others."""
PATTERN: Final = "fragments-*.msgpack"


class FragmentFiles(Closing):
    """Writer of a folder; thread-safe. Each file appears under its name once it is complete."""

    def __init__(self, folder: Path) -> None:
        """Create the folder if it does not exist.

        Raises:
            FileExistsError: If the folder has fragments, or is a file.
            OSError: If the folder cannot be created.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.glob(PATTERN)):
            raise FileExistsError(f"{folder} already contains fragments; use another folder")
        self.folder = folder
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._files = 0

    def add(self, fragment: bytes) -> None:
        """Add an encoded :class:`rolldeck.wire.Fragment`.

        Raises:
            OSError: If a file cannot be written.
        """
        with self._lock:
            if self._waiting and self._waiting_bytes + len(fragment) > BYTES_PER_FILE:
                self._write()
            self._waiting.append(fragment)
            self._waiting_bytes += len(fragment)
            if len(self._waiting) >= FRAGMENTS_PER_FILE:
                self._write()

    def close(self) -> None:
        """Write the fragments that wait for a complete file.

        Raises:
            OSError: If the file cannot be written.
        """
        with self._lock:
            if self._waiting:
                self._write()

    def _write(self) -> None:
        path = self.folder / f"fragments-{self._files + 1:06}.msgpack"
        unfinished = path.with_name(f".{path.name}.part")
        try:
            unfinished.write_bytes(encode_push(self._waiting))
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        self._files += 1
        self._waiting, self._waiting_bytes = [], 0


def read_fragments(folder: Path | str) -> Iterator[FragmentView]:
    """Yield the fragments of a folder, file by file, in the order in which they were cut.

    Raises:
        FileNotFoundError: If the folder has no fragments.
        InvalidMessageError: If a file is damaged; the text names it.
    """
    paths = sorted(Path(folder).glob(PATTERN))
    if not paths:
        raise FileNotFoundError(f"{folder} contains no {PATTERN}")
    for path in paths:
        try:
            push = msgspec.msgpack.decode(path.read_bytes(), type=FragmentPush)
            found = [msgspec.msgpack.decode(one, type=Fragment) for one in push.fragments]
        except msgspec.DecodeError as error:
            raise InvalidMessageError(f"{path} is not a file of fragments: {error}") from error
        yield from map(FragmentView, found)
