"""Folders of a deployment, and addresses of its services."""

import fcntl
import json
import os
import secrets
import shlex
import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TextIO

from django.conf import settings

from config import celery_app, env
from config.embedded.children import StartFailed
from config.settings.connections import celery_broker, database, server_url

# Layout of ROLLDECK_VAR, and a lock that permits one server at a time.

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
            stale = Path(note.read_text(encoding="utf-8"))
            is_ours = stale.name.startswith("rolldeck-") and stale.is_dir()
            if is_ours and stale.stat().st_uid == os.getuid():
                shutil.rmtree(stale, ignore_errors=True)
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


def _make_private(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o700)


# Addresses and secrets of a deployment's servers, for children, shells and this process.

MODE_PRIVATE: Final = 0o600
# Children get these addresses with their passwords, from this process.
_OWN_VARIABLES: Final = {
    *("RAY_ADDRESS", "DATABASE_URL", "DATABASE_PASSWORD", "REDIS_URL", "REDIS_PASSWORD"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The servers of one deployment.

    Attributes:
        database_url: libpq URL of the database.
        redis_url: URL of the broker.
        ray_address: ``host:port`` of the Ray head; empty if fleets cannot be launched.
        ray_token: Secret of the Ray cluster.
        secret_key: Signs sessions and login links.
    """

    database_url: str = ""
    redis_url: str = ""
    ray_address: str = ""
    ray_token: str = ""
    secret_key: str

    @classmethod
    def from_environment(cls, *, secret_key_file: Path) -> Self:
        """Return the servers named by the environment; empty fields are for embedded servers.

        The first start of a deployment stores a new secret key, unless the environment has one.
        """
        secret_key = env.text("ROLLDECK_SECRET_KEY")
        if not secret_key:
            if not secret_key_file.is_file():
                write_private(secret_key_file, secrets.token_urlsafe(48))
            secret_key = secret_key_file.read_text(encoding="utf-8").strip()
        return cls(
            database_url=server_url("DATABASE"),
            redis_url=server_url("REDIS"),
            ray_address=env.text("RAY_ADDRESS"),
            ray_token=env.text("RAY_AUTH_TOKEN"),
            secret_key=secret_key,
        )

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read the file written by a running server."""
        written = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            database_url=written["DATABASE_URL"],
            redis_url=written["REDIS_URL"],
            ray_address=written["RAY_ADDRESS"],
            secret_key=written["SECRET_KEY"],
        )

    def write(self, path: Path) -> None:
        """Write the values that settings read, into a file private to this user."""
        write_private(
            path,
            json.dumps(
                {
                    "DATABASE_URL": self.database_url,
                    "REDIS_URL": self.redis_url,
                    "RAY_ADDRESS": self.ray_address,
                    "SECRET_KEY": self.secret_key,
                    "PUBLIC_URL": settings.ROLLDECK_PUBLIC_URL,
                }
            ),
        )

    def child_environment(self, *, base_folder: Path, var: Path) -> dict[str, str]:
        """Return the environment of a child: that of this process plus the servers."""
        # A wheel has no folder `client`: that package is installed.
        folders = (base_folder / name for name in ("", "platform", "client"))
        sources = [str(folder) for folder in folders if folder.is_dir()]
        given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        named = {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "RAY_ADDRESS": self.ray_address,
            "RAY_AUTH_TOKEN": self.ray_token,
            "ROLLDECK_SECRET_KEY": self.secret_key,
        }
        own = {
            name: value
            for name, value in os.environ.items()
            if name.removesuffix("_FILE") not in _OWN_VARIABLES
        }
        return own | {
            **{name: value for name, value in named.items() if value},
            **({"RAY_AUTH_MODE": "token"} if self.ray_token else {}),
            "RAY_USAGE_STATS_ENABLED": "0",
            "DJANGO_SETTINGS_MODULE": os.environ.get(
                "DJANGO_SETTINGS_MODULE", "config.settings.base"
            ),
            "ROLLDECK_VAR": str(var),
            "PYTHONPATH": os.pathsep.join(dict.fromkeys([*sources, *filter(None, given)])),
            "PYTHONUNBUFFERED": "1",
        }

    def adopt(self) -> None:
        """Point this process' Django settings, read before the servers ran, to these servers."""
        settings.DATABASES["default"].update(database(self.database_url))
        settings.REDIS_URL = self.redis_url
        settings.CELERY_BROKER_URL = celery_broker(self.redis_url)
        celery_app.conf.broker_url = settings.CELERY_BROKER_URL
        settings.RAY_ADDRESS, settings.RAY_AUTH_TOKEN = self.ray_address, self.ray_token
        settings.SECRET_KEY = self.secret_key


def public_url(path: Path) -> str:
    """Return the URL of the server that wrote `path`, or that of the settings if none runs."""
    if path.is_file():
        written: str = json.loads(path.read_text(encoding="utf-8"))["PUBLIC_URL"]
        return written
    return str(settings.ROLLDECK_PUBLIC_URL)


def manage_command(*words: str) -> str:
    """Return a shell command that runs `words` of Django on this deployment from any folder."""
    script = Path(sys.executable).with_name("rolldeck")
    is_wheel = not (settings.BASE_DIR / "pyproject.toml").is_file()
    program = (
        [str(script), "admin"]
        if is_wheel and script.is_file()
        else [sys.executable, str(settings.BASE_DIR / "manage.py")]
    )
    command = shlex.join([*program, *words])
    if "ROLLDECK_VAR" not in os.environ and "ROLLDECK_VAR_FILE" not in os.environ:
        return command
    return f"ROLLDECK_VAR={shlex.quote(str(settings.ROLLDECK_VAR))} {command}"


def write_private(path: Path, content: str) -> None:
    """Write a file that only this user may read."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE_PRIVATE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
    part.replace(path)
