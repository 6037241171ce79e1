"""Chunks that are sampled, used more than once, given priorities, and evicted."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pytest
from django.db import connection
from django.db.models.functions import Now

from buffer.batches.queries.queue_depth import uses_of
from buffer.batches.services import leases
from buffer.batches.services.lease_expiry import return_expired_batches
from buffer.batches.services.leases import Lease, LeaseLost
from buffer.ingest.services.fragments import accept_fragments
from buffer.items.models.items import Batch, FragmentChunk
from buffer.items.models.uses import BatchUse
from buffer.items.queries.counts import queued_fragments
from buffer.items.rules.batches import BatchNotFound
from buffer.items.rules.states import ItemKind, ItemState
from buffer.payloads.services.cleanup import drop_open, drop_other_epochs
from buffer.payloads.services.contents import batch_contents
from buffer.replay.services.priorities import update_priorities
from rolldeck import wire
from runs.lifecycle.models.runs import Run
from runs.lifecycle.services.registry import register_trainer
from tests.buffer_factories import arrays, fragment
from tests.factories import NOON, make_run
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db(transaction=True)


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


def take(run: Run, identity: str = "a", count: int | None = None) -> Lease:
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
    leases.acknowledge_batch(run_id=run.pk, batch_id=lease.batch.pk, fence=lease.batch.fence)


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


def test_a_chunk_is_sampled_until_it_was_used_as_often_as_it_may_be() -> None:
    run = make_replay_run(sampler="uniform", max_reuse=2)
    add(run, fragment(number=0), fragment(number=1))

    first = take(run)
    assert states(run) == {0: "queued", 1: "queued"}
    confirm(run, first)
    second = take(run)
    assert states(run) == {0: "leased", 1: "leased"}
    confirm(run, second)

    assert sorted(numbers(first)) == sorted(numbers(second)) == [0, 1]
    assert states(run) == {0: "served", 1: "served"}
    assert leases.lease_batch(run_id=run.pk, identity="a") is None
    assert_exact(run)


def test_two_trainers_hold_the_same_chunks_without_disturbing_one_another() -> None:
    run = make_replay_run(sampler="uniform", max_reuse=2)
    add(run, fragment(number=0), fragment(number=1))
    lease_a, lease_b = take(run, "a"), take(run, "b")
    before = {lease.batch.pk: numbers(lease) for lease in (lease_a, lease_b)}

    confirm(run, lease_a)

    assert states(run) == {0: "leased", 1: "leased"}
    again = take(run, "b")
    assert again.batch.pk == lease_b.batch.pk
    assert numbers(again) == before[lease_b.batch.pk]
    confirm(run, again)
    assert states(run) == {0: "served", 1: "served"}
    assert_exact(run)


def test_a_batch_whose_lease_lapsed_comes_again_with_the_same_bytes() -> None:
    run = make_replay_run(sampler="uniform", max_reuse=3)
    add(run, *[fragment(number=number) for number in range(6)])
    first = take(run)
    before = batch_contents(ItemKind.FRAGMENTS, first.batch.pk)
    lapse(first)

    second = take(run, "b")

    assert second.batch.pk == first.batch.pk
    assert batch_contents(ItemKind.FRAGMENTS, second.batch.pk) == before
    assert_exact(run)


def test_the_same_state_of_a_run_gives_the_same_sample() -> None:
    samples = []
    for name in ("first", "second"):
        run = make_replay_run(sampler="uniform", batch_size=4)
        add(run, *[fragment(number=number) for number in range(50)])
        samples.append(numbers(take(run)))
        Run.objects.filter(pk=run.pk).update(name=name)

    assert samples[0] == samples[1]
    assert samples[0] != sorted(samples[0])


def test_versions_that_trail_too_far_go_wherever_they_stand() -> None:
    run = make_replay_run(sampler="uniform", max_reuse=9, batch_size=1)
    Run.objects.filter(pk=run.pk).update(policy_step=5)
    add(run, of_version(0, 5), of_version(1, 3))
    Run.objects.filter(pk=run.pk).update(policy_step=6)

    assert numbers(take(run)) == [0]

    # MineStudio looks at its oldest chunk only, finds it fresh, and would serve the other.
    assert states(run) == {0: "queued", 1: "dropped: stale_version"}
    assert_exact(run)


def test_what_grows_stale_under_a_lease_stays_until_the_lease_is_settled() -> None:
    run = make_replay_run(sampler="uniform", max_reuse=9)
    add(run, fragment(number=0), fragment(number=1))
    lease = take(run, "a")
    Run.objects.filter(pk=run.pk).update(policy_step=3)

    assert leases.lease_batch(run_id=run.pk, identity="b") is None

    assert states(run) == {0: "leased", 1: "leased"}
    assert sorted(numbers(lease)) == [0, 1]
    confirm(run, lease)
    assert states(run) == {0: "served", 1: "served"}
    assert_exact(run)


def test_a_stale_batch_that_comes_back_gives_its_uses_back() -> None:
    run = make_replay_run(sampler="uniform", max_reuse=2)
    add(run, fragment(number=0), fragment(number=1))
    confirm(run, take(run, "a"))
    add(run, fragment(number=2), fragment(number=3))
    lapse(take(run, "a", count=4))
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


def test_over_capacity_the_oldest_go_and_are_counted() -> None:
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

    assert numbers(take(run)) == [1, 2]
    assert_exact(run)


def test_an_environment_that_pushes_much_evicts_its_own() -> None:
    run = make_replay_run(sampler="balanced", max_chunks_per_environment=2)
    add(run, fragment(slot="rare", number=0, environment="rare"))
    add(run, *[fragment(slot="busy", number=number) for number in range(1, 6)])

    assert [number for number, state in states(run).items() if state == "queued"] == [0, 4, 5]
    assert_exact(run)


def test_a_balanced_batch_holds_as_many_of_each_environment() -> None:
    run = make_replay_run(sampler="balanced", batch_size=4)
    add(run, *[fragment(slot="busy", number=number) for number in range(20)])
    add(run, *[fragment(slot="rare", number=n, environment="rare") for n in range(2)])

    assert take(run).batch.composition == {"gymnasium:CartPole-v1": 2, "rare": 2}


def test_chunks_are_consecutive_fragments_of_one_slot_and_stay_together() -> None:
    run = make_replay_run(sampler="uniform", batch_size=4, fragments_per_chunk=2)
    for number in range(5):
        add(run, *[fragment(slot=slot, number=number) for slot in ("x", "y")])

    lease = take(run)

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
    assert len(decoded(take(run))) == 4


def test_what_can_never_be_part_of_a_chunk_is_dropped_as_incomplete() -> None:
    run = make_replay_run(sampler="uniform", fragments_per_chunk=2)
    add(run, fragment(number=0))

    add(run, fragment(number=1, contiguous=False))

    assert states(run) == {0: "dropped: incomplete", 1: "waiting"}
    assert_exact(run)


def test_a_chunk_goes_as_a_whole_when_one_of_its_fragments_is_too_old() -> None:
    run = make_replay_run(sampler="uniform", fragments_per_chunk=2)
    Run.objects.filter(pk=run.pk).update(policy_step=1)
    add(run, of_version(0, 0), of_version(1, 1))
    Run.objects.filter(pk=run.pk).update(policy_step=3)

    assert leases.lease_batch(run_id=run.pk, identity="a") is None

    assert set(states(run).values()) == {"dropped: stale_version"}
    assert_exact(run)


def test_a_fragment_that_waits_for_the_rest_of_its_chunk_grows_stale_too() -> None:
    run = make_replay_run(sampler="uniform", fragments_per_chunk=2)
    add(run, fragment(number=0))
    Run.objects.filter(pk=run.pk).update(policy_step=3)

    leases.lease_batch(run_id=run.pk, identity="a")

    assert states(run) == {0: "dropped: stale_version"}
    assert_exact(run)


def test_priorities_decide_what_is_sampled_and_weights_undo_it() -> None:
    run = make_replay_run(sampler="prioritized", alpha=1, beta=1, max_reuse=1 << 20, batch_size=1)
    add(run, *[fragment(number=number) for number in range(3)])
    ids = list(FragmentChunk.objects.order_by("number").values_list("id", flat=True))

    updated = update_priorities(run_id=run.pk, priorities={ids[0]: 1.0, ids[1]: 1e9, ids[2]: 1e-9})

    assert updated == 3
    for _ in range(4):
        lease = take(run)
        assert numbers(lease) == [1]
        confirm(run, lease)
    ((_, weight),) = uses_of(lease.batch)
    assert weight == 1
    pair = take(run, count=2)
    weights = dict(zip(numbers(pair), [w for _, w in uses_of(pair.batch)], strict=True))
    assert weights == pytest.approx({0: 1, 1: 1e-9})


def test_a_new_chunk_comes_before_one_that_was_found_dull() -> None:
    run = make_replay_run(sampler="prioritized", alpha=4, max_reuse=9, batch_size=1)
    add(run, fragment(number=0), fragment(number=1))
    dull, urgent = FragmentChunk.objects.order_by("number").values_list("id", flat=True)
    update_priorities(run_id=run.pk, priorities={dull: 1e-6, urgent: 100})
    add(run, fragment(number=2))

    assert {*numbers(take(run, "a")), *numbers(take(run, "b"))} <= {1, 2}


def test_priorities_of_a_batch_touch_nothing_else() -> None:
    run = make_replay_run(sampler="prioritized", max_reuse=2, batch_size=1)
    add(run, fragment(number=0), fragment(number=1))
    lease = take(run)
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


@pytest.mark.parametrize(
    "end",
    [
        lambda run: drop_open(run_id=run.pk, reason="killed", now=NOON),
        lambda run: Run.objects.filter(pk=run.pk).update(epoch=2) and drop_other_epochs(),
    ],
    ids=["killed", "another epoch"],
)
def test_at_the_end_what_was_trained_on_is_served_and_the_rest_dropped(
    end: Callable[[Run], Any],
) -> None:
    run = make_replay_run(sampler="fifo", max_reuse=2)
    add(run, fragment(number=0), fragment(number=1))
    confirm(run, take(run))
    add(run, fragment(number=2), fragment(number=3))
    lease = take(run, count=3)

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
