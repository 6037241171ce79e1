"""One batch and many trainers: leases, acknowledgements, and unchanged bytes."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from buffer import jobs
from buffer.batches.services import leases
from buffer.batches.services.expiry import drop_open
from buffer.batches.services.lease_expiry import NotQuarantined, contents_of, release
from buffer.batches.services.leases import Lease, held_by
from buffer.batches.services.settlement import acknowledge_batch
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from buffer.items.models import Batch
from buffer.items.queries import ledger_part
from buffer.items.rules.states import LeaseLost
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from tests.buffer_factories import body, group
from tests.factories import NOON, make_outside_run
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db(transaction=True)

TRAINERS = ("alice", "bob", "carol", "dave")


@pytest.fixture
def run() -> Run:
    return make_outside_run(trainers=TRAINERS)


def push(run: Run, *, groups: int) -> None:
    made = [decode_group(body(group(mark=mark))) for mark in range(groups)]
    accept_groups(run=run, groups=made, producer="tests", now=NOON)


def lease_for(run: Run, identity: str) -> Lease:
    lease = leases.lease_batch(run_id=run.pk, identity=identity)
    assert lease is not None
    return lease


def confirm(run: Run, lease: Lease, *, fence: int | None = None) -> None:
    acknowledge_batch(
        run_id=run.pk, batch_id=lease.batch.pk, fence=lease.batch.fence if fence is None else fence
    )


def content(lease: Lease) -> list[bytes]:
    return [stored.content for stored in contents_of(lease, now=NOON)]


def lapse(lease: Lease) -> None:
    Batch.objects.filter(pk=lease.batch.pk).update(lease_expires_at=Now() - timedelta(seconds=1))
    jobs.reclaim_expired_leases()


def test_trainers_lease_different_batches_and_receive_their_own_again(run: Run) -> None:
    push(run, groups=8)
    first = {identity: lease_for(run, identity) for identity in TRAINERS}

    again = {identity: lease_for(run, identity) for identity in reversed(TRAINERS)}

    assert len({lease.batch.pk for lease in first.values()}) == len(TRAINERS)
    for identity, lease in first.items():
        assert again[identity].batch.pk == lease.batch.pk
        assert content(again[identity]) == content(lease)
    assert len({part for lease in first.values() for part in content(lease)}) == 8


def test_a_released_batch_keeps_its_bytes_and_follows_the_last_lease(run: Run) -> None:
    push(run, groups=2)
    alice = lease_for(run, "alice")
    before = content(alice)
    alice_fence = alice.batch.fence
    lapse(alice)

    bob = lease_for(run, "bob")

    assert (bob.batch.pk, content(bob)) == (alice.batch.pk, before)
    with pytest.raises(LeaseLost):
        confirm(run, alice, fence=alice_fence)
    with pytest.raises(LeaseLost):
        held_by(run_id=run.pk, batch_id=alice.batch.pk, identity="alice")
    assert leases.lease_batch(run_id=run.pk, identity="alice") is None
    confirm(run, bob)
    confirm(run, bob)  # its first answer was lost
    with pytest.raises(LeaseLost):
        confirm(run, alice, fence=alice_fence)
    assert ledger_part(run.pk).groups.served == 2
    assert miscounts(run.pk) == []


def test_three_dead_trainers_quarantine_a_batch_and_the_fourth_receives_another(run: Run) -> None:
    push(run, groups=4)
    fences = []
    for identity in TRAINERS[:3]:
        lease = lease_for(run, identity)
        assert lease.batch.ordinal == 1
        fences.append(lease.batch.fence)
        lapse(lease)

    fourth = lease_for(run, TRAINERS[3])

    assert fourth.batch.ordinal == 2
    assert RunEvent.objects.filter(kind="batch_quarantined").count() == 1
    for fence in fences[:2]:
        with pytest.raises(LeaseLost):
            confirm(run, lease, fence=fence)
    # The last holder was slow, not dead.
    confirm(run, lease, fence=fences[2])
    confirm(run, fourth)
    ledger = ledger_part(run.pk).groups
    assert (ledger.served, ledger.quarantined) == (4, 0)
    assert miscounts(run.pk) == []


def test_an_acknowledged_batch_does_not_expire(run: Run) -> None:
    push(run, groups=2)
    lease = lease_for(run, "alice")
    confirm(run, lease)

    lapse(lease)

    assert Batch.objects.get().state == "confirmed"
    assert leases.lease_batch(run_id=run.pk, identity="bob") is None


def test_quarantined_batches_of_an_ended_run_are_dropped(run: Run) -> None:
    push(run, groups=2)
    for _ in range(3):
        lapse(lease_for(run, "alice"))

    assert drop_open(run_id=run.pk, reason="killed", now=NOON) == 2

    assert Batch.objects.get().state == "dropped"
    assert miscounts(run.pk) == []
    with pytest.raises(NotQuarantined):
        release(run_id=run.pk, batch_id=Batch.objects.get().pk, actor="tests", now=NOON)
