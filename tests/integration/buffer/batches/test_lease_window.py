"""A trainer that holds several batches: order, renewal, expiry and the bytes after a restart."""

from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

import pytest
from django.db.models.functions import Now

from buffer import jobs
from buffer.batches.queries.queues import is_batch_available
from buffer.batches.services.lease_expiry import contents_of
from buffer.batches.services.leases import Lease, held_beside, lease_batch
from buffer.batches.services.settlement import acknowledge_batch
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from buffer.items.models import Batch
from buffer.items.queries import ledger_part
from buffer.items.rules.states import LeaseLost, OutOfOrder
from runs.lifecycle.models import Run, Trainer
from tests.buffer_factories import body, group
from tests.factories import NOON, make_outside_run
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    run = make_outside_run(trainers=("alice", "bob"))
    made = [decode_group(body(group(mark=mark))) for mark in range(10)]
    accept_groups(run=run, groups=made, producer="tests", now=NOON)
    return run


def lease(run: Run, *, holding: Collection[Lease] = (), identity: str = "alice") -> Lease:
    ids = [each.batch.pk for each in holding]
    found = lease_batch(run_id=run.pk, identity=identity, holding=ids)
    assert found is not None
    return found


def window(run: Run, size: int) -> list[Lease]:
    held: list[Lease] = []
    for _ in range(size):
        held.append(lease(run, holding=held))
    return held


def acknowledge(run: Run, one: Lease) -> None:
    acknowledge_batch(run_id=run.pk, batch_id=one.batch.pk, fence=one.batch.fence)


def expire(*leases: Lease) -> None:
    ids = [one.batch.pk for one in leases]
    Batch.objects.filter(pk__in=ids).update(lease_expires_at=Now() - timedelta(seconds=1))
    jobs.reclaim_expired_leases()


def content(one: Lease) -> list[bytes]:
    return [stored.content for stored in contents_of(one, now=NOON)]


def test_a_trainer_holds_batches_in_order_and_acknowledges_each(run: Run) -> None:
    held = window(run, 3)

    assert [one.batch.ordinal for one in held] == [1, 2, 3]
    assert ledger_part(run.pk).groups.leased == 6
    for one in held:
        acknowledge(run, one)
        acknowledge(run, one)  # its first answer was lost
    assert ledger_part(run.pk).groups.served == 6
    assert miscounts(run.pk) == []


def test_a_restarted_trainer_receives_the_same_bytes_in_the_same_order(run: Run) -> None:
    held = window(run, 3)
    before = [(one.batch.pk, content(one)) for one in held]
    acknowledge(run, held[0])

    again = window(run, 3)

    assert [(one.batch.pk, content(one)) for one in again[:2]] == before[1:]
    assert again[2].batch.ordinal == 4
    with pytest.raises(LeaseLost):
        acknowledge(run, held[1])
    for one in again:
        acknowledge(run, one)
    assert ledger_part(run.pk).groups.served == 8
    assert miscounts(run.pk) == []


def test_an_acknowledgement_out_of_order_is_refused(run: Run) -> None:
    first, second = window(run, 2)

    with pytest.raises(OutOfOrder, match="batch 2 is acknowledged before batch 1"):
        acknowledge(run, second)

    assert ledger_part(run.pk).groups.served == 0
    acknowledge(run, first)
    acknowledge(run, second)


def test_a_batch_of_another_trainer_is_acknowledged_after_those_received_before(run: Run) -> None:
    left = lease(run, identity="bob")
    own = lease(run)
    expire(left)

    taken = lease(run, holding=[own])

    assert taken.batch.pk == left.batch.pk
    acknowledge(run, own)
    acknowledge(run, taken)
    assert ledger_part(run.pk).groups.served == 4


def test_a_request_renews_the_leases_of_the_named_batches(run: Run) -> None:
    held = window(run, 2)
    expire(*held)
    assert {batch.state for batch in Batch.objects.all()} == {"returned"}

    third = lease(run, holding=held)

    assert third.batch.ordinal == 3
    assert {batch.state for batch in Batch.objects.all()} == {"leased"}
    assert not Batch.objects.filter(lease_expires_at__lt=Now()).exists()
    for one in [*held, third]:  # under their first fences
        acknowledge(run, one)


def test_a_batch_that_another_trainer_took_over_is_not_renewed(run: Run) -> None:
    held = window(run, 2)
    expire(*held)
    taken = lease(run, identity="bob")

    third = lease(run, holding=held)

    assert taken.batch.pk == held[0].batch.pk
    assert third.batch.ordinal == 3
    with pytest.raises(LeaseLost):
        acknowledge(run, held[0])
    acknowledge(run, held[1])
    acknowledge(run, taken)


def test_only_the_first_batch_of_a_dead_trainer_counts_its_expiries(run: Run) -> None:
    for _ in range(3):
        expire(*window(run, 3))

    states = {batch.ordinal: (batch.state, batch.lease_expiries) for batch in Batch.objects.all()}

    assert states == {1: ("quarantined", 3), 2: ("returned", 0), 3: ("returned", 0)}


def test_named_batches_alone_make_no_batch_available(run: Run) -> None:
    held = window(run, 5)
    ids = [one.batch.pk for one in held]
    Trainer.objects.update(last_seen_at=Now())

    assert not is_batch_available(run.pk, identity="alice", count=None, holding=ids)
    assert is_batch_available(run.pk, identity="alice", count=None, holding=ids[1:])
    assert lease_batch(run_id=run.pk, identity="alice", holding=ids) is None


def test_a_rank_receives_the_batches_of_its_trainer_in_order(run: Run) -> None:
    held = window(run, 3)
    received: list[UUID] = []

    while one := held_beside(run_id=run.pk, identity="alice", received=received):
        received.append(one.batch.pk)

    assert received == [one.batch.pk for one in held]
