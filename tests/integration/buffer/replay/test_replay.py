"""Chunks that are sampled, used more than once, given priorities, and evicted."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from buffer.batches.queries.queues import uses_of
from buffer.batches.services import leases
from buffer.batches.services.expiry import drop_open, drop_other_epochs
from buffer.items.models import FragmentChunk
from buffer.items.queries import queued_fragments
from buffer.items.rules.states import BatchNotFound, ItemKind, ItemState, LeaseLost
from buffer.payloads.services.contents import batch_contents
from buffer.replay.services import update_priorities
from runs.lifecycle.models import Run
from tests.buffer_factories import fragment
from tests.factories import NOON, make_run
from tests.integration.buffer.replay.replay_runs import (
    add,
    assert_exact,
    confirm,
    decoded,
    lapse,
    lease_for,
    make_replay_run,
    numbers,
    of_version,
    states,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_chunk_is_sampled_up_to_its_maximum_of_uses() -> None:
    run = make_replay_run(sampler="uniform", max_reuse=2)
    add(run, fragment(number=0), fragment(number=1))

    first = lease_for(run)
    assert states(run) == {0: "queued", 1: "queued"}
    confirm(run, first)
    second = lease_for(run)
    assert states(run) == {0: "leased", 1: "leased"}
    confirm(run, second)

    assert sorted(numbers(first)) == sorted(numbers(second)) == [0, 1]
    assert states(run) == {0: "served", 1: "served"}
    assert leases.lease_batch(run_id=run.pk, identity="a") is None
    assert_exact(run)


def test_two_trainers_lease_the_same_chunks_independently() -> None:
    run = make_replay_run(sampler="uniform", max_reuse=2)
    add(run, fragment(number=0), fragment(number=1))
    lease_a, lease_b = lease_for(run, "a"), lease_for(run, "b")
    before = {lease.batch.pk: numbers(lease) for lease in (lease_a, lease_b)}

    confirm(run, lease_a)

    assert states(run) == {0: "leased", 1: "leased"}
    again = lease_for(run, "b")
    assert again.batch.pk == lease_b.batch.pk
    assert numbers(again) == before[lease_b.batch.pk]
    confirm(run, again)
    assert states(run) == {0: "served", 1: "served"}
    assert_exact(run)


def test_a_batch_with_an_expired_lease_is_served_again_with_the_same_bytes() -> None:
    run = make_replay_run(sampler="uniform", max_reuse=3)
    add(run, *[fragment(number=number) for number in range(6)])
    first = lease_for(run)
    before = batch_contents(ItemKind.FRAGMENTS, first.batch.pk)
    lapse(first)

    second = lease_for(run, "b")

    assert second.batch.pk == first.batch.pk
    assert batch_contents(ItemKind.FRAGMENTS, second.batch.pk) == before
    assert_exact(run)


def test_the_same_state_of_a_run_gives_the_same_sample() -> None:
    samples = []
    for name in ("first", "second"):
        run = make_replay_run(sampler="uniform", batch_size=4)
        add(run, *[fragment(number=number) for number in range(50)])
        samples.append(numbers(lease_for(run)))
        Run.objects.filter(pk=run.pk).update(name=name)

    assert samples[0] == samples[1]
    assert samples[0] != sorted(samples[0])


def test_a_uniform_sample_skips_ids_that_are_not_available() -> None:
    run = make_replay_run(sampler="uniform", batch_size=4)
    other = make_run(name="other", epoch=1, policy_step=0)
    for number in range(24):
        add(run if number % 3 == 0 else other, fragment(number=number))
    taken: list[int] = []

    for _ in range(2):
        lease = lease_for(run)
        taken += numbers(lease)
        confirm(run, lease)

    assert sorted(taken) == list(range(0, 24, 3))
    assert leases.lease_batch(run_id=run.pk, identity="a") is None
    assert_exact(run)


def test_a_uniform_sample_of_few_among_very_many_ids_is_complete() -> None:
    run = make_replay_run(sampler="uniform")
    add(run, fragment(number=0))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT setval(pg_get_serial_sequence('buffer_fragmentchunk', 'id'),"
            " nextval(pg_get_serial_sequence('buffer_fragmentchunk', 'id')) + 1000000)"
        )
    add(run, fragment(number=1))

    assert sorted(numbers(lease_for(run))) == [0, 1]
    assert_exact(run)


def test_stale_versions_are_dropped_in_every_state() -> None:
    run = make_replay_run(sampler="uniform", max_reuse=9, batch_size=1)
    Run.objects.filter(pk=run.pk).update(policy_step=5)
    add(run, of_version(0, 5), of_version(1, 3))
    Run.objects.filter(pk=run.pk).update(policy_step=6)

    assert numbers(lease_for(run)) == [0]

    # MineStudio looks at its oldest chunk only, finds it fresh, and would serve the other.
    assert states(run) == {0: "queued", 1: "dropped: stale_version"}
    assert_exact(run)


def test_stale_items_are_kept_until_their_lease_ends() -> None:
    run = make_replay_run(sampler="uniform", max_reuse=9)
    add(run, fragment(number=0), fragment(number=1))
    lease = lease_for(run, "a")
    Run.objects.filter(pk=run.pk).update(policy_step=3)

    assert leases.lease_batch(run_id=run.pk, identity="b") is None

    assert states(run) == {0: "leased", 1: "leased"}
    assert sorted(numbers(lease)) == [0, 1]
    confirm(run, lease)
    assert states(run) == {0: "served", 1: "served"}
    assert_exact(run)


def test_a_released_stale_batch_returns_its_uses() -> None:
    run = make_replay_run(sampler="uniform", max_reuse=2)
    add(run, fragment(number=0), fragment(number=1))
    confirm(run, lease_for(run, "a"))
    add(run, fragment(number=2), fragment(number=3))
    lapse(lease_for(run, "a", count=4))
    Run.objects.filter(pk=run.pk).update(policy_step=3)

    assert leases.lease_batch(run_id=run.pk, identity="b") is None

    # The first two were trained on once; the others never.
    assert states(run) == {
        0: "served",
        1: "served",
        2: "dropped: stale_version",
        3: "dropped: stale_version",
    }
    assert_exact(run)


def test_over_capacity_the_oldest_items_are_evicted_and_counted() -> None:
    run = make_replay_run(sampler="uniform", max_chunks=3, max_reuse=2)
    add(run, *[fragment(number=number) for number in range(2)])

    receipt = add(run, *[fragment(number=number) for number in range(2, 5)])

    assert receipt.accepted == 3
    assert states(run) == {
        0: "dropped: capacity",
        1: "dropped: capacity",
        2: "queued",
        3: "queued",
        4: "queued",
    }
    assert_exact(run)


def test_a_queue_may_have_a_capacity_too() -> None:
    run = make_replay_run(max_chunks=2)
    add(run, *[fragment(number=number) for number in range(3)])

    assert numbers(lease_for(run)) == [1, 2]
    assert_exact(run)


def test_an_environment_evicts_its_own_items() -> None:
    run = make_replay_run(sampler="balanced", max_chunks_per_environment=2)
    add(run, fragment(slot="rare", number=0, environment="rare"))
    add(run, *[fragment(slot="busy", number=number) for number in range(1, 6)])

    assert [number for number, state in states(run).items() if state == "queued"] == [0, 4, 5]
    assert_exact(run)


def test_a_balanced_batch_has_equal_numbers_of_each_environment() -> None:
    run = make_replay_run(sampler="balanced", batch_size=4)
    add(run, *[fragment(slot="busy", number=number) for number in range(20)])
    add(run, *[fragment(slot="rare", number=n, environment="rare") for n in range(2)])

    assert lease_for(run).batch.composition == {"gymnasium:CartPole-v1": 2, "rare": 2}


def test_chunks_are_consecutive_fragments_of_one_slot_and_stay_together() -> None:
    run = make_replay_run(sampler="uniform", batch_size=4, fragments_per_chunk=2)
    for number in range(5):
        add(run, *[fragment(slot=slot, number=number) for slot in ("x", "y")])

    lease = lease_for(run)

    members = [(fragment.slot, fragment.number) for fragment in decoded(lease)]
    for first, second in (members[:2], members[2:]):
        assert first[0] == second[0]
        assert first[1] % 2 == 0
        assert second[1] == first[1] + 1
    assert Counter(FragmentChunk.objects.filter(run=run).values_list("state", flat=True)) == {
        ItemState.WAITING: 2,
        ItemState.LEASED: 4,
        ItemState.QUEUED: 4,
    }
    confirm(run, lease)
    assert_exact(run)


def test_the_least_admission_that_a_configuration_may_have_completes_a_batch() -> None:
    # 2 slots with 1 fragment each that waits, 2 of 4 fragments queued, and 1 more: 5 of 8.
    run = make_replay_run(batch_size=4, max_staleness=1, fragments_per_chunk=2)
    incomplete = [("x", 0), ("x", 1), ("x", 2), ("y", 0)]

    receipt = add(run, *[fragment(slot=slot, number=number) for slot, number in incomplete])

    assert receipt.admission_remaining == 4
    assert leases.lease_batch(run_id=run.pk, identity="a") is None
    assert add(run, fragment(slot="y", number=1)).admission_remaining == 3
    assert len(decoded(lease_for(run))) == 4


def test_fragments_that_cannot_complete_a_chunk_are_dropped_as_incomplete() -> None:
    run = make_replay_run(sampler="uniform", fragments_per_chunk=2)
    add(run, fragment(number=0))

    add(run, fragment(number=1, contiguous=False))

    assert states(run) == {0: "dropped: incomplete", 1: "waiting"}
    assert_exact(run)


def test_a_chunk_is_dropped_when_one_of_its_fragments_is_stale() -> None:
    run = make_replay_run(sampler="uniform", fragments_per_chunk=2)
    Run.objects.filter(pk=run.pk).update(policy_step=1)
    add(run, of_version(0, 0), of_version(1, 1))
    Run.objects.filter(pk=run.pk).update(policy_step=3)

    assert leases.lease_batch(run_id=run.pk, identity="a") is None

    assert set(states(run).values()) == {"dropped: stale_version"}
    assert_exact(run)


def test_a_waiting_fragment_of_a_chunk_becomes_stale_too() -> None:
    run = make_replay_run(sampler="uniform", fragments_per_chunk=2)
    add(run, fragment(number=0))
    Run.objects.filter(pk=run.pk).update(policy_step=3)

    leases.lease_batch(run_id=run.pk, identity="a")

    assert states(run) == {0: "dropped: stale_version"}
    assert_exact(run)


@pytest.mark.parametrize(
    "end",
    [
        lambda run: drop_open(run_id=run.pk, reason="killed", now=NOON),
        lambda run: Run.objects.filter(pk=run.pk).update(epoch=2) and drop_other_epochs(),
    ],
    ids=["killed", "another epoch"],
)
def test_at_the_end_used_items_are_served_and_others_dropped(
    end: Callable[[Run], Any],
) -> None:
    run = make_replay_run(sampler="fifo", max_reuse=2)
    add(run, fragment(number=0), fragment(number=1))
    confirm(run, lease_for(run))
    add(run, fragment(number=2), fragment(number=3))
    lease = lease_for(run, count=3)

    end(run)

    states_of_items = states(run)
    assert (states_of_items[0], states_of_items[1]) == ("served", "served")
    assert states_of_items[2] == states_of_items[3] in {"dropped: killed", "dropped: stale_epoch"}
    with pytest.raises(LeaseLost):
        confirm(run, lease)
    assert_exact(run)


def test_uses_stay_exact_while_trainers_sample_and_workers_push_at_once() -> None:
    run = make_replay_run(
        sampler="prioritized", max_reuse=3, batch_size=4, max_chunks=20, fragments_per_chunk=2
    )

    def work(slot: str) -> None:
        for number in range(20):
            add(run, fragment(slot=slot, number=number))
        connection.close()

    def train(identity: str) -> None:
        for _ in range(25):
            lease = leases.lease_batch(run_id=run.pk, identity=identity)
            if lease is not None:
                ids = [item_id for item_id, _ in uses_of(lease.batch)]
                assert len(set(ids)) == 4
                update_priorities(
                    run_id=run.pk, priorities={item_id: float(item_id % 7 + 1) for item_id in ids}
                )
                confirm(run, lease)
        connection.close()

    with ThreadPoolExecutor(5) as pool:
        jobs = [pool.submit(work, slot) for slot in "xyz"]
        jobs += [pool.submit(train, identity) for identity in "ab"]
        for job in jobs:
            job.result()

    assert_exact(run)
    assert max(FragmentChunk.objects.values_list("uses", flat=True)) <= 3
    assert queued_fragments(run.pk, 1) <= 40


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
