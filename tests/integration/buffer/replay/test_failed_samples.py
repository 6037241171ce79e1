"""Batches of sampled fragments with expired leases or corrupt bytes."""

from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from buffer import jobs
from buffer.batches.services import leases
from buffer.batches.services.lease_expiry import BatchCorrupt, contents_of, discard, release
from buffer.batches.services.leases import Lease
from buffer.ingest.services.pushes import accept_fragments
from buffer.items.models import Batch, FragmentChunk
from buffer.items.queries import ledger_part
from rolldeck import wire
from runs.lifecycle.models import Run
from runs.lifecycle.services.registry import register_trainer
from tests.buffer_factories import fragment
from tests.factories import NOON, make_run
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    """A fleet run whose batches are one fragment each, sampled twice at most, with four queued."""
    replay = {"sampler": "uniform", "max_reuse": 2}
    run = make_run(config={"buffer": {"batch_size": 1, "max_staleness": 2, "replay": replay}})
    for identity in ("alice", "bob"):
        register_trainer(run_id=run.pk, identity=identity, resume=True, now=NOON)
    Run.objects.filter(pk=run.pk).update(epoch=1, policy_step=0)
    run.refresh_from_db()
    sent = [fragment(number=number) for number in range(4)]
    accept_fragments(
        run=run, fragments=[(fragment, wire.encode(fragment)) for fragment in sent], now=NOON
    )
    return run


def lease_for(run: Run, identity: str = "alice") -> Lease:
    lease = leases.lease_batch(run_id=run.pk, identity=identity)
    assert lease is not None
    return lease


def poison(run: Run) -> Batch:
    """Return a batch that lapsed three times."""
    for _ in range(3):
        lease = lease_for(run)
        Batch.objects.filter(state="leased").update(lease_expires_at=Now() - timedelta(seconds=1))
        jobs.reclaim_expired_leases()
    return Batch.objects.get(pk=lease.batch.pk)


def uses(run: Run) -> list[int]:
    return sorted(FragmentChunk.objects.filter(run=run).values_list("uses", flat=True))


def test_a_sample_in_quarantine_keeps_its_uses_until_it_is_released(run: Run) -> None:
    batch = poison(run)
    assert batch.state == "quarantined"
    assert uses(run) == [0, 0, 0, 1]

    release(run_id=run.pk, batch_id=batch.pk, actor="tests", now=NOON)

    assert uses(run) == [0, 0, 0, 0]
    assert Counter(FragmentChunk.objects.values_list("state", flat=True)) == {"queued": 4}
    assert miscounts(run.pk) == []
    lease_for(run)


def test_a_discarded_sample_is_never_sampled_again(run: Run) -> None:
    batch = poison(run)

    discard(run_id=run.pk, batch_id=batch.pk, actor="tests", now=NOON)

    assert ledger_part(run.pk).fragments.dropped == {"poison": 1}
    assert Counter(FragmentChunk.objects.values_list("state", flat=True)) == {
        "queued": 3,
        "dropped": 1,
    }
    assert miscounts(run.pk) == []


def test_a_corrupt_sample_is_dropped_and_another_one_drawn(run: Run) -> None:
    lease = lease_for(run)
    (bad,) = FragmentChunk.objects.filter(uses=1)
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE buffer_payload
            SET content = set_byte(content, 12, get_byte(content, 12) # 1)
            WHERE kind = 'fragments' AND item_id = %s""",
            [bad.pk],
        )

    with pytest.raises(BatchCorrupt):
        contents_of(lease, now=NOON)

    bad.refresh_from_db()
    assert (bad.state, bad.drop_reason) == ("dropped", "corrupt")
    assert contents_of(lease_for(run), now=NOON)
    assert miscounts(run.pk) == []
