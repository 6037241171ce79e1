"""Many writers and trainers at once, on the services themselves."""

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection
from django.db.models.functions import Now

from buffer import jobs
from buffer.batches.queries.queues import is_batch_available, is_drained
from buffer.batches.services.expiry import drop_open
from buffer.batches.services.leases import (
    is_alive,
    lease_batch,
    lease_for_atropos,
    record_delivered,
    this_process,
)
from buffer.batches.services.settlement import acknowledge_batch
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.idempotency import KeyInFlight, PushKey, run_idempotent
from buffer.ingest.services.pushes import UnknownEnvironment, accept_groups
from buffer.items.models import Batch, FragmentChunk, Tally, TrajectoryGroup
from buffer.items.queries import ledger_part
from buffer.items.rules.states import LeaseLost
from runs.lifecycle.models import Run
from runs.lifecycle.services.registry import register_environment
from tests.buffer_factories import body, group
from tests.factories import NOON, make_outside_run
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    return make_outside_run(trainers=("alice", "bob"))


def push(run: Run, *, sequences: int = 2, mark: int = 1) -> None:
    content = decode_group(body(group(sequences=sequences, mark=mark)))
    accept_groups(run=run, groups=[content], producer="tests", now=NOON)


def members(batch: Batch) -> list[int]:
    rows = TrajectoryGroup.objects.filter(batch=batch).order_by("position")
    return list(rows.values_list("id", flat=True))


def in_threads(*works: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 the test's own thread shows it
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []


def lapse(batch: Batch) -> None:
    Batch.objects.filter(pk=batch.pk).update(lease_expires_at=Now() - timedelta(seconds=1))
    jobs.reclaim_expired_leases()


def test_each_group_is_served_once_under_concurrent_pushes(run: Run) -> None:
    served: list[int] = []
    done = threading.Event()

    def push_some() -> None:
        for number in range(15):
            push(run, sequences=number % 3 + 1)

    def train(identity: str) -> None:
        ended = False
        while True:
            lease = lease_batch(run_id=run.pk, identity=identity)
            if lease is None and ended:
                return
            if lease is None:
                ended = done.is_set()
                continue
            ids = members(lease.batch)
            acknowledge_batch(run_id=run.pk, batch_id=lease.batch.pk, fence=lease.batch.fence)
            served.extend(ids)

    def push_all() -> None:
        try:
            in_threads(*[push_some] * 4)
        finally:
            done.set()

    in_threads(push_all, partial(train, "alice"), partial(train, "bob"))

    assert len(served) == len(set(served))
    left = TrajectoryGroup.objects.filter(state="queued").count()
    assert len(served) + left == 60
    assert set(Batch.objects.values_list("sequences", flat=True)) == {4}
    batches = Batch.objects.order_by("ordinal").values_list("ordinal", flat=True)
    assert list(batches) == list(range(1, len(batches) + 1))
    assert miscounts(run.pk) == []


def test_a_batch_with_an_expired_lease_is_leased_to_the_next_trainer_and_fenced(run: Run) -> None:
    for mark in range(4):
        push(run, mark=mark)
    first = lease_batch(run_id=run.pk, identity="alice")
    assert first is not None
    lapse(first.batch)

    second = lease_batch(run_id=run.pk, identity="bob")

    assert second is not None
    assert second.batch.pk == first.batch.pk
    assert second.batch.ordinal == 1
    assert second.batch.fence > first.batch.fence
    with pytest.raises(LeaseLost):
        acknowledge_batch(run_id=run.pk, batch_id=first.batch.pk, fence=first.batch.fence)
    acknowledge_batch(run_id=run.pk, batch_id=second.batch.pk, fence=second.batch.fence)
    assert miscounts(run.pk) == []


def test_a_waiting_request_returns_when_a_batch_is_complete_leased_or_released(run: Run) -> None:
    def sees(identity: str, *, count: int | None = None) -> bool:
        return is_batch_available(run.pk, identity=identity, count=count)

    assert sees("alice")  # its first question is noted: environments wait for it
    for trainer in ("alice", "bob"):
        assert lease_batch(run_id=run.pk, identity=trainer) is None
    assert sees("a stranger")  # its request must be recorded
    assert not sees("alice")
    push(run)
    assert not sees("alice")
    assert sees("alice", count=2)
    push(run)
    assert sees("alice")

    lease = lease_batch(run_id=run.pk, identity="alice")
    assert lease is not None
    assert sees("alice")
    assert not sees("bob")
    lapse(lease.batch)
    assert sees("bob")

    acknowledge_batch(run_id=run.pk, batch_id=lease.batch.pk, fence=lease.batch.fence)
    assert not sees("alice")


def test_a_late_acknowledgement_counts_while_no_other_trainer_has_the_batch(run: Run) -> None:
    for mark in range(2):
        push(run, mark=mark)
    lease = lease_batch(run_id=run.pk, identity="alice")
    assert lease is not None
    lapse(lease.batch)
    assert not is_drained(run.pk)

    acknowledge_batch(run_id=run.pk, batch_id=lease.batch.pk, fence=lease.batch.fence)

    assert lease_batch(run_id=run.pk, identity="bob") is None
    assert is_drained(run.pk)


def test_a_stock_trainer_that_is_slower_than_its_lease_trains_nothing_twice(run: Run) -> None:
    for mark in range(4):
        push(run, mark=mark)
    first = lease_for_atropos(run_id=run.pk, identity="alice", sender=this_process(), now=NOON)
    assert first is not None
    record_delivered(batch_id=first.batch.pk, fence=first.batch.fence)
    lapse(first.batch)

    second = lease_for_atropos(run_id=run.pk, identity="alice", sender=this_process(), now=NOON)

    assert second is not None
    assert second.batch.pk != first.batch.pk
    assert Batch.objects.get(pk=first.batch.pk).state == "confirmed"


def test_the_answer_of_a_killed_process_is_repeated_at_once(run: Run) -> None:
    for mark in range(4):
        push(run, mark=mark)
    dead = this_process().rpartition(":")[0] + ":1"
    assert is_alive(this_process())
    assert is_alive(dead) is False
    assert is_alive("elsewhere:1:2") is None
    first = lease_for_atropos(run_id=run.pk, identity="alice", sender=dead, now=NOON)
    assert first is not None

    again = lease_for_atropos(run_id=run.pk, identity="alice", sender=this_process(), now=NOON)

    assert again is not None
    assert again.batch.pk == first.batch.pk


def test_a_kill_drops_and_counts_all_open_items(run: Run) -> None:
    for mark in range(5):
        push(run, mark=mark)
    lease = lease_batch(run_id=run.pk, identity="alice")
    assert lease is not None

    assert drop_open(run_id=run.pk, reason="killed", now=NOON) == 5

    ledger = ledger_part(run.pk).groups
    assert (ledger.accepted, ledger.dropped) == (5, {"killed": 5})
    assert miscounts(run.pk) == []
    with pytest.raises(LeaseLost):
        acknowledge_batch(run_id=run.pk, batch_id=lease.batch.pk, fence=lease.batch.fence)


def test_the_job_cleans_up_after_an_ended_run(run: Run) -> None:
    push(run)
    Run.objects.filter(pk=run.pk).update(status="stopped")

    assert jobs.reclaim_expired_leases()["dropped"] == 1

    assert set(jobs.reclaim_expired_leases().values()) == {0}
    assert miscounts(run.pk) == []


def test_two_halves_that_arrive_at_once_complete_each_other(run: Run) -> None:
    register_environment(
        run_id=run.pk,
        desired_name="math",
        weight=1.0,
        max_token_length=64,
        group_size=4,
        min_batch_allocation=None,
        now=NOON,
    )
    half = decode_group(body(group(sequences=2, env_id=0)))

    def push_half() -> None:
        accept_groups(run=run, groups=[half], producer="tests", now=NOON)

    in_threads(*[push_half] * 8)

    assert set(TrajectoryGroup.objects.values_list("state", flat=True)) == {"queued"}
    assert miscounts(run.pk) == []


def test_a_failed_push_leaves_no_rows(run: Run) -> None:
    good = decode_group(body(group()))
    stray = decode_group(body(group(env_id=3)))

    with pytest.raises(UnknownEnvironment):
        accept_groups(run=run, groups=[good, stray], producer="tests", now=NOON)

    assert TrajectoryGroup.objects.count() == Tally.objects.count() == 0


def test_the_same_key_in_flight_is_refused(run: Run) -> None:
    key = PushKey.of("k", b"body")
    inside, finish = threading.Event(), threading.Event()

    def slow() -> dict[str, str]:
        inside.set()
        finish.wait(10)
        return {"a": "b"}

    def first() -> None:
        run_idempotent(run_id=run.pk, key=key, now=NOON, push=slow, kind=dict[str, str])

    def second() -> None:
        inside.wait(10)
        try:
            with pytest.raises(KeyInFlight):
                run_idempotent(run_id=run.pk, key=key, now=NOON, push=dict, kind=dict)
        finally:
            finish.set()

    in_threads(first, second)


def test_deleting_a_run_deletes_its_data(run: Run) -> None:
    push(run)
    push(run)
    lease_batch(run_id=run.pk, identity="alice")

    run.delete()

    assert not TrajectoryGroup.objects.exists()
    assert not FragmentChunk.objects.exists()
