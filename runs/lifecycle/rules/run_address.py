"""Addresses of runs.

A run is addressed by its name. Archiving frees the name, so several archived runs may share it:
`name` then means the current run, or the one archived last where none is current, and
`name--id` means one archived run. A run whose own name has this form takes precedence.
"""

import re
from typing import Final, NamedTuple

# 18 digits: any id fits the largest column of the database.
_ARCHIVED: Final = re.compile(r"(.+)--([0-9]{1,18})")


class ArchivedRun(NamedTuple):
    """The name and the id in the address of an archived run."""

    name: str
    run_id: int


def parse_archived(address: str) -> ArchivedRun | None:
    """Return the name and id in `name--id`, or None for an address of another form."""
    found = _ARCHIVED.fullmatch(address)
    return None if found is None else ArchivedRun(found[1], int(found[2]))
