"""Compare the PostgreSQL versions of a backup and of the server it is restored into."""

import re
from typing import Final

_DUMPED: Final = re.compile(r"Dumped from database version: (\d+)(?:\.(\d+))?")


class ServerTooOld(Exception):
    """The server's major version is earlier than the backup's."""


def refuse_older(*, dumped: int, target: int) -> None:
    """Refuse a restore into an earlier major version, which may not know the statements.

    Args:
        dumped: ``server_version_num`` of the backup's server; 0 if unknown.
        target: ``server_version_num`` of the server to restore into.

    Raises:
        ServerTooOld: With both versions.
    """
    if dumped // 10_000 > target // 10_000:
        raise ServerTooOld(
            f"the backup was made with PostgreSQL {shown(dumped)}, and the target server is "
            f"PostgreSQL {shown(target)}: PostgreSQL loads dumps into the same or a later major "
            f"version only. Restore into PostgreSQL {dumped // 10_000} or later; nothing was "
            "written"
        )


def shown(number: int) -> str:
    """Format ``server_version_num`` as a version such as ``16.4``."""
    return f"{number // 10_000}.{number % 10_000}"


def dumped_version(listing: str) -> int:
    """Return ``server_version_num`` from the output of `pg_restore --list`, or 0."""
    found = _DUMPED.search(listing)
    return int(found[1]) * 10_000 + int(found[2] or 0) if found else 0
