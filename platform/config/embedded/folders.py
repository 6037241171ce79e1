"""Layout of ROLLDECK_VAR, and a lock that permits one server at a time."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, TextIO

from config.embedded.children import StartFailed

# PostgreSQL and Ray append up to 60 bytes to this path; a socket's path is limited to 107 bytes.
MAX_SOCKET_FOLDER_BYTES: Final = 40


class ServerRunning(StartFailed):
    """Another server uses this data folder."""


class Folders:
    """The folders of one deployment."""

    def __init__(self, var: Path) -> None:
        self.var = var
        self.run = var / "run"
        self.log = var / "log"
        self.postgres = var / "postgres"
        self.services = self.run / "services.json"

    def create(self) -> None:
        """Create missing folders; the internal ones are private."""
        self.var.mkdir(parents=True, exist_ok=True)
        for folder in (self.run, self.log):
            _make_private(folder)
        # A server run by root may start PostgreSQL as another user, who has to reach its folder.
        with suppress(PermissionError):  # of another owner
            self.var.chmod(0o711 if os.geteuid() == 0 else 0o700)

    def create_payloads(self) -> None:
        """Create the private folders of files; those of a backup have to find none of payloads."""
        for name in ("payloads", "media", "archives"):
            _make_private(self.var / name)

    def lock(self) -> TextIO:
        """Lock this folder and return the open lock file; closing it releases the lock.

        Raises:
            ServerRunning: If another process holds the lock; the message has its process id.
        """
        path = self.run / "lock"
        held = path.open("a+", encoding="ascii")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.close()
            pid = path.read_text(encoding="ascii").strip() or "unknown"
            raise ServerRunning(
                f"a server already runs on {self.var} (process {pid}); stop it, or set another "
                "ROLLDECK_VAR and ROLLDECK_PORT for this one"
            ) from None
        held.truncate(0)
        held.write(str(os.getpid()))
        held.flush()
        return held

    def new_socket_folder(self) -> Path:
        """Return a new private, short folder for sockets; removes that of a killed server."""
        note = self.run / "sockets"
        if note.is_file():
            _remove_stale(Path(note.read_text(encoding="utf-8")))
        folder = socket_folder()
        note.write_text(str(folder), encoding="utf-8")
        return folder

    def remove_socket_folder(self, folder: Path) -> None:
        """Remove a folder created by `new_socket_folder`."""
        shutil.rmtree(folder, ignore_errors=True)
        (self.run / "sockets").unlink(missing_ok=True)


def socket_folder() -> Path:
    """Return a new private folder with a path short enough for sockets."""
    folder = Path(tempfile.gettempdir())
    base = folder if len(os.fsencode(folder)) <= MAX_SOCKET_FOLDER_BYTES - 20 else Path("/tmp")  # noqa: S108
    return Path(tempfile.mkdtemp(prefix="rolldeck-", dir=base))


def _remove_stale(folder: Path) -> None:
    if (
        folder.name.startswith("rolldeck-")
        and folder.is_dir()
        and folder.stat().st_uid == os.getuid()
    ):
        shutil.rmtree(folder, ignore_errors=True)


def _make_private(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o700)
