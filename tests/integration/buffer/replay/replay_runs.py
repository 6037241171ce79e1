"""Runs with a replay buffer, and the states of their fragments."""

from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
from django.db.models.functions import Now

from buffer.batches.services import leases
from buffer.batches.services.lease_expiry import return_expired_batches
from buffer.batches.services.leases import Lease
from buffer.batches.services.settlement import acknowledge_batch
from buffer.ingest.services.pushes import accept_fragments
from buffer.items.models import Batch, BatchUse, FragmentChunk
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import batch_contents
from rolldeck import wire
from runs.lifecycle.models import Run
from runs.lifecycle.services.registry import register_trainer
from tests.buffer_factories import arrays, fragment
from tests.factories import NOON, make_run
from tests.ledgers import miscounts


def make_replay_run(*, batch_size: int = 2, max_staleness: int = 2, **replay: Any) -> Run:
    """Make a fleet run at version 0 of epoch 1 that trainers a and b have joined."""
    buffer = {"batch_size": batch_size, "max_staleness": max_staleness, "replay": replay}
    fleet = {"envs_per_worker": 2, "inference_batch_size": 2}
    run = make_run(config={"fleet": fleet, "buffer": buffer})
    for identity in ("a", "b"):
        register_trainer(run_id=run.pk, identity=identity, resume=True, now=NOON)
    Run.objects.filter(pk=run.pk).update(epoch=1, policy_step=0)
    return Run.objects.get(pk=run.pk)


def add(run: Run, *fragments: wire.Fragment) -> wire.FragmentReceipt:
    return accept_fragments(
        run=run, fragments=[(fragment, wire.encode(fragment)) for fragment in fragments], now=NOON
    )


def of_version(number: int, version: int, **fields: Any) -> wire.Fragment:
    acted = arrays(4, policy_step=np.full(4, version, np.int32))
    return fragment(number=number, version_min=version, version_max=version, arrays=acted, **fields)


def lease_for(run: Run, identity: str = "a", count: int | None = None) -> Lease:
    lease = leases.lease_batch(run_id=run.pk, identity=identity, count=count)
    assert lease is not None
    return lease


def decoded(lease: Lease) -> list[wire.Fragment]:
    contents = batch_contents(ItemKind.FRAGMENTS, lease.batch.pk)
    return [msgspec.msgpack.decode(content.content, type=wire.Fragment) for content in contents]


def numbers(lease: Lease) -> list[int]:
    """Return the numbers of a batch's fragments, read from its bytes."""
    return [fragment.number for fragment in decoded(lease)]


def confirm(run: Run, lease: Lease) -> None:
    acknowledge_batch(run_id=run.pk, batch_id=lease.batch.pk, fence=lease.batch.fence)


def lapse(lease: Lease) -> None:
    Batch.objects.filter(pk=lease.batch.pk).update(lease_expires_at=Now() - timedelta(seconds=1))
    return_expired_batches()


def states(run: Run) -> dict[int, str]:
    rows = FragmentChunk.objects.filter(run=run).order_by("number")
    return {row.number: row.state + (row.drop_reason and f": {row.drop_reason}") for row in rows}


def assert_exact(run: Run) -> None:
    """Check counts against rows, and every fragment's uses against the batches that list it."""
    assert miscounts(run.pk) == []
    used, confirmed = Counter[int](), Counter[int]()
    for item, state in BatchUse.objects.filter(batch__run=run).values_list(
        "item_id", "batch__state"
    ):
        used[item] += state != "dropped"
        confirmed[item] += state == "confirmed"
    for row in FragmentChunk.objects.filter(run=run):
        assert (row.uses, row.confirmed) == (used[row.pk], confirmed[row.pk]), row.number
