"""Remove the bytes of deleted runs' items from segments that other runs share."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from django.db import connection
from django.db.models import F
from django.db.models.functions import Greatest

from buffer.items.rules.states import ItemKind
from buffer.items.services import TABLES
from buffer.payloads.models import Segment
from buffer.payloads.services import objects
from runs.lifecycle.services.deletion import RemovalPostponed
from web.sql import filled, statements_of

SQL: Final = statements_of("buffer")


def check_may_remove() -> None:
    """Check that no backup copies objects, and keep one from it until the transaction ends.

    Raises:
        RemovalPostponed: If one does, or if retention works.
    """
    with connection.cursor() as cursor:
        cursor.execute(SQL["may_remove_objects"])
        if cursor.fetchone() == (False,):
            raise RemovalPostponed("waits for a backup or for retention to finish")


def remove_payloads(kind: ItemKind, run_id: int, ids: Sequence[int]) -> int:
    """Remove the bytes of items; return their size.

    An object that another run's items share stays, until the last of them is removed or its
    segment is dropped.

    Raises:
        RemovalPostponed: While a backup copies objects, or retention works.
        PayloadStorageDown: If the storage is unavailable.
    """
    check_may_remove()
    inline: dict[int, list[int]] = defaultdict(list)
    names: set[str] = set()
    segments: set[int] = set()
    sizes: Counter[int] = Counter()
    counts: Counter[int] = Counter()
    with connection.cursor() as cursor:
        cursor.execute(filled(SQL["bytes_of_items"], table=TABLES[kind]), [list(ids)])
        for item_id, segment, name, size_bytes in cursor.fetchall():
            sizes[segment] += size_bytes
            counts[segment] += 1
            if name:
                names.add(name)
                segments.add(segment)
            else:
                inline[segment].append(item_id)
        for segment, item_ids in inline.items():
            cursor.execute(SQL["delete_payloads"], [segment, str(kind), item_ids])
        if names:
            cursor.execute(
                filled(SQL["objects_of_others"], table=TABLES[kind]),
                [sorted(segments), sorted(names), run_id],
            )
            names -= {name for (name,) in cursor.fetchall()}
    for segment in sizes:
        # Those of the open segment are counted again every few seconds.
        Segment.objects.filter(number=segment, sealed_at__isnull=False).update(
            items=Greatest(F("items") - counts[segment], 0),
            size_bytes=Greatest(F("size_bytes") - sizes[segment], 0),
        )
    for name in sorted(names):
        objects.delete(name)
    return sizes.total()
