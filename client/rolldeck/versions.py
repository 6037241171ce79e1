"""Comparison of the client's version with the server's."""

import logging
from functools import lru_cache

from rolldeck import __version__

logger = logging.getLogger("rolldeck")

HEADER = "Rolldeck-Version"
"""Response header with the server's version, for clients of this package."""


def difference(server: str) -> tuple[str, str] | None:
    """Return which side is older, in words, and the remedy; None for equal versions."""
    if server == __version__:
        return None
    older = "client" if _release(__version__) < _release(server) else "server"
    wanted = server if older == "client" else __version__
    package = "rolldeck" if older == "client" else "rolldeck-server"
    found = f"client {__version__}, server {server}: the {older} is older"
    return found, f"pip install '{package}=={wanted}'"


@lru_cache(maxsize=64)
def report_difference(url: str, server: str) -> None:
    """Log a warning about another version of a server, once per process."""
    if (found := difference(server[:40])) is not None:
        logger.warning("%s: %s; %s", url, *found)


def _release(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdecimal()]
