"""Small pushes are stored in the database, large ones in objects; both are served unchanged."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction

from buffer.batches.services.leases import lease_batch
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.schemas.pushes_msgpack import decode_fragments
from buffer.ingest.services.pushes import (
    QueueFull,
    UnknownEnvironment,
    accept_fragments,
    accept_groups,
)
from buffer.items.models import FragmentChunk, TrajectoryGroup
from buffer.items.queries import queued_groups
from buffer.items.rules.states import ItemKind
from buffer.payloads.models import Payload, Segment
from buffer.payloads.services.contents import (
    PayloadLocation,
    PayloadMissing,
    batch_contents,
    content_head,
    read_contents,
)
from buffer.payloads.services.files import DurableFiles
from buffer.payloads.services.objects import PayloadStorageDown
from buffer.payloads.services.partitions import (
    clear_current_segment,
    current_segment,
    make_partition,
    open_segment,
)
from runs.lifecycle.models import Run
from tests.buffer_factories import body, fragment, group, push
from tests.factories import NOON, make_outside_run, make_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    clear_current_segment()
    yield
    clear_current_segment()


@pytest.fixture
def run() -> Run:
    return make_outside_run()


def push_groups(run: Run, *tokens: int) -> list[bytes]:
    """Push groups of two sequences of so many tokens at once; return their bytes."""
    groups = [decode_group(body(group(mark=m, tokens=t))) for m, t in enumerate(tokens)]
    accept_groups(run=run, groups=groups, producer="tests", now=NOON)
    return [content.content for content in groups]


def served(run: Run) -> list[bytes]:
    lease = lease_batch(run_id=run.pk, identity="alice")
    assert lease is not None
    return [content.content for content in batch_contents(ItemKind.GROUPS, lease.batch.pk)]


def object_of(item: TrajectoryGroup) -> Path:
    return settings.ROLLDECK_VAR / "payloads" / item.object


def test_a_small_push_is_stored_in_the_database(run: Run) -> None:
    sent = push_groups(run, 3, 5)

    assert set(TrajectoryGroup.objects.values_list("object", flat=True)) == {""}
    assert Payload.objects.count() == 2
    assert served(run) == sent


def test_a_large_push_is_stored_in_one_object(run: Run) -> None:
    sent = push_groups(run, 3, 20_000)

    (name,) = set(TrajectoryGroup.objects.values_list("object", flat=True))
    assert (settings.ROLLDECK_VAR / "payloads" / name).read_bytes() == b"".join(sent)
    assert not Payload.objects.exists()
    assert served(run) == sent


def test_a_batch_of_both_is_served_in_order(run: Run) -> None:
    sent = push_groups(run, 20_000) + push_groups(run, 3)

    assert served(run) == sent


def test_fragments_are_stored_like_groups(settings: Any) -> None:
    run = make_run(name="carts", epoch=1, policy_step=0)
    settings.ROLLDECK_INLINE_PAYLOAD_BYTES = 0
    sent = decode_fragments(
        push(fragment(), fragment(number=1), fragment(number=1), fragment(epoch=0))
    )

    accept_fragments(run=run, fragments=sent, now=NOON)

    stored = FragmentChunk.objects.order_by("id")
    items = [(row.pk, place_of(row)) for row in stored]
    assert [content.content for content in read_contents(ItemKind.FRAGMENTS, items)] == [
        content for _, content in sent[:2]
    ]
    assert all(content.is_intact() for content in read_contents(ItemKind.FRAGMENTS, items))


def place_of(row: FragmentChunk) -> PayloadLocation:
    return PayloadLocation(
        row.codec, row.crc32, row.segment, row.object, row.offset, row.size_bytes
    )


def test_a_dropped_fragment_has_no_bytes() -> None:
    run = make_run(name="carts", epoch=2, policy_step=0)

    accept_fragments(run=run, fragments=decode_fragments(push(fragment(epoch=1))), now=NOON)

    assert FragmentChunk.objects.get().segment is None
    assert not Payload.objects.exists()
    assert content_head(ItemKind.FRAGMENTS, FragmentChunk.objects.get().pk, 10) == b""


@pytest.mark.parametrize("tokens", [3, 20_000], ids=["inline", "object"])
def test_missing_bytes_are_reported_with_their_item(run: Run, tokens: int) -> None:
    push_groups(run, tokens, 3)
    item = TrajectoryGroup.objects.order_by("id")[0]
    if item.object:
        object_of(item).unlink()
    else:
        Payload.objects.filter(item_id=item.pk).delete()

    with pytest.raises(PayloadMissing, match=rf"item {item.pk} \(groups\)") as caught:
        served(run)

    assert caught.value.item_id == item.pk


def test_a_truncated_object_is_detected(run: Run) -> None:
    push_groups(run, 20_000, 3)
    first, second = TrajectoryGroup.objects.order_by("id")
    os.truncate(object_of(second), second.offset + 1)

    with pytest.raises(PayloadMissing, match=f"item {second.pk}.*1 of {second.size_bytes}"):
        served(run)
    assert len(content_head(ItemKind.GROUPS, first.pk, 10)) == 10


def test_a_checksum_detects_changed_bytes(run: Run) -> None:
    push_groups(run, 20_000, 3)
    first = TrajectoryGroup.objects.order_by("id")[0]
    with object_of(first).open("r+b") as file:
        file.write(b"!")
    lease = lease_batch(run_id=run.pk, identity="alice")
    assert lease is not None

    contents = batch_contents(ItemKind.GROUPS, lease.batch.pk)

    assert [content.is_intact() for content in contents] == [False, True]


def test_an_object_is_on_the_disk_before_its_rows(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, int]] = []
    real = os.fsync

    def fsync(file: int) -> None:
        real(file)
        synced.append(
            (str(Path(f"/proc/self/fd/{file}").readlink()), TrajectoryGroup.objects.count())
        )

    monkeypatch.setattr(os, "fsync", fsync)

    push_groups(run, 20_000)

    path = str(object_of(TrajectoryGroup.objects.get()))
    assert synced[-2:] == [(path, 0), (str(Path(path).parent), 0)]


def test_a_push_that_is_rolled_back_leaves_no_row_and_affects_no_other_push(run: Run) -> None:
    with transaction.atomic():
        push_groups(run, 20_000)
        transaction.set_rollback(True)

    assert not TrajectoryGroup.objects.exists()
    sent = push_groups(run, 20_000, 4)
    assert served(run) == sent


def objects() -> set[Path]:
    return {path for path in (settings.ROLLDECK_VAR / "payloads").rglob("*") if path.is_file()}


def test_a_refused_push_leaves_no_object(run: Run) -> None:
    before = objects()
    stranger = decode_group(body(group(tokens=20_000) | {"env_id": 7}))

    with pytest.raises(UnknownEnvironment):
        accept_groups(run=run, groups=[stranger], producer="tests", now=NOON)

    assert objects() == before


def test_a_full_run_refuses_before_anything_is_written(run: Run, settings: Any) -> None:
    push_groups(run, 3)
    settings.ROLLDECK_MAX_QUEUED_GROUPS = 1
    folder = settings.ROLLDECK_VAR / "payloads"
    before = objects(), {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    with pytest.raises(QueueFull):
        push_groups(run, 20_000)

    assert before == (objects(), {path: path.stat().st_mtime_ns for path in folder.rglob("*")})
    settings.ROLLDECK_MAX_QUEUED_GROUPS = 9
    assert push_groups(run, 20_000)


def test_a_push_that_the_disk_refuses_leaves_no_row(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(_: int) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fsync)
        with pytest.raises(PayloadStorageDown):
            push_groups(run, 20_000)

    assert not TrajectoryGroup.objects.exists()
    assert queued_groups(run.pk) == 0


def test_files_of_many_parts_are_complete(tmp_path: Path) -> None:
    files = DurableFiles(location=tmp_path)
    parts = [os.urandom(size % 977) for size in range(3_000)]

    files.write_parts("7/name", parts)

    assert (tmp_path / "7" / "name").read_bytes() == b"".join(parts)
    assert files.read_ranges("7/name", [(0, 0), (5, 10)]) == [b"", b"".join(parts)[5:15]]
    with pytest.raises(FileExistsError):
        files.write_parts("7/name", [b"again"])


def test_a_server_without_an_open_segment_opens_one_once() -> None:
    Segment.objects.all().delete()
    numbers: list[int] = []

    def send_request() -> None:
        numbers.append(open_segment())
        connection.close()

    threads = [threading.Thread(target=send_request) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(numbers) == set(Segment.objects.values_list("number", flat=True)) == {1}


def test_a_segment_that_was_rolled_back_is_not_cached() -> None:
    Segment.objects.all().delete()
    with transaction.atomic():
        current_segment()
        transaction.set_rollback(True)

    assert current_segment() == 1
    assert Segment.objects.count() == 1


def test_partitions_are_created_ahead_and_store_bytes_uncompressed() -> None:
    make_partition(77)
    make_partition(77)

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT attstorage FROM pg_attribute"
            " WHERE attrelid = 'buffer_payload_77'::regclass AND attname = 'content'"
        )
        assert cursor.fetchone()[0] == "e"
        cursor.execute("DROP TABLE buffer_payload_77")
