"""The amount of processed data is a chart axis, and nothing is added twice."""

from uuid import uuid4

import pytest
from django.db import transaction

from buffer.items.models import Batch
from rollouts.metrics.models import TokenTally
from rollouts.metrics.services.metrics import advance_amount
from runs.lifecycle.models import Run
from tests.factories import NOON, make_run

pytestmark = pytest.mark.django_db


def hand_out(run: Run, ordinal: int, tokens: int) -> Batch:
    return Batch.objects.create(
        id=uuid4(),
        run=run,
        kind="groups",
        ordinal=ordinal,
        state="confirmed",
        epoch=1,
        policy_step=0,
        leased_at=NOON,
        lease_expires_at=NOON,
        items=1,
        sequences=2,
        size_bytes=3,
        fence=1,
        composition={},
        staleness={},
        tokens=tokens,
    )


@transaction.atomic
def amount(run: Run) -> int:
    return advance_amount(run.pk)


def test_tokens_of_batches_are_counted_once_each() -> None:
    run = make_run(name="words", kind="outside")
    assert amount(run) == 0

    first = hand_out(run, 1, 100)
    assert amount(run) == 100
    assert amount(run) == 100
    # Counted batches are not read again, not even to check that they exist.
    first.delete()
    hand_out(run, 2, 30)

    assert amount(run) == 130
    assert TokenTally.objects.get(run=run).ordinal == 2


def test_a_fleet_run_counts_env_steps_not_tokens() -> None:
    run = make_run(name="steps", kind="fleet")

    assert amount(run) == 0
    assert not TokenTally.objects.filter(run=run).exists()
