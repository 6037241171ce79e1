"""Built-in measurements match the rows, and count each row once."""

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction

from buffer.batches.queries import rates
from buffer.batches.queries.rates import FlowCursor, group_flow, trainer_wait_share
from buffer.batches.services.leases import lease_batch
from buffer.batches.services.settlement import acknowledge_batch
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from buffer.inspect.services import digest_groups
from buffer.items.models import Batch
from rollouts.metrics.models import MeasureCursor, MetricSample, MetricSeries, TokenTally
from rollouts.metrics.services.measuring import measure_runs
from rollouts.metrics.services.metrics import SERIES_AT_MOST
from runs.lifecycle.models import Run, Trainer
from runs.lifecycle.rules import RunStatus
from tests.buffer_factories import body, group
from tests.factories import NOON, make_outside_run, make_run
from tests.integration.buffer.ingest.test_queue_under_load import in_threads
from tests.integration.rollouts.metrics.measured_series import at, last, measure, series

# One transaction for a whole test, with visible groups: no other test delays them.
pytestmark = pytest.mark.django_db


really_commits = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    """A run whose batches have four sequences: two groups."""
    return make_outside_run()


def push(run: Run, *scores: list[float], seconds: float = 0, **fields: Any) -> None:
    """Push a group of two sequences for each pair of scores."""
    groups = [decode_group(body(group(scores=pair, **fields))) for pair in scores]
    accept_groups(run=run, groups=groups, producer="tests", now=at(seconds))


def train(run: Run) -> None:
    lease = lease_batch(run_id=run.pk, identity="alice")
    assert lease is not None
    acknowledge_batch(run_id=run.pk, batch_id=lease.batch.pk, fence=lease.batch.fence)


def test_the_first_measurement_has_levels_and_no_rates(run: Run) -> None:
    push(run, [0, 1], [1, 1], [0, 0])

    assert measure(run, 0)

    assert last(run) == {
        "queue/depth": 6,
        "queue/threshold": 12,
        "reward/mean": 0.5,
        "reward/p10": pytest.approx(0.1),
        "reward/p50": 0.5,
        "reward/p90": pytest.approx(0.9),
        "zero_variance_share": pytest.approx(2 / 3),
        "length/mean": 3,
        "length/max": 3,
    }


def test_groups_of_one_sequence_count_as_without_variance(run: Run) -> None:
    push(run, [0, 1])
    single = [decode_group(body(group(sequences=1, scores=[1.0]))) for _ in range(3)]
    accept_groups(run=run, groups=single, producer="tests", now=at(0))

    measure(run, 0)

    assert last(run)["zero_variance_share"] == 0.75


def test_each_measurement_begins_where_the_last_one_ended(run: Run) -> None:
    push(run, [0, 0], [0, 0], [0, 0])
    measure(run, 0)
    push(run, [2, 4], tokens=9)
    train(run)

    assert measure(run, 10)

    last_values = last(run)
    assert last_values["reward/mean"] == 3
    assert last_values["zero_variance_share"] == 0
    assert (last_values["length/mean"], last_values["length/max"]) == (9, 9)
    assert last_values["accepted_per_second"] == 0.1
    assert last_values["served_per_second"] == 0.2
    # Two groups of two sequences of three tokens.
    assert last_values["tokens_per_second"] == pytest.approx(1.2)
    assert (last_values["staleness/p50"], last_values["staleness/p95"]) == (0, 0)
    assert last_values["queue/depth"] == 4
    # Charts over steps and served tokens advance with the batch.
    steps = MetricSample.objects.filter(run=run, at=at(10))
    assert set(steps.values_list("step", "amount")) == {(1, 12)}


def test_staleness_is_that_of_the_items_served_since_the_last_measurement(run: Run) -> None:
    for number, staleness in enumerate([{"0": 18, "7": 2}, {"2": 20}, {"unknown": 3}], start=1):
        hand_out(run, number, staleness=staleness)
        Run.objects.filter(pk=run.pk).update(served_steps=number)
        measure(run, 10 * number)

    assert series(run)["staleness/p50"] == [0, 2]
    assert series(run)["staleness/p95"] == [7, 2]


def hand_out(run: Run, ordinal: int, **fields: Any) -> Batch:
    values: dict[str, Any] = {
        "kind": "groups",
        "state": "confirmed",
        "epoch": 1,
        "policy_step": 0,
        "items": 1,
        "sequences": 2,
        "size_bytes": 3,
        "composition": {},
        "staleness": {},
        "leased_at": NOON,
        "lease_expires_at": NOON,
        "settled_at": NOON,
    }
    return Batch.objects.create(id=uuid4(), run=run, ordinal=ordinal, **{**values, **fields})


def test_an_idle_period_is_recorded_once_and_ends_without_a_slope(run: Run) -> None:
    push(run, [0, 1])
    measure(run, 0)
    assert measure(run, 10)
    before = MetricSample.objects.count()

    assert not any(measure(run, seconds) for seconds in (20, 30, 600))
    assert measure_runs(now=at(610)) == 0
    assert MetricSample.objects.count() == before

    push(run, [0, 1], [1, 0], seconds=615)
    assert measure_runs(now=at(620)) == 1
    samples = MetricSample.objects.filter(series__name="rolldeck/accepted_per_second")
    assert list(samples.order_by("id").values_list("at", "value")) == [
        (at(10), 0.0),
        (at(610), 0.0),
        (at(620), 0.2),
    ]


@really_commits
def test_a_second_simultaneous_measurement_is_skipped(run: Run) -> None:
    push(run, [0, 1])
    done: list[bool] = []

    in_threads(*[lambda: done.append(measure(run, 0))] * 4)

    assert sorted(done) == [False, False, False, True]
    assert series(run)["queue/depth"] == [2]
    push(run, [0, 1])
    assert not measure(run, 5)
    assert measure(run, 10)


def test_an_interrupted_measurement_is_repeated(run: Run) -> None:
    push(run, [0, 1])
    with transaction.atomic():
        assert measure(run, 0)
        transaction.set_rollback(True)
    assert not MetricSample.objects.exists()

    push(run, [1, 1])
    assert measure(run, 1)
    assert series(run)["reward/mean"] == [0.75]


@really_commits
def test_groups_are_counted_once_despite_a_slow_earlier_push(run: Run) -> None:
    push(run, [0, 0])
    measure(run, 0)

    def meanwhile() -> None:
        push(run, [1, 1])
        assert measure(run, 10)

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()")  # older than the concurrent push
        in_threads(meanwhile)
        push(run, [5, 5])
    measure(run, 20)
    measure(run, 30)

    assert series(run)["reward/mean"] == [0, 3]


def test_groups_dropped_for_zero_variance_count_without_stored_bytes(run: Run) -> None:
    run.drop_zero_variance = True
    push(run, [0, 1], [1, 1], [1, 1], [1, 1])

    measure(run, 0)

    assert last(run)["zero_variance_share"] == 0.75
    assert last(run)["reward/mean"] == 0.5


@really_commits
def test_truncation_is_counted_after_the_digest(run: Run) -> None:
    push(run, [0, 1], is_truncated=[True, False])
    push(run, [0, 1], is_truncated=[False, False])
    measure(run, 0)
    assert "truncated_share" not in series(run)

    digest_groups(now=NOON, seconds=60)
    measure(run, 10)
    push(run, [0, 1], is_truncated=[True, True])
    digest_groups(now=NOON, seconds=60)
    measure(run, 20)

    assert series(run)["truncated_share"] == [0.25, 1.0]


def test_an_ended_run_is_measured_exactly_once_more(run: Run) -> None:
    push(run, [0, 1])
    measure(run, 0)
    push(run, [0, 1])
    ended = {"status": RunStatus.STOPPED, "status_changed_at": at(5)}
    Run.objects.filter(pk=run.pk).update(**ended)

    assert measure_runs(now=at(10)) == 1
    assert measure_runs(now=at(20)) == 0
    assert series(run)["queue/depth"] == [2, 4]


def test_runs_that_never_started_are_not_measured() -> None:
    make_run(name="draft", kind="outside", status=RunStatus.DRAFT)
    make_run(name="idle", kind="outside")
    old = make_run(name="old", kind="outside", status=RunStatus.COMPLETED)
    push(Run.objects.get(name="idle"), [0, 1])
    hand_out(old, 1)
    Run.objects.filter(pk=old.pk).update(served_steps=1)

    assert measure_runs(now=NOON) == 1
    assert MeasureCursor.objects.get().run.name == "idle"


def test_a_run_at_the_limit_of_names_gets_no_more(run: Run) -> None:
    many = (MetricSeries(run=run, name=f"n{number}") for number in range(SERIES_AT_MOST))
    MetricSeries.objects.bulk_create(many)
    push(run, [0, 1])

    assert measure(run, 0)
    assert not MetricSample.objects.exists()


def test_a_run_that_cannot_be_measured_does_not_affect_others(run: Run) -> None:
    other = make_run(name="other", kind="outside")
    TokenTally.objects.create(run=run, tokens=2**63 - 1)  # the next token exceeds the limit
    for each_run in (run, other):
        push(each_run, [0, 1], [1, 1])
    train(run)

    assert measure_runs(now=at(0)) == 1
    assert series(other)["reward/mean"] == [0.75]
    assert not MetricSample.objects.filter(series__run=run).exists()


@pytest.fixture
def trainer(run: Run) -> Trainer:
    Run.objects.filter(pk=run.pk).update(trainer_started_at=NOON)
    Trainer.objects.filter(run=run).update(last_seen_at=at(8), registered_at=NOON)
    return Trainer.objects.get(run=run)


def waited(run: Run, since: float, until: float) -> float | None:
    return trainer_wait_share(run.pk, since=at(since), until=at(until))


def test_a_trainer_waits_while_it_holds_no_batch(run: Run, trainer: Trainer) -> None:
    held = {"trainer": trainer, "epoch": trainer.epoch}
    hand_out(run, 1, leased_at=at(1), delivered_at=at(2), settled_at=at(5), **held)
    hand_out(run, 2, leased_at=at(6), delivered_at=at(6), settled_at=at(30), **held)

    assert waited(run, 0, 10) == pytest.approx(1 - 7 / 10)
    assert waited(run, 10, 20) == 0
    assert waited(run, 2, 5) == 0


def test_a_trainer_without_batches_waits_all_the_time(run: Run, trainer: Trainer) -> None:
    assert waited(run, 0, 10) == 1
    # The trainer makes no further requests.
    assert waited(run, 10, 20) is None


def test_measured_items_are_not_read_again(run: Run) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO buffer_trajectorygroup (run_id, state, drop_reason, epoch, received_at,
                size_bytes, sequences, tokens, longest_tokens, score_mean, score_min, score_max,
                score_std, producer, segment)
            SELECT %s, 'queued', '', 0, now(), 10, 2, 6, 3, 0.5, 0, 1, 0.5, '', 0
            FROM generate_series(1, 5000)""",
            [run.pk],
        )
        cursor.execute("ANALYZE buffer_trajectorygroup")
    place = group_flow(run.pk, after=FlowCursor()).last
    push(run, [0, 1])

    parameters = {"run": run.pk, "written_in": str(place.written_in), "item": place.item_id}
    with connection.cursor() as cursor:
        cursor.execute(
            f"EXPLAIN (ANALYZE) {rates.SQL['groups_after']}", parameters | {"limit": 100}
        )
        plan = "\n".join(line for (line,) in cursor.fetchall())

    assert "group_stream" in plan
    assert "Seq Scan" not in plan
    assert group_flow(run.pk, after=place).groups == 1
