"""Lay out ROLLDECK_VAR, and let one deck at a time use it."""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final, TextIO

from config.embedded.children import StartFailed

# PostgreSQL's and Ray's sockets add up to 60 bytes to this path, and 107 is the most.
MAX_SOCKET_FOLDER_BYTES: Final = 40


class DeckRunning(StartFailed):
    """Another deck uses this data folder."""


class Folders:
    """Where a deck keeps what it has to keep."""

    def __init__(self, var: Path) -> None:
        self.var = var
        self.run = var / "run"
        self.log = var / "log"
        self.postgres = var / "postgres"
        self.services = self.run / "services.json"

    def create(self) -> None:
        """Create what is missing; the deck's own folders are private."""
        for folder in (self.var, self.run, self.log):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in (self.run, self.log):
            folder.chmod(0o700)

    def lock(self) -> TextIO:
        """Return an open file that holds this folder until it is closed or the process ends.

        Raises:
            DeckRunning: If another process holds it; the message names the process.
        """
        path = self.run / "lock"
        held = path.open("a+", encoding="ascii")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.close()
            pid = path.read_text(encoding="ascii").strip() or "unknown"
            raise DeckRunning(
                f"a deck already runs on {self.var} (process {pid}); stop it, or give this one "
                "another ROLLDECK_VAR and ROLLDECK_PORT"
            ) from None
        held.truncate(0)
        held.write(str(os.getpid()))
        held.flush()
        return held

    def new_socket_folder(self) -> Path:
        """Return a private, short folder for sockets; removes the one a killed deck left."""
        note = self.run / "sockets"
        if note.is_file():
            _remove_left_behind(Path(note.read_text(encoding="utf-8")))
        folder = socket_folder()
        note.write_text(str(folder), encoding="utf-8")
        return folder

    def remove_socket_folder(self, folder: Path) -> None:
        """Remove what `new_socket_folder` made."""
        shutil.rmtree(folder, ignore_errors=True)
        (self.run / "sockets").unlink(missing_ok=True)


def socket_folder() -> Path:
    """Return a new private folder whose path is short enough for sockets in it."""
    wanted = Path(tempfile.gettempdir())
    base = wanted if len(os.fsencode(wanted)) <= MAX_SOCKET_FOLDER_BYTES - 20 else Path("/tmp")  # noqa: S108
    return Path(tempfile.mkdtemp(prefix="rolldeck-", dir=base))


def _remove_left_behind(folder: Path) -> None:
    if (
        folder.name.startswith("rolldeck-")
        and folder.is_dir()
        and folder.stat().st_uid == os.getuid()
    ):
        shutil.rmtree(folder, ignore_errors=True)
