"""Built-in measurements of fleets, and the amount of processed data as a chart axis."""

from datetime import datetime
from uuid import uuid4

import pytest
from django.db import transaction

from buffer.items.models import Batch
from rolldeck.fleet_wire import InfoDrops, InfoSum, WeightsTransfers
from rolldeck.wire import InfoWindow
from rollouts.control.models import EpisodeWindow
from rollouts.metrics.models import MetricSample, TokenTally
from rollouts.metrics.services.metrics import advance_amount
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.search.queries.lists import run_activity
from tests.factories import NOON, make_run
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts import report_factories
from tests.integration.rollouts.metrics.measured_series import at, last, measure

# One transaction for a whole test, with visible groups: no other test delays them.
pytestmark = pytest.mark.django_db


def test_a_fleet_is_measured_by_its_episodes_and_env_steps() -> None:
    run = report_factories.rolling(FakeCluster())
    returns = [10.0, 20.0, 30.0, 40.0, 50.0]
    windows = [report_factories.window(*returns), report_factories.window(900.0, mode="eval")]
    shares = {"waiting_room": 0.25, "env_step": 0.5}
    report_factories.accept(
        run, report_factories.report(run, report_factories.worker(env_steps=10), sequence=1)
    )
    measure(run, 0)
    busy = report_factories.worker(env_steps=510, shares=shares)
    report_factories.accept(run, report_factories.report(run, busy, sequence=2, episodes=windows))

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


def test_transfers_of_weights_are_measured_by_version() -> None:
    run = report_factories.rolling(FakeCluster())

    def report(sequence: int, received: int, seconds: float, size: int) -> None:
        transfers = WeightsTransfers(received=received, seconds=seconds, received_bytes=size)
        busy = report_factories.worker(env_steps=100 * sequence, transfers=transfers)
        report_factories.accept(run, report_factories.report(run, busy, sequence=sequence))

    report(1, received=1, seconds=2.0, size=1_000)
    measure(run, 0)
    report(2, received=3, seconds=3.0, size=3_000)
    measure(run, 10)

    values = last(run)
    assert values["weights/transfer_seconds"] == 0.5
    assert values["weights/transfer_bytes_per_second"] == 2_000
    # A worker that starts again counts from 0.
    report(3, received=1, seconds=9.0, size=1_000)
    measure(run, 20)
    report(4, received=1, seconds=9.0, size=1_000)
    measure(run, 30)
    samples = MetricSample.objects.filter(run=run, series__name="rolldeck/weights/transfer_seconds")
    assert list(samples.order_by("pk").values_list("value", flat=True)) == [2.0, 0.5]


def test_the_return_is_that_of_the_last_twenty_episodes_at_each_train_step() -> None:
    run = report_factories.rolling(FakeCluster())
    busy = report_factories.worker(env_steps=10)
    report_factories.accept(run, report_factories.report(run, busy, sequence=1))
    measure(run, 0)
    for sequence, seconds, returns in ((2, 1, [0.0] * 20), (3, 4, [20.0] * 10), (4, 5, [20.0] * 4)):
        busy = report_factories.worker(env_steps=100 * sequence)
        windows = [report_factories.window(*returns)]
        given = report_factories.report(run, busy, sequence=sequence, episodes=windows)
        assert report_factories.accept(run, given, now=at(seconds))
    for ordinal, second in ((1, 2), (2, 6)):
        hand_out(run, ordinal, 1, leased_at=at(second))
    Run.objects.filter(pk=run.pk).update(served_steps=2)

    measure(run, 10)

    points = MetricSample.objects.filter(series__name="rolldeck/reward/mean").order_by("id")
    assert list(points.values_list("at", "step", "value")) == [(at(2), 0, 0.0), (at(6), 1, 14.0)]
    newest = EpisodeWindow.objects.filter(run=run).latest("id")
    assert newest.recent_return_mean == 14.0
    assert run_activity([run.pk])[run.pk].return_mean == 14.0


def test_evaluations_are_series_at_their_versions() -> None:
    run = report_factories.rolling(FakeCluster())
    report_factories.accept(
        run, report_factories.report(run, report_factories.worker(env_steps=10), sequence=1)
    )
    measure(run, 0)
    first = [
        report_factories.window(8.0, mode="eval", policy_step=5),
        report_factories.window(2.0, 4.0),
    ]
    second = [report_factories.window(9.0, 9.0, 12.0, mode="eval", policy_step=10)]
    for sequence, windows in ((2, first), (3, second)):
        worker = report_factories.worker(env_steps=10 * sequence)
        report_factories.accept(
            run, report_factories.report(run, worker, sequence=sequence, episodes=windows)
        )
    measure(run, 10)
    third = [
        report_factories.window(20.0, mode="eval", policy_step=15, lengths=[4], length_mean=4.0),
        report_factories.window(8.0, 8.0, mode="eval", policy_step=15, length_mean=10.0),
    ]
    worker = report_factories.worker(env_steps=40)
    report_factories.accept(run, report_factories.report(run, worker, sequence=4, episodes=third))
    measure(run, 20)
    report_factories.accept(
        run, report_factories.report(run, report_factories.worker(env_steps=50), sequence=5)
    )
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


def test_info_values_become_series_and_dropped_ones_an_event() -> None:
    run = report_factories.rolling(FakeCluster())
    measure(run, 0)
    drops = InfoDrops(problem="out_of_range", count=3, example="speed")
    for sequence, total in enumerate((4.0, 8.0), start=1):
        speed = InfoSum(name="speed", scope="step", count=4, total=total)
        won = InfoSum(name="won", scope="episode", count=2, total=1.0)
        info = InfoWindow(sums=[speed, won], dropped=[drops])
        busy = report_factories.worker(env_steps=100 * sequence)
        given = report_factories.report(run, busy, sequence=sequence, info=info)
        assert report_factories.accept(run, given)
        assert not report_factories.accept(run, given)

    assert measure(run, 10)

    found = last(run)
    assert (found["info/speed/step_mean"], found["info/speed/step_count"]) == (1.5, 8)
    assert (found["info/won/mean"], found["info/won/count"]) == (0.5, 4)
    assert found["info_dropped/out_of_range"] == 6
    [event] = RunEvent.objects.filter(run=run, kind="info_values_dropped")
    assert event.details == {"problem": "out_of_range", "example": "speed"}

    report_factories.accept(
        run, report_factories.report(run, report_factories.worker(env_steps=300), sequence=3)
    )
    assert measure(run, 20)
    assert not [name for name in last(run) if name.startswith("info")]


def test_a_stored_key_without_numbers_becomes_a_series_and_one_event() -> None:
    run = report_factories.rolling(FakeCluster())
    measure(run, 0)
    missing = InfoWindow(sums=[InfoSum(name="lable", scope="missing", count=800, total=800.0)])
    for sequence in (1, 2, 3):
        busy = report_factories.worker(env_steps=800 * sequence)
        episodes = [report_factories.window(8.0)]
        given = report_factories.report(
            run, busy, sequence=sequence, info=missing, episodes=episodes
        )
        assert report_factories.accept(run, given)

    assert measure(run, 10)

    found = last(run)
    assert (found["info/lable/missing_share"], found["info/lable/steps"]) == (1, 2400)
    [event] = RunEvent.objects.filter(run=run, kind="info_key_absent")
    assert (event.level, event.details) == ("warning", {"key": "lable", "env_steps": 1600})


def hand_out(run: Run, ordinal: int, tokens: int, *, leased_at: datetime = NOON) -> Batch:
    return Batch.objects.create(
        id=uuid4(),
        run=run,
        kind="groups",
        ordinal=ordinal,
        state="confirmed",
        epoch=1,
        policy_step=0,
        leased_at=leased_at,
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
