"""Built-in measurements match the rows, and count each row once."""

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction

from buffer.batches.queries import flows
from buffer.batches.queries.flows import FlowCursor, group_flow
from buffer.batches.queries.trainer_pace import trainer_wait_share
from buffer.batches.services.leases import acknowledge_batch, lease_batch
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.groups import accept_groups
from buffer.inspect.services.digests import digest_groups
from buffer.items.models.items import Batch
from rolldeck.fleet_wire import InfoDrops, InfoSum
from rolldeck.wire import InfoWindow
from rollouts.metrics.models.metrics import MeasureCursor, MetricSample, MetricSeries, TokenTally
from rollouts.metrics.services.measuring import measure_run, measure_runs
from rollouts.metrics.services.metrics import SERIES_AT_MOST
from runs.events.models import RunEvent
from runs.lifecycle.models.runs import Run, Trainer
from runs.lifecycle.rules.lifecycle import RunStatus
from tests.buffer_factories import body, group
from tests.factories import NOON, make_outside_run, make_run
from tests.fake_cluster import FakeCluster
from tests.integration.buffer.ingest.test_queue_under_load import in_threads
from tests.integration.rollouts import cast

# One transaction for a whole test, with visible groups: no other test delays them.
pytestmark = pytest.mark.django_db
really_commits = pytest.mark.django_db(transaction=True)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


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


def measure(run: Run, seconds: float) -> bool:
    return measure_run(run_id=run.pk, now=at(seconds))


def series(run: Run) -> dict[str, list[float]]:
    """Return the values of each series in order, without the platform's prefix."""
    values: dict[str, list[float]] = {}
    rows = MetricSample.objects.filter(run=run).order_by("id")
    for name, value in rows.values_list("series__name", "value"):
        assert name.startswith("rolldeck/")
        values.setdefault(name.removeprefix("rolldeck/"), []).append(value)
    return values


def last(run: Run) -> dict[str, float]:
    """Return the values of the newest measurement."""
    newest = MetricSample.objects.filter(run=run).latest("id").at
    rows = MetricSample.objects.filter(run=run, at=newest)
    return {
        name.removeprefix("rolldeck/"): value
        for name, value in rows.values_list("series__name", "value")
    }


def test_the_first_measurement_says_what_is_and_no_rate(run: Run) -> None:
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


def test_staleness_is_that_of_what_was_handed_out_meanwhile(run: Run) -> None:
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


def test_a_rest_is_written_down_once_and_ends_without_a_slope(run: Run) -> None:
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
def test_who_comes_second_measures_nothing(run: Run) -> None:
    push(run, [0, 1])
    done: list[bool] = []

    in_threads(*[lambda: done.append(measure(run, 0))] * 4)

    assert sorted(done) == [False, False, False, True]
    assert series(run)["queue/depth"] == [2]
    push(run, [0, 1])
    assert not measure(run, 5)
    assert measure(run, 10)


def test_a_measurement_that_dies_is_taken_again(run: Run) -> None:
    push(run, [0, 1])
    with transaction.atomic():
        assert measure(run, 0)
        transaction.set_rollback(True)
    assert not MetricSample.objects.exists()

    push(run, [1, 1])
    assert measure(run, 1)
    assert series(run)["reward/mean"] == [0.75]


@really_commits
def test_groups_are_counted_once_however_long_a_push_before_them_takes(run: Run) -> None:
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


def test_groups_dropped_for_zero_variance_count_though_their_bytes_were_not_kept(run: Run) -> None:
    run.drop_zero_variance = True
    push(run, [0, 1], [1, 1], [1, 1], [1, 1])

    measure(run, 0)

    assert last(run)["zero_variance_share"] == 0.75
    assert last(run)["reward/mean"] == 0.5


@really_commits
def test_what_was_cut_is_known_when_it_is_digested(run: Run) -> None:
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


def test_a_run_that_has_ended_is_measured_once_more_and_no_more(run: Run) -> None:
    push(run, [0, 1])
    measure(run, 0)
    push(run, [0, 1])
    ended = {"status": RunStatus.STOPPED, "status_changed_at": at(5)}
    Run.objects.filter(pk=run.pk).update(**ended)

    assert measure_runs(now=at(10)) == 1
    assert measure_runs(now=at(20)) == 0
    assert series(run)["queue/depth"] == [2, 4]


def test_runs_that_never_began_are_not_measured() -> None:
    make_run(name="draft", kind="outside", status=RunStatus.DRAFT)
    make_run(name="idle", kind="outside")
    old = make_run(name="old", kind="outside", status=RunStatus.COMPLETED)
    push(Run.objects.get(name="idle"), [0, 1])
    hand_out(old, 1)
    Run.objects.filter(pk=old.pk).update(served_steps=1)

    assert measure_runs(now=NOON) == 1
    assert MeasureCursor.objects.get().run.name == "idle"


def test_a_run_with_all_the_names_it_may_have_is_left_as_it_is(run: Run) -> None:
    many = (MetricSeries(run=run, name=f"n{number}") for number in range(SERIES_AT_MOST))
    MetricSeries.objects.bulk_create(many)
    push(run, [0, 1])

    assert measure(run, 0)
    assert not MetricSample.objects.exists()


def test_a_run_that_cannot_be_measured_leaves_the_others_alone(run: Run) -> None:
    other = make_run(name="other", kind="outside")
    TokenTally.objects.create(run=run, tokens=2**63 - 1)  # the next token exceeds the limit
    for each_run in (run, other):
        push(each_run, [0, 1], [1, 1])
    train(run)

    assert measure_runs(now=at(0)) == 1
    assert series(other)["reward/mean"] == [0.75]
    assert not MetricSample.objects.filter(series__run=run).exists()


def test_a_fleet_is_measured_by_its_episodes_and_env_steps() -> None:
    run = cast.rolling(FakeCluster())
    returns = [10.0, 20.0, 30.0, 40.0, 50.0]
    windows = [cast.window(*returns), cast.window(900.0, mode="eval")]
    shares = {"waiting_room": 0.25, "env_step": 0.5}
    cast.accept(run, cast.report(run, cast.worker(env_steps=10), sequence=1))
    measure(run, 0)
    busy = cast.worker(env_steps=510, shares=shares)
    cast.accept(run, cast.report(run, busy, sequence=2, episodes=windows))

    assert measure(run, 10)

    last_values = last(run)
    assert last_values["reward/mean"] == 30
    assert (last_values["reward/p10"], last_values["reward/p50"], last_values["reward/p90"]) == (
        14,
        30,
        46,
    )
    assert (last_values["length/mean"], last_values["length/max"]) == (30, 50)
    assert last_values["env_steps_per_second"] == 50
    assert last_values["fleet/waiting_share"] == 0.25
    assert last_values["truncated_share"] == 0
    assert "zero_variance_share" not in last_values
    assert set(MetricSample.objects.filter(run=run, at=at(10)).values_list("amount")) == {(510,)}


def test_evaluations_are_series_at_their_versions() -> None:
    run = cast.rolling(FakeCluster())
    cast.accept(run, cast.report(run, cast.worker(env_steps=10), sequence=1))
    measure(run, 0)
    first = [cast.window(8.0, mode="eval", policy_step=5), cast.window(2.0, 4.0)]
    second = [cast.window(9.0, 9.0, 12.0, mode="eval", policy_step=10)]
    for sequence, windows in ((2, first), (3, second)):
        worker = cast.worker(env_steps=10 * sequence)
        cast.accept(run, cast.report(run, worker, sequence=sequence, episodes=windows))
    measure(run, 10)
    third = [
        cast.window(20.0, mode="eval", policy_step=15, lengths=[4], length_mean=4.0),
        cast.window(8.0, 8.0, mode="eval", policy_step=15, length_mean=10.0),
    ]
    worker = cast.worker(env_steps=40)
    cast.accept(run, cast.report(run, worker, sequence=4, episodes=third))
    measure(run, 20)
    cast.accept(run, cast.report(run, cast.worker(env_steps=50), sequence=5))
    measure(run, 30)

    samples = MetricSample.objects.filter(run=run).order_by("id")
    assert list(
        samples.filter(series__name="eval/episode_return").values_list("step", "value")
    ) == [(5, 8.0), (10, 10.0), (15, 12.0)]
    assert list(
        samples.filter(series__name="eval/episode_length").values_list("step", "value")
    ) == [(5, 8.0), (10, 10.0), (15, 8.0)]
    rewards = samples.filter(series__name="rolldeck/reward/mean")
    assert list(rewards.values_list("value", flat=True)) == [3.0]


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


def test_a_trainer_that_asks_in_vain_waits_all_the_time(run: Run, trainer: Trainer) -> None:
    assert waited(run, 0, 10) == 1
    # The trainer makes no further requests.
    assert waited(run, 10, 20) is None


def test_what_lies_behind_is_not_read_again(run: Run) -> None:
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
        cursor.execute(f"EXPLAIN (ANALYZE) {flows._GROUPS}", parameters | {"limit": 100})
        plan = "\n".join(line for (line,) in cursor.fetchall())

    assert "group_stream" in plan
    assert "Seq Scan" not in plan
    assert group_flow(run.pk, after=place).groups == 1


def test_numbers_of_info_become_series_and_drops_an_event() -> None:
    run = cast.rolling(FakeCluster())
    measure(run, 0)
    drops = InfoDrops(problem="out_of_range", count=3, example="speed")
    for sequence, total in enumerate((4.0, 8.0), start=1):
        speed = InfoSum(name="speed", scope="step", count=4, total=total)
        won = InfoSum(name="won", scope="episode", count=2, total=1.0)
        info = InfoWindow(sums=[speed, won], dropped=[drops])
        busy = cast.worker(env_steps=100 * sequence)
        given = cast.report(run, busy, sequence=sequence, info=info)
        assert cast.accept(run, given)
        assert not cast.accept(run, given)

    assert measure(run, 10)

    found = last(run)
    assert (found["info/speed/step_mean"], found["info/speed/step_count"]) == (1.5, 8)
    assert (found["info/won/mean"], found["info/won/count"]) == (0.5, 4)
    assert found["info_dropped/out_of_range"] == 6
    [event] = RunEvent.objects.filter(run=run, kind="info_values_dropped")
    assert event.details == {"problem": "out_of_range", "example": "speed"}

    cast.accept(run, cast.report(run, cast.worker(env_steps=300), sequence=3))
    assert measure(run, 20)
    assert not [name for name in last(run) if name.startswith("info")]
