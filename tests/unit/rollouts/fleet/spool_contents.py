"""Read spools without changing them."""

from pathlib import Path

import msgspec

from rolldeck.wire import Fragment
from rollouts.fleet.spool.spool_directory import Segment


def left_in(folder: Path) -> list[bytes]:
    """Return the fragments in the spools below `folder`, oldest first in each."""
    records: list[bytes] = []
    for path in sorted(folder.rglob("*.segment")):
        try:
            segment = Segment.reopen(path)
        except FileNotFoundError:
            continue  # sent in the meantime
        records += [segment.read(place) for place in segment.positions()[0]]
        segment.close()
    return records


def spooled(folder: Path) -> list[tuple[str, int]]:
    """Return slot and number of the fragments in the spools below `folder`."""
    fragments = [msgspec.msgpack.decode(raw, type=Fragment) for raw in left_in(folder)]
    return [(fragment.slot, fragment.number) for fragment in fragments]
