"""The bytes of a batch are read while its lease commits, with every check of a later read."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from buffer.batches.services.lease_expiry import BatchCorrupt, contents_of
from buffer.batches.services.leases import Lease, lease_batch
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from buffer.items.models import Batch, TrajectoryGroup
from buffer.items.rules.states import BatchState
from buffer.payloads.services.contents import PayloadMissing
from buffer.payloads.services.files import DurableFiles
from buffer.payloads.services.objects import PayloadStorageDown
from buffer.payloads.services.partitions import clear_current_segment
from runs.lifecycle.models import Run
from tests.buffer_factories import body, group
from tests.factories import NOON, make_outside_run

pytestmark = pytest.mark.django_db(transaction=True)
LARGE, SMALL = 20_000, 3


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    clear_current_segment()
    yield
    clear_current_segment()


@pytest.fixture
def run() -> Run:
    return make_outside_run()


def push_each(run: Run, *tokens: int, sequences: int = 2) -> list[bytes]:
    """Push groups with so many tokens in each sequence, one after the other; return their bytes."""
    groups = [
        decode_group(body(group(sequences=sequences, mark=mark, tokens=count)))
        for mark, count in enumerate(tokens)
    ]
    for one in groups:
        accept_groups(run=run, groups=[one], producer="tests", now=NOON)
    return [one.content for one in groups]


def leased(run: Run) -> Lease:
    lease = lease_batch(run_id=run.pk, identity="alice", reads_ahead=True)
    assert lease is not None
    return lease


def served(lease: Lease) -> list[bytes]:
    return [stored.content for stored in contents_of(lease, now=NOON)]


def object_of(item: TrajectoryGroup) -> Path:
    return Path(settings.ROLLDECK_VAR) / "payloads" / item.object


def test_objects_are_read_and_verified_once_before_they_are_requested(run: Run) -> None:
    sent = push_each(run, LARGE, LARGE)

    lease = leased(run)
    assert lease.reading is not None
    read = lease.reading.wait()
    for item in TrajectoryGroup.objects.all():
        object_of(item).unlink()

    assert read is not None
    assert all(stored.is_verified for stored in read)
    assert served(lease) == sent


def test_a_batch_with_bytes_in_the_database_is_served_in_order(run: Run) -> None:
    sent = push_each(run, LARGE, SMALL)

    lease = leased(run)

    assert lease.reading is not None
    assert lease.reading.wait() is None
    assert served(lease) == sent


def test_groups_from_behind_the_window_are_read_after_the_lease() -> None:
    run = make_outside_run(batch_size=5)
    older = push_each(run, *[LARGE] * 20, sequences=3)
    (younger,) = push_each(run, LARGE, sequences=2)

    lease = leased(run)

    assert lease.reading is None
    assert served(lease) == [older[0], younger]


def test_a_part_of_a_batch_is_read_after_the_lease(run: Run) -> None:
    sent = push_each(run, LARGE, LARGE)
    lease = leased(run)

    (second,) = contents_of(lease, positions=range(1, 2), now=NOON)

    assert second.content == sent[1]


def test_changed_bytes_are_not_served(run: Run) -> None:
    push_each(run, LARGE, LARGE)
    first = TrajectoryGroup.objects.order_by("id")[0]
    with object_of(first).open("r+b") as file:
        file.write(b"!")

    with pytest.raises(BatchCorrupt, match="1 items"):
        served(leased(run))

    first.refresh_from_db()
    assert first.drop_reason == "corrupt"


@pytest.mark.parametrize("left", [None, 1], ids=["missing", "truncated"])
def test_missing_bytes_are_reported_with_their_item(run: Run, left: int | None) -> None:
    push_each(run, LARGE, LARGE)
    second = TrajectoryGroup.objects.order_by("id")[1]
    if left is None:
        object_of(second).unlink()
    else:
        os.truncate(object_of(second), left)

    with pytest.raises(PayloadMissing, match=rf"item {second.pk} \(groups\)"):
        served(leased(run))


def test_a_storage_that_is_down_keeps_the_lease(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = push_each(run, LARGE, LARGE)

    def read_ranges(*_: object) -> list[bytes]:
        raise OSError("input/output error")

    with monkeypatch.context() as down:
        down.setattr(DurableFiles, "read_ranges", read_ranges)
        with pytest.raises(PayloadStorageDown, match="input/output error"):
            served(leased(run))

    assert Batch.objects.get().state == BatchState.LEASED
    assert served(leased(run)) == sent
