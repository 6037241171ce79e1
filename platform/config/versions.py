"""Versions of Rolldeck and its main libraries, read without importing them."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from rolldeck import __version__

_SHOWN: Final = ("django", "djangorestframework", "celery", "channels", "psycopg", "redis", "ray")


def own_version() -> str:
    """Return the version of Rolldeck itself."""
    return __version__


def versions() -> dict[str, str]:
    """Return the versions of Python and of the main installed libraries."""
    found = {name: _version(name) for name in _SHOWN}
    return {
        "python": platform.python_version(),
        "rolldeck": __version__,
        **{name: at for name, at in found.items() if at},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
