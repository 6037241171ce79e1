"""Cache the initial database of a server, so that tests need not migrate it each time.

The migrations take seconds, and dozens of test servers start with them. Their result is cached next
to pytest's own cache, under a hash of all its sources. One server and one demo still start with an
empty folder, like a new installation: the first tests of test_up.py and test_demo.py.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from config.embedded.postgres import Postgres
from config.embedded.services import socket_folder

ROOT: Final = Path(__file__).resolve().parents[1]
KEPT: Final = ROOT / ".pytest_cache" / "databases"
SOURCES: Final = ("*/migrations/*.py", "constraints.txt")


def copy_database(folder: Path) -> None:
    """Create a PostgreSQL data folder with every migration applied."""
    shutil.copytree(_prepared(), folder)


def _prepared() -> Path:
    """Return the cached folder; the first caller creates it."""
    folder = KEPT / _name()
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _forget_others()
            _make(folder)
    return folder


def _name() -> str:
    """Return a hash of all sources of the database."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(path for pattern in SOURCES for path in ROOT.glob(pattern)):
        digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _forget_others() -> None:
    for folder in KEPT.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)


def _make(folder: Path) -> None:
    var, sockets = Path(tempfile.mkdtemp(prefix="rolldeck-prepared-")), socket_folder()
    server = Postgres(
        data_folder=var / "postgres",
        socket_folder=sockets,
        log_folder=var / "log",
        is_disposable=True,
    )
    child = server.start()
    try:
        subprocess.run(
            [sys.executable, "manage.py", "prepare"],
            cwd=ROOT,
            env=os.environ
            | {
                "DJANGO_SETTINGS_MODULE": "config.settings.base",
                "DATABASE_URL": server.url,
                "ROLLDECK_VAR": str(var),
            },
            check=True,
            capture_output=True,
        )
        child.stop()
        shutil.copytree(var / "postgres", var / "whole")
        shutil.move(var / "whole", folder)
    finally:
        child.stop()
        shutil.rmtree(var, ignore_errors=True)
        shutil.rmtree(sockets, ignore_errors=True)
