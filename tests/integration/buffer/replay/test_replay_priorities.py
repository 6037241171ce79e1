"""Priorities of chunks: sampling, weights and updates."""

from uuid import UUID

import pytest

from buffer.batches.queries.queues import uses_of
from buffer.items.models import FragmentChunk
from buffer.items.rules.states import BatchNotFound
from buffer.replay.services import update_priorities
from tests.buffer_factories import fragment
from tests.factories import make_run
from tests.integration.buffer.replay.replay_runs import (
    add,
    confirm,
    lease_for,
    make_replay_run,
    numbers,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_priorities_bias_the_sample_and_weights_correct_it() -> None:
    run = make_replay_run(sampler="prioritized", alpha=1, beta=1, max_reuse=1 << 20, batch_size=1)
    add(run, *[fragment(number=number) for number in range(3)])
    ids = list(FragmentChunk.objects.order_by("number").values_list("id", flat=True))

    updated = update_priorities(run_id=run.pk, priorities={ids[0]: 1.0, ids[1]: 1e9, ids[2]: 1e-9})

    assert updated == 3
    for _ in range(4):
        lease = lease_for(run)
        assert numbers(lease) == [1]
        confirm(run, lease)
    ((_, weight),) = uses_of(lease.batch)
    assert weight == 1
    pair = lease_for(run, count=2)
    weights = dict(zip(numbers(pair), [w for _, w in uses_of(pair.batch)], strict=True))
    assert weights == pytest.approx({0: 1, 1: 1e-9})


def test_a_new_chunk_precedes_one_with_a_low_priority() -> None:
    run = make_replay_run(sampler="prioritized", alpha=4, max_reuse=9, batch_size=1)
    add(run, fragment(number=0), fragment(number=1))
    dull, urgent = FragmentChunk.objects.order_by("number").values_list("id", flat=True)
    update_priorities(run_id=run.pk, priorities={dull: 1e-6, urgent: 100})
    add(run, fragment(number=2))

    assert {*numbers(lease_for(run, "a")), *numbers(lease_for(run, "b"))} <= {1, 2}


def test_priorities_of_a_batch_affect_no_other() -> None:
    run = make_replay_run(sampler="prioritized", max_reuse=2, batch_size=1)
    add(run, fragment(number=0), fragment(number=1))
    lease = lease_for(run)
    ids = FragmentChunk.objects.values_list("id", flat=True)

    updated = update_priorities(
        run_id=run.pk, priorities=dict.fromkeys(ids, 5.0), batch_id=lease.batch.pk
    )

    assert updated == 1
    (touched,) = FragmentChunk.objects.filter(priority=5).values_list("number", flat=True)
    assert [touched] == numbers(lease)
    with pytest.raises(BatchNotFound):
        update_priorities(run_id=run.pk, priorities={1: 1}, batch_id=UUID(int=1))


def test_priorities_of_another_run_are_not_touched() -> None:
    run = make_replay_run(sampler="prioritized")
    add(run, fragment(number=0))
    other = make_run(name="beta")

    ids = FragmentChunk.objects.values_list("id", flat=True)

    assert update_priorities(run_id=other.pk, priorities=dict.fromkeys(ids, 2.0)) == 0
