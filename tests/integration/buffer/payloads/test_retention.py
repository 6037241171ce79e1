"""Payloads are dropped by whole segments; open items are moved, and metadata is kept."""

import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client

from buffer import jobs
from buffer.batches.admin import group_preview
from buffer.batches.services.leases import lease_batch
from buffer.batches.services.settlement import acknowledge_batch
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from buffer.items.models import TrajectoryGroup
from buffer.items.rules.states import ItemKind
from buffer.payloads.models import Payload, Segment
from buffer.payloads.rules import GRACE, RetentionLimits
from buffer.payloads.services.contents import (
    PayloadExpired,
    batch_contents,
    content_head,
    readable_contents,
)
from buffer.payloads.services.partitions import (
    clear_current_segment,
    current_segment,
    make_partition,
    remove_segment,
    rotate_segment,
)
from buffer.payloads.services.partitions import seal as seal_segment
from buffer.payloads.services.retention import apply_retention
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from tests.buffer_factories import body, group
from tests.factories import NOON, bearer, make_outside_run
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db(transaction=True)

EVERYTHING = RetentionLimits(seconds=0.001, size_bytes=None, items=None)
LATER = NOON + GRACE


@pytest.fixture(autouse=True)
def nothing_is_deleted() -> Iterator[None]:
    """Fail on deletes of payload rows, and keep only the first segment."""
    clear_current_segment()
    with connection.cursor() as cursor:
        cursor.execute("""
            CREATE FUNCTION no_deletes() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'payloads are never deleted row by row'; END $$;
            CREATE TRIGGER no_deletes BEFORE DELETE ON buffer_payload
            EXECUTE FUNCTION no_deletes()""")
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER no_deletes ON buffer_payload; DROP FUNCTION no_deletes")
    for number in partitions():
        remove_segment(number)
    make_partition(1)
    clear_current_segment()


@pytest.fixture
def run() -> Run:
    return make_outside_run(batch_size=2)


def push(run: Run, *, tokens: int = 3, mark: int = 1) -> TrajectoryGroup:
    content = decode_group(body(group(mark=mark, tokens=tokens)))
    accept_groups(run=run, groups=[content], producer="tests", now=NOON)
    return TrajectoryGroup.objects.order_by("-id")[0]


def train(run: Run) -> list[bytes]:
    lease = lease_batch(run_id=run.pk, identity="alice")
    assert lease is not None
    contents = batch_contents(ItemKind.GROUPS, lease.batch.pk)
    acknowledge_batch(run_id=run.pk, batch_id=lease.batch.pk, fence=lease.batch.fence)
    return [content.content for content in contents]


def seal(*, now: datetime = NOON) -> int:
    """Seal the open segment, its size noted; return its number."""
    number = current_segment()
    rotate_segment(now=now - timedelta(days=30))
    seal_segment(number, now=now)
    return number


def partitions() -> set[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^buffer_payload_'"
        )
        return {int(name.rpartition("_")[2]) for (name,) in cursor.fetchall()}


def folder(number: int) -> Path:
    return Path(settings.ROLLDECK_VAR) / "payloads" / str(number)


def clear_disk() -> None:
    """Remove what other tests of this process have left on the disk."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE buffer_payload")
    for left in Path(settings.ROLLDECK_VAR, "payloads").glob("*"):
        if left.is_dir():
            shutil.rmtree(left)


def bytes_on_disk() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT SUM(pg_total_relation_size(oid)) FROM pg_class"
            " WHERE relkind = 'r' AND relname ~ '^buffer_payload_'"
        )
        tables = int(cursor.fetchone()[0])
    files = Path(settings.ROLLDECK_VAR, "payloads").rglob("*")
    return tables + sum(file.stat().st_size for file in files if file.is_file())


def test_the_disk_usage_stays_constant_over_twenty_segments(run: Run) -> None:
    clear_disk()
    limits = RetentionLimits(seconds=None, size_bytes=3 * 2**20, items=None)
    sizes = []
    for turn in range(20):
        for mark in range(4):
            push(run, tokens=60_000, mark=mark)  # an object of a quarter of a megabyte
            push(run, tokens=3_000, mark=mark)
            train(run)
            train(run)
        seal(now=NOON + turn * GRACE)
        report = apply_retention(now=NOON + (turn + 1) * GRACE, limits=limits)
        assert report.kept_open == []
        sizes.append(bytes_on_disk())

    assert TrajectoryGroup.objects.count() == 160
    assert max(sizes[5:]) <= 1.1 * max(sizes[:5]) <= 8 * 2**20
    assert len(partitions()) <= 5
    assert Segment.objects.exclude(dropped_at=None).count() >= 14


def test_items_of_a_dropped_segment_are_listed_with_expired_bytes(run: Run) -> None:
    small, large = push(run), push(run, tokens=60_000)
    train(run)
    batch = train(run)
    number = seal()

    report = apply_retention(now=LATER, limits=EVERYTHING)

    assert batch
    assert report.dropped == [number]
    assert number not in partitions()
    assert not folder(number).exists()
    for item in (small, large):
        item.refresh_from_db()
        assert (item.state, item.segment) == ("served", number)
        with pytest.raises(PayloadExpired, match=f"item {item.pk} .*retention"):
            content_head(ItemKind.GROUPS, item.pk, 10)
    assert "retention" in group_preview(small.pk)
    event = RunEvent.objects.get(kind="payloads_expired")
    assert event.details == {"segment": number, "items": 2}


def test_open_items_are_moved_and_served_unchanged(run: Run) -> None:
    for mark in (1, 2):
        push(run, tokens=60_000, mark=mark)
        train(run)
    left = [push(run, mark=7), push(run, mark=8)]
    sent = [
        content.content
        for content in readable_contents(ItemKind.GROUPS, [item.pk for item in left]).values()
    ]
    number = seal()

    report = apply_retention(now=LATER, limits=EVERYTHING)

    assert (report.moved_items, report.dropped) == (2, [number])
    assert [train(run)[0], train(run)[0]] == sent
    left[0].refresh_from_db()
    assert left[0].segment == number + 1
    assert miscounts(run.pk) == []


def test_large_open_items_are_moved_into_one_object_with_their_checksums(run: Run) -> None:
    for mark in range(4):
        push(run, tokens=60_000, mark=mark)
        train(run)
    left = push(run, tokens=60_000, mark=7)
    seal()

    apply_retention(now=LATER, limits=EVERYTHING)

    moved = TrajectoryGroup.objects.get(pk=left.pk)
    assert moved.object != left.object
    assert moved.crc32 == left.crc32
    (content,) = readable_contents(ItemKind.GROUPS, [left.pk]).values()
    assert content.is_intact()


def test_a_segment_that_is_mostly_open_stays(run: Run) -> None:
    items = [push(run), push(run), push(run)]
    train(run)
    number = seal()

    report = apply_retention(now=LATER, limits=EVERYTHING)

    assert (report.kept_open, report.dropped) == ([number], [])
    items[2].refresh_from_db()
    assert items[2].segment == number


def test_an_open_item_without_bytes_does_not_keep_its_segment(run: Run) -> None:
    for mark in range(4):
        push(run, tokens=60_000, mark=mark)
        train(run)
    lost = push(run, tokens=60_000)
    (folder(lost.segment or 0) / lost.object.partition("/")[2]).unlink()
    number = seal()

    assert apply_retention(now=LATER, limits=EVERYTHING).dropped == [number]


def test_an_interrupted_pass_is_finished_by_the_next(run: Run) -> None:
    push(run, tokens=60_000)
    train(run)
    number = seal()
    Segment.objects.filter(number=number).update(dropped_at=LATER)

    apply_retention(now=LATER, limits=EVERYTHING)

    assert number not in partitions()
    assert not folder(number).exists()
    assert Segment.objects.get(number=number).cleared_at == LATER


def test_a_partly_detached_partition_is_dropped_too() -> None:
    number = seal()
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE buffer_payload DETACH PARTITION buffer_payload_{number}")
    remove_segment(number)
    remove_segment(number)

    assert number not in partitions()


def test_partitions_are_not_dropped_inside_a_transaction() -> None:
    with pytest.raises(transaction.TransactionManagementError), transaction.atomic():
        remove_segment(1)


def test_readers_and_writers_do_not_wait_for_partition_changes(run: Run) -> None:
    push(run)
    number = seal()
    make_partition(number + 1)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    with transaction.atomic():
        make_partition(number + 5)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT mode FROM pg_locks WHERE pid = %s AND"
                " relation = 'buffer_payload'::regclass",
                [pid],
            )
            modes = {mode for (mode,) in cursor.fetchall()}

    assert modes
    assert modes <= {"AccessShareLock", "ShareUpdateExclusiveLock"}


def test_the_job_opens_the_next_segment_when_one_is_full(run: Run, settings: Any) -> None:
    settings.ROLLDECK_SEGMENT_BYTES = 10
    first = current_segment()
    jobs.rotate_segments()
    assert current_segment() == first
    push(run)

    jobs.rotate_segments()

    assert current_segment() == first + 1
    assert {first, first + 1} <= partitions()
    sealed = Segment.objects.get(number=first)
    assert sealed.items == 1
    assert sealed.size_bytes == TrajectoryGroup.objects.get().size_bytes


def test_the_command_lists_and_drops_due_segments(run: Run, settings: Any) -> None:
    push(run)
    train(run)
    number = seal()
    settings.ROLLDECK_RETENTION_SECONDS = 1
    output = StringIO()

    call_command("retention", "--dry-run", stdout=output)
    assert output.getvalue() == f"due: {number}\n"
    call_command("retention", stdout=output)

    assert "dropped 1 segments" in output.getvalue()
    assert not Payload.objects.exists()


def test_segments_are_listed_for_administrators(run: Run) -> None:
    push(run)
    number = seal()

    rows = Client().get("/api/v1/segments?limit=5", headers=bearer("admin")).json()["results"]

    assert [(row["number"], row["items"]) for row in rows] == [(number + 1, 0), (number, 1)]
