"""A run's pipeline is read from its rows: arrivals, leases and waits."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from buffer.items.models import Batch, FragmentChunk, Tally
from rollouts.control.models import Fleet, FleetWorker, WeightsDelivery
from rollouts.diagnosis.models import RunDiagnosis
from rollouts.diagnosis.queries.pipelines import diagnoses, diagnosis_of, facts_of, pipeline_of
from rollouts.diagnosis.rules.flow import PipelineStage
from rollouts.diagnosis.schemas import Pipeline
from rollouts.diagnosis.services import record_diagnoses
from runs.lifecycle.models import PolicyVersion, Run, Trainer
from tests.factories import make_settled_run

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SHARES = {"env_step": 0.7, "infer": 0.2}
pytestmark = pytest.mark.django_db


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def arrive(run: Run, *, count: int, since: float, interval_seconds: float) -> None:
    Tally.objects.create(
        run=run,
        kind="fragments",
        state="queued",
        epoch=0,
        env_id=-1,
        size=1,
        shard=0,
        items=count,
        sequences=count,
        size_bytes=count,
    )
    FragmentChunk.objects.bulk_create(
        FragmentChunk(
            run=run,
            state="queued",
            received_at=at(since + number * interval_seconds),
            size_bytes=1,
            segment=1,
            slot="s",
            number=number,
            contiguous=False,
            environment="e",
            worker="w0@1",
            version_min=0,
            version_max=0,
            steps=4,
        )
        for number in range(count)
    )


def lend(run: Run, *spans: tuple[float, float]) -> None:
    """Lease a batch of eight for each (leased, acknowledged); sending takes 0.5 s."""
    trainer = Trainer.objects.create(
        run=run, uuid=run.pk, identity="t", epoch=1, registered_at=NOON, last_seen_at=NOON
    )
    for ordinal, (leased, settled) in enumerate(spans, start=1):
        Batch.objects.create(
            run=run,
            trainer=trainer,
            kind="fragments",
            ordinal=ordinal,
            state="confirmed",
            epoch=1,
            policy_step=0,
            leased_at=at(leased),
            lease_expires_at=at(leased + 600),
            delivered_at=at(leased + 0.5),
            settled_at=at(settled),
            items=8,
            sequences=8,
            size_bytes=10,
            composition={},
            staleness={},
        )


def work(run: Run, *, workers: int, heartbeat_seconds: float = 0.0, **fields: Any) -> None:
    fleet = Fleet.objects.create(
        run=run,
        incarnation="1-a",
        actor_name="manager",
        observed="running",
        observed_at=at(heartbeat_seconds),
        heard_at=at(heartbeat_seconds),
    )
    for index in range(workers):
        FleetWorker.objects.create(
            fleet=fleet,
            index=index,
            incarnation=f"{index}",
            state="running",
            heartbeat_at=at(heartbeat_seconds),
            env_steps_per_second=100.0,
            to_send=1,
            **{"shares": SHARES} | fields,
        )


def seen(run: Run) -> tuple[Pipeline, dict[str, PipelineStage]]:
    pipeline = pipeline_of(Run.objects.get(pk=run.pk), now=NOON)
    return pipeline, {stage.name: stage for stage in pipeline.stages}


def test_the_bottleneck_of_a_fleet_with_a_waiting_trainer_is_its_slowest_stage() -> None:
    run = make_settled_run(batch_size=8)
    work(run, workers=2)
    arrive(run, count=6, since=-3, interval_seconds=0.5)
    lend(run, (-50, -45.5), (-30, -25.5), (-10, -5.5))

    pipeline, stages = seen(run)

    assert pipeline.diagnosis.stage == "step"
    assert "Stepping environments is the bottleneck: 70 %" in pipeline.diagnosis.summary
    assert (stages["step"].rate, stages["push"].held) == (200.0, 2)
    assert stages["push"].rate == pytest.approx(6 / 60)
    assert stages["queue"].rate == pipeline.handed_out == pytest.approx(24 / 60)
    assert (stages["queue"].held, stages["queue"].seconds) == (6, pytest.approx(6 / 0.4))
    assert stages["batch"].seconds == pytest.approx(0.5)
    assert stages["train"].seconds == pytest.approx(4.0)
    assert stages["train"].waits == pytest.approx(1 - 12 / 49.5)


@pytest.mark.parametrize(
    ("is_stock", "state", "fence", "expiries", "is_named"),
    [
        (False, "leased", 6, 0, True),
        (False, "leased", 2, 0, False),
        (False, "leased", 3, 1, False),  # leased again because the lease expired
        (False, "confirmed", 6, 0, False),
        (True, "leased", 6, 0, False),  # its next request acknowledges
    ],
)
def test_a_trainer_that_fetches_a_batch_without_acknowledging_it_is_named(
    is_stock: bool, state: str, fence: int, expiries: int, is_named: bool
) -> None:
    run = make_settled_run(batch_size=8)
    work(run, workers=2)
    arrive(run, count=6, since=-3, interval_seconds=0.5)
    lend(run, (-50, -45.5), (-20, -1))
    Trainer.objects.update(is_stock=is_stock)
    Batch.objects.filter(ordinal=2).update(state=state, fence=fence, lease_expiries=expiries)

    summary = seen(run)[0].diagnosis.summary

    assert (f"has fetched batch #2 {fence} times without" in summary) is is_named


def test_without_a_delivery_time_a_batch_is_held_since_its_lease() -> None:
    run = make_settled_run(batch_size=8)
    lend(run, (-50, -45.5))
    Batch.objects.update(delivered_at=None)

    _, stages = seen(run)

    assert (stages["batch"].seconds, stages["batch"].share) == (None, None)
    assert stages["train"].seconds == pytest.approx(4.5)


def test_workers_without_heartbeats_are_left_out() -> None:
    run = make_settled_run(batch_size=8)
    work(run, workers=2, heartbeat_seconds=-30)

    pipeline, stages = seen(run)

    assert (pipeline.workers, pipeline.shares) == (0, {})
    assert (stages["step"].rate, stages["step"].share) == (None, None)
    assert pipeline.diagnosis.summary == (
        "No reports from the fleet for 30 s: its state is unknown."
    )


def test_late_weights_of_a_worker_are_named() -> None:
    run = make_settled_run(batch_size=8)
    work(run, workers=2, active_step=1)
    for step, published in ((1, -50), (2, -40), (3, -1)):
        publish(run, step=step, published=published)
    lend(run, (-50, -45.5), (-5, -1))

    pipeline, _ = seen(run)
    FleetWorker.objects.update(active_step=2)
    soon, _ = seen(run)

    assert pipeline.diagnosis.summary == (
        "The slowest worker is 2 versions behind the newest published weights."
    )
    assert pipeline.diagnosis.evidence == [
        "the newest version is 3",
        "a newer version has been available for 40 s",
        "workers should receive a version within 30 s",
    ]
    assert "The slowest worker is" not in soon.diagnosis.summary


def test_a_version_that_was_loaded_late_remains_the_diagnosis_for_a_minute() -> None:
    run = make_settled_run(batch_size=8)
    work(run, workers=2, active_step=3)
    publish(run, step=3, published=-45)
    lend(run, (-50, -45.5), (-5, -1))
    RunDiagnosis.objects.create(
        run=run,
        kind="weights_late",
        since=at(-90),
        causes={"weights_late:infer": at(-90).isoformat()},
    )
    delivery = WeightsDelivery.objects.create(
        fleet=Fleet.objects.get(run=run),
        epoch=run.epoch,
        step=3,
        worker=1,
        announced_at=at(-44),
        active_at=at(-6),
    )

    late, _ = seen(run)
    delivery.active_at = at(-20)
    delivery.save()
    soon, _ = seen(run)

    assert late.diagnosis.summary == "The slowest worker loads new weights in 38 s."
    assert soon.diagnosis.kind != "weights_late"


def publish(run: Run, *, step: int, published: float) -> None:
    Run.objects.filter(pk=run.pk).update(policy_step=step)
    PolicyVersion.objects.create(
        run=run,
        epoch=run.epoch,
        step=step,
        manifest={},
        sha256="0" * 64,
        size_bytes=1,
        published_at=at(published),
    )


def test_batches_have_transfer_and_training_times() -> None:
    run = make_settled_run(batch_size=8)
    lend(run, (-50, -45.5), (-30, -25.5), (-10, -5.5))

    pipeline, _ = seen(run)

    assert pipeline.batches.in_transit
    assert pipeline.batches.with_trainer
    assert (pipeline.batches.in_transit.mean_ms, pipeline.batches.in_transit.count) == (500, 3)
    assert (pipeline.batches.with_trainer.p95_ms, pipeline.batches.with_trainer.count) == (4000, 3)


@pytest.mark.parametrize("situation", ["at work", "silent", "untaken", "paused", "outside"])
def test_every_route_and_page_reads_the_same_diagnosis(situation: str) -> None:
    run = make_settled_run(batch_size=8, kind="outside" if situation == "outside" else "fleet")
    if situation != "outside":
        work(run, workers=2, heartbeat_seconds=-30 if situation == "silent" else 0)
    arrive(run, count=20, since=-30, interval_seconds=1)
    if situation not in {"untaken", "outside"}:
        lend(run, (-50, -45.5), (-10, -5.5))
    if situation == "paused":
        Run.objects.filter(pk=run.pk).update(status="paused")

    page, _ = seen(run)
    live = diagnosis_of(run.pk, now=NOON)
    beside_others = diagnoses([run.pk, 99], now=NOON)

    assert live == page.diagnosis
    assert live.run_status == ("paused" if situation == "paused" else "running")
    assert beside_others == {run.pk: page.diagnosis}


def test_the_pipeline_of_an_outside_run_starts_at_the_server() -> None:
    run = make_settled_run(name="mix", kind="outside", batch_size=8)

    pipeline, stages = seen(run)

    assert list(stages) == ["push", "queue", "batch", "train"]
    assert pipeline.unit == "sequences"


def test_only_items_of_the_last_minute_count() -> None:
    run = make_settled_run(batch_size=8)
    work(run, workers=1)
    arrive(run, count=10, since=-120, interval_seconds=1)
    lend(run, (-100, -70))

    pipeline, _ = seen(run)

    assert (pipeline.arriving, pipeline.handed_out) == (None, None)
    assert pipeline.diagnosis.summary == "No trainer leases the queued batches."


def test_the_queries_of_a_pipeline_do_not_depend_on_its_rows() -> None:
    few, many = make_settled_run(name="few"), make_settled_run(name="many")
    costs = []
    for run, amount in ((few, 1), (many, 40)):
        work(run, workers=amount)
        arrive(run, count=amount, since=-1, interval_seconds=0)
        lend(run, *[(-50 + i, -49.2 + i) for i in range(amount)])
        with CaptureQueriesContext(connection) as queries:
            seen(run)
        costs.append(len(queries))

    assert costs[0] == costs[1] < 22


def test_recorded_kind_keeps_a_diagnosis_near_its_threshold_on_every_page() -> None:
    run = make_settled_run(batch_size=8)
    work(run, workers=2)
    lend(run, (-50, -45.5), (-30, -25.5), (-10, -5.5))
    assert record_diagnoses(now=NOON) == 1
    FleetWorker.objects.update(shares={"env_step": 0.4, "infer": 0.45})

    page, _ = seen(run)
    live = diagnosis_of(run.pk, now=NOON)
    RunDiagnosis.objects.all().delete()
    unrecorded = diagnosis_of(run.pk, now=NOON)

    assert (page.diagnosis.stage, page.diagnosis.since) == ("step", NOON)
    assert live == page.diagnosis
    assert (unrecorded.stage, unrecorded.since) == ("infer", None)


def test_time_of_a_recorded_diagnosis_is_that_of_its_last_change() -> None:
    run = make_settled_run(batch_size=8)
    work(run, workers=1)
    record_diagnoses(now=NOON)
    record_diagnoses(now=at(2))
    first = RunDiagnosis.objects.get()
    Run.objects.update(status="paused")
    record_diagnoses(now=at(3))
    second = RunDiagnosis.objects.get()
    Run.objects.update(status="completed")

    assert first.since == NOON
    assert (second.kind, second.since) == ("not_running", at(3))
    assert record_diagnoses(now=at(4)) == 0


def test_a_run_that_cannot_be_diagnosed_does_not_prevent_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken, intact = make_settled_run(name="broken"), make_settled_run(name="intact")

    def facts(run: Run, **kwargs: Any) -> Any:
        if run.pk == broken.pk:
            raise ValueError
        return facts_of(run, **kwargs)

    monkeypatch.setattr("rollouts.diagnosis.queries.pipelines.facts_of", facts)

    assert record_diagnoses(now=NOON) == 1
    assert list(RunDiagnosis.objects.values_list("run__name", flat=True)) == [intact.name]


@pytest.mark.parametrize(
    ("served", "stale", "share"), [(30, 10, 0.25), (30, 0, 0.0), (5, 10, None), (0, 20, 1.0)]
)
def test_share_of_stale_data_is_that_of_the_newest_items_that_left_the_queue(
    served: int, stale: int, share: float | None
) -> None:
    run = make_settled_run(batch_size=8)
    arrive(run, count=served + stale + 40, since=-100, interval_seconds=0)
    chunks = FragmentChunk.objects.filter(run=run)
    # Items that still wait, and those before the window, do not count.
    chunks.filter(number__lt=20).update(
        state="dropped", drop_reason="stale_version", received_at=at(-400)
    )
    lend(run, (-50, -45.5))
    chunks.filter(number__gte=40, number__lt=40 + served).update(
        state="served", batch=Batch.objects.get(), position=F("number")
    )
    # An item that is stale on arrival is not stored.
    chunks.filter(number__gte=40 + served).update(
        state="dropped", drop_reason="stale_version", segment=None
    )

    assert facts_of(run, now=NOON).stale_share == share
