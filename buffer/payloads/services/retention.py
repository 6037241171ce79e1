"""Retention: drop the payloads of old segments, as whole partitions and folders.

A segment is dropped in two steps. First its row is marked, in a transaction that sees no open item
in it; then the partition and the objects are removed, which the next pass repeats if this one
fails. Metadata is kept: reading an item of a dropped segment raises
:class:`~buffer.payloads.services.contents.PayloadExpired`.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, QuerySet, Sum

from buffer.items.models import FragmentChunk, TrajectoryGroup
from buffer.items.rules.states import OPEN, ItemKind
from buffer.payloads.models import Segment
from buffer.payloads.rules import RetentionLimits, due, is_worth_moving
from buffer.payloads.services.contents import (
    PayloadLocation,
    insert_contents,
    readable_contents,
    write_contents,
)
from buffer.payloads.services.partitions import remove_segment, segment_info
from runs.events.services import record_event
from web.sql import filled, one_process, statements_of

SQL: Final = statements_of("buffer")

MOVED_AT_ONCE_BYTES: Final = 16 * 1024 * 1024
MOVED_AT_ONCE: Final = 256
_MODELS: Final = {ItemKind.GROUPS: TrajectoryGroup, ItemKind.FRAGMENTS: FragmentChunk}

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class RetentionReport:
    """Result of one pass; sizes in bytes, summed over items."""

    dropped: list[int] = field(default_factory=list)
    kept_open: list[int] = field(default_factory=list)
    """Segments that are due, but kept because more than half of their bytes are open items."""
    moved_items: int = 0
    freed_bytes: int = 0


def retention_limits() -> RetentionLimits:
    """Return the limits of the settings; a setting of 0 means no limit."""
    return RetentionLimits(
        seconds=settings.ROLLDECK_RETENTION_SECONDS or None,
        size_bytes=settings.ROLLDECK_RETENTION_BYTES or None,
        items=settings.ROLLDECK_RETENTION_ITEMS or None,
    )


def segments_due(*, now: datetime, limits: RetentionLimits) -> list[int]:
    """Return the numbers of the segments that retention would drop now."""
    rows = Segment.objects.filter(dropped_at=None)
    return due([segment_info(row) for row in rows], now=now, limits=limits)


def apply_retention(*, now: datetime, limits: RetentionLimits | None = None) -> RetentionReport:
    """Drop the segments that are due, after copying their open items to the open segment.

    Must not run in a transaction, because partitions are detached concurrently.
    """
    report = RetentionReport()
    with one_process("rolldeck.retention") as is_exclusive:
        if not is_exclusive:
            return report
        _clear_dropped(now=now)
        for number in segments_due(now=now, limits=limits or retention_limits()):
            segment = Segment.objects.get(number=number)
            sums = [
                _open_items(kind, number).aggregate(size=Sum("size_bytes"))["size"]
                for kind in ItemKind
            ]
            open_bytes = sum(size or 0 for size in sums)
            if not is_worth_moving(open_bytes=open_bytes, size_bytes=segment.size_bytes):
                report.kept_open.append(number)
                continue
            lost = {kind: _move_open(kind, number, report) for kind in ItemKind}
            if drop_segment(number, lost=lost, now=now):
                report.dropped.append(number)
                report.freed_bytes += segment.size_bytes
        _clear_dropped(now=now)
    return report


def _open_items(kind: ItemKind, number: int) -> "QuerySet[Any]":
    return _MODELS[kind]._default_manager.filter(segment=number, state__in=OPEN)  # noqa: SLF001


def _move_open(kind: ItemKind, number: int, report: RetentionReport) -> list[int]:
    """Copy the open items of a segment to the open segment; return ids without bytes."""
    lost: list[int] = []
    last = 0
    while True:
        rows = _open_items(kind, number).filter(id__gt=last).order_by("id")
        ids: list[int] = []
        total = 0
        for item_id, size_bytes in rows.values_list("id", "size_bytes")[:MOVED_AT_ONCE]:
            total += size_bytes
            if ids and total > MOVED_AT_ONCE_BYTES:
                break
            ids.append(item_id)
        if not ids:
            return lost
        moved = _move(kind, number, ids)
        lost += [item_id for item_id in ids if item_id not in moved]
        report.moved_items += len(moved)
        last = ids[-1]


@transaction.atomic
def _move(kind: ItemKind, number: int, ids: list[int]) -> set[int]:
    """Copy items; return the ids of items with bytes."""
    found = readable_contents(kind, ids)
    moved: list[tuple[int, PayloadLocation, bytes]] = []
    items = _MODELS[kind]._default_manager.filter(pk__in=ids)  # noqa: SLF001
    runs = dict(items.values_list("pk", "run_id"))
    # An object of each run, so that a deletion of one removes no bytes of another.
    for run_id, codec in {(runs[item_id], stored.codec) for item_id, stored in found.items()}:
        same = [
            (item_id, one.content)
            for item_id, one in found.items()
            if (runs[item_id], one.codec) == (run_id, codec)
        ]
        places = write_contents([content for _, content in same], codec=codec)
        moved += [
            (item_id, place, content)
            for (item_id, content), place in zip(same, places, strict=True)
        ]
    if not moved:
        return set()
    insert_contents(kind, moved)
    columns = zip(*[(key, at.segment, at.object, at.offset) for key, at, _ in moved], strict=True)
    with connection.cursor() as cursor:
        # The original checksum is kept, so damage by copying would be detected.
        cursor.execute(
            filled(SQL["move_payloads"], table=_MODELS[kind]._meta.db_table),  # noqa: SLF001
            [*(list(column) for column in columns), number],
        )
    return set(found)


@transaction.atomic
def drop_segment(number: int, *, lost: Mapping[ItemKind, list[int]], now: datetime) -> bool:
    """Mark a sealed segment as dropped, unless an open item needs its bytes.

    The bytes are removed at the end of the pass.
    """
    if any(_open_items(kind, number).exclude(id__in=lost[kind]).exists() for kind in ItemKind):
        return False
    dropped = Segment.objects.filter(
        number=number, sealed_at__isnull=False, dropped_at=None
    ).update(dropped_at=now)
    if not dropped:
        return False
    items: Counter[int] = Counter()
    for model in _MODELS.values():
        rows = model._default_manager.filter(segment=number).values("run_id")  # noqa: SLF001
        items.update({row["run_id"]: row["n"] for row in rows.annotate(n=Count("id"))})
    for run_id, count in items.items():
        record_event(
            run_id=run_id,
            kind="payloads_expired",
            message=f"retention removed the payloads of {count} items (segment {number})",
            actor="retention",
            details={"segment": number, "items": count},
            now=now,
        )
    _log.info("segment %s dropped, with the payloads of %s items", number, sum(items.values()))
    return True


def _clear_dropped(*, now: datetime) -> None:
    for segment in Segment.objects.exclude(dropped_at=None).filter(cleared_at=None):
        remove_segment(segment.number)
        Segment.objects.filter(number=segment.number).update(cleared_at=now)
