"""Compare the PostgreSQL server of a backup with the one that it is restored into."""

import re
from typing import Final

_DUMPED: Final = re.compile(r"Dumped from database version: (\d+)(?:\.(\d+))?")


class ServerTooOld(Exception):
    """The server is of an earlier major version than the one that the backup is of."""


def refuse_older(*, dumped: int, target: int) -> None:
    """Refuse a restore into an earlier major version: its statements may be unknown there.

    Args:
        dumped: ``server_version_num`` of the backup's server; 0 if it is not known.
        target: That of the server to restore into.

    Raises:
        ServerTooOld: With both versions.
    """
    if dumped // 10_000 > target // 10_000:
        raise ServerTooOld(
            f"the backup was made of PostgreSQL {shown(dumped)}, and the server to restore into is "
            f"PostgreSQL {shown(target)}: PostgreSQL loads dumps into the same or a later major "
            f"version only. Restore into PostgreSQL {dumped // 10_000} or later; nothing was "
            "written"
        )


def shown(number: int) -> str:
    """Return ``server_version_num`` as people write it."""
    return f"{number // 10_000}.{number % 10_000}"


def dumped_version(listing: str) -> int:
    """Return ``server_version_num`` of a dump from what `pg_restore --list` prints; 0 without."""
    found = _DUMPED.search(listing)
    return int(found[1]) * 10_000 + int(found[2] or 0) if found else 0
