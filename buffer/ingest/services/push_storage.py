"""Store pushes of groups: their bytes in one object and their rows in one statement."""

from collections.abc import Sequence
from contextlib import nullcontext

from django.db import transaction

from buffer.ingest.services.arrivals import Arrival
from buffer.ingest.services.push_rows import PushRows, insert_pushes
from buffer.items.rules.states import ItemKind, ItemState
from buffer.payloads.services.contents import JSON_CODEC, Writing, insert_contents


def store_pushes(run_id: int, pushes: Sequence[PushRows]) -> list[bool]:
    """Store pushes of one run in one transaction, or within the current one.

    A single push mostly waits, so a thread writes its bytes while the database receives its rows;
    the rows commit after both. Several pushes are written first, and need no transaction around
    their only statement: other threads use the time.

    Args:
        run_id: The run.
        pushes: The pushes; all their groups have one codec.

    Returns:
        For each push, whether it was stored: not if it has a claim that cannot be made.
    """
    kept = [_kept(push) for push in pushes]
    arrivals = [arrival for of_push in kept for arrival in of_push]
    writing = Writing(
        [arrival.group.content for arrival in arrivals],
        codec=arrivals[0].group.codec if arrivals else JSON_CODEC,
        in_background=len(pushes) == 1,
    )
    for arrival, location in zip(arrivals, writing.locations, strict=True):
        arrival.location = location
    with nullcontext() if writing.is_durable else transaction.atomic():
        stored = insert_pushes(run_id, pushes)
        insert_contents(
            ItemKind.GROUPS,
            [
                (arrival.item_id, arrival.location, arrival.group.content)
                for is_stored, of_push in zip(stored, kept, strict=True)
                for arrival in of_push
                if is_stored
            ],
        )
        writing.wait()
    if not any(stored):
        writing.discard_written()  # no row refers to the bytes
    return stored


def _kept(push: PushRows) -> list[Arrival]:
    """Return the groups of a push whose bytes are stored."""
    return [arrival for arrival in push.arrivals if arrival.state is not ItemState.DROPPED]
