"""Built-in measurements match the rows, and count each row once."""

from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.db.models import F

from buffer.batches.queries import rates
from buffer.batches.queries.rates import FlowCursor, group_flow, trainer_wait_share
from buffer.batches.services.leases import lease_batch
from buffer.batches.services.settlement import acknowledge_batch
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from buffer.inspect.services import digest_groups
from buffer.items.models import Batch
from rollouts.metrics.models import MeasureCursor, MetricSample, MetricSeries, TokenTally
from rollouts.metrics.queries.measuring import POINTS_AT_MOST
from rollouts.metrics.services.measuring import measure_runs
from rollouts.metrics.services.metrics import SERIES_AT_MOST
from runs.lifecycle.models import PolicyVersion, Run, Trainer
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


def lease_at(run: Run, *seconds: float) -> None:
    """Store batches that were leased at these times, each one train step."""
    first = Run.objects.get(pk=run.pk).served_steps + 1
    for ordinal, second in enumerate(seconds, start=first):
        hand_out(run, ordinal, leased_at=at(second), tokens=100)
    Run.objects.filter(pk=run.pk).update(served_steps=F("served_steps") + len(seconds))


def curve(run: Run, name: str) -> list[tuple[float, int, int, float]]:
    """Return seconds, step, amount and value of each sample of a series."""
    samples = MetricSample.objects.filter(series__name=f"rolldeck/{name}", series__run=run)
    return [
        ((sample.at - NOON).total_seconds(), sample.step, sample.amount, sample.value)
        for sample in samples.order_by("id")
    ]


def test_scores_have_a_point_for_each_train_step(run: Run) -> None:
    push(run, [0, 0])
    measure(run, 0)
    for seconds, score in ((1, 1.0), (2, 3.0), (4, 4.0), (8, 6.0)):
        push(run, [score, score], seconds=seconds)
    lease_at(run, 3, 5, 6)

    measure(run, 10)

    assert curve(run, "reward/mean") == [
        (0, 0, 0, 0.0),
        (3, 0, 90, 2.0),
        (5, 1, 150, 4.0),
        (10, 3, 300, 6.0),
    ]
    assert [value for *_, value in curve(run, "reward/p50")] == [0, 2, 4, 6]
    assert [value for *_, value in curve(run, "length/mean")] == [3, 3, 3, 3]
    assert len(curve(run, "queue/depth")) == 2
    assert MeasureCursor.objects.get(run=run).reward_mean == 6
    # A measurement without new groups repeats no point.
    lease_at(run, 12)
    measure(run, 20)
    assert len(curve(run, "reward/mean")) == 4
    assert MeasureCursor.objects.get(run=run).reward_mean == 6


def test_the_step_of_a_point_is_the_version_that_was_in_force(run: Run) -> None:
    measure(run, 0)
    for step, second in ((7, 2), (8, 5)):
        PolicyVersion.objects.create(
            run=run,
            epoch=1,
            step=step,
            manifest={},
            sha256="",
            size_bytes=1,
            published_at=at(second),
        )
    Run.objects.filter(pk=run.pk).update(epoch=1, policy_step=8)
    for second in (1, 4, 7):
        push(run, [second, second], seconds=second)
    lease_at(run, 3, 6)

    measure(run, 10)

    assert [(second, step) for second, step, *_ in curve(run, "reward/mean")] == [
        (3, 7),
        (6, 8),
        (10, 8),
    ]


def test_many_train_steps_are_thinned_and_no_group_is_lost(run: Run) -> None:
    measure(run, 0)
    lease_at(run, *[0.02 + 0.02 * number for number in range(450)])
    for number in range(450):
        push(run, [number, number], seconds=0.01 + 0.02 * number)

    measure(run, 10)

    found = curve(run, "reward/mean")
    assert len(found) == POINTS_AT_MOST - 1  # no group arrived after the last lease
    assert [value for *_, value in found] == sorted(value for *_, value in found)
    sizes = {round(later[3] - former[3], 2) for former, later in pairwise(found)}
    assert max(sizes) <= 5


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
    assert [(seconds, depth) for seconds, _, _, depth in curve(run, "queue/depth")] == [
        (0, 2),
        (10, 2),
        (610, 2),
        (620, 6),
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

    parameters: dict[str, Any] = {"run": run.pk, "written_in": str(place.written_in)}
    parameters |= {"item": place.item_id, "bounds": []}
    with connection.cursor() as cursor:
        cursor.execute(
            f"EXPLAIN (ANALYZE) {rates.SQL['groups_after']}", parameters | {"limit": 100}
        )
        plan = "\n".join(line for (line,) in cursor.fetchall())

    assert "group_stream" in plan
    assert "Seq Scan on buffer_trajectorygroup" not in plan
    assert group_flow(run.pk, after=place).groups == 1
