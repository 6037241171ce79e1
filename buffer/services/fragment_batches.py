"""Write the row of a batch of fragments."""

import uuid
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from django.db.models.functions import Now

from buffer.core.fates import BatchState, ItemKind
from buffer.models import Batch
from runs.models import Run, Trainer


class Member(NamedTuple):
    """What a batch must know of a fragment in it."""

    version_min: int
    environment: str
    size_bytes: int


def create_batch(
    run: Run,
    trainer: Trainer,
    members: Sequence[Member],
    *,
    batch_id: uuid.UUID | None = None,
    sampler: str = "",
) -> Batch:
    """Write a batch under the run's next ordinal; the caller writes its lease."""
    batch = Batch.objects.create(
        id=batch_id or uuid.uuid4(),
        run=run,
        kind=ItemKind.FRAGMENTS,
        ordinal=run.served_steps + 1,
        state=BatchState.LEASED,
        epoch=run.epoch,
        policy_step=run.policy_step,
        trainer=trainer,
        fence=0,
        leased_at=Now(),
        lease_expires_at=Now(),
        items=len(members),
        sequences=len(members),
        size_bytes=sum(member.size_bytes for member in members),
        sampler=sampler,
        composition=Counter(member.environment for member in members),
        staleness=Counter(str(run.policy_step - member.version_min) for member in members),
    )
    Run.objects.filter(pk=run.pk).update(served_steps=batch.ordinal)
    return batch
