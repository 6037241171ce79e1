"""Timings of trainers are derived from the times of their batches."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from buffer.batches.queries.rates import rates_of, trainer_pace
from buffer.items.models import Batch, BatchUse, FragmentChunk
from rollouts.diagnosis.queries.pipelines import pipeline_of
from runs.lifecycle.models import Run, Trainer
from tests.factories import make_settled_run

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
pytestmark = pytest.mark.django_db


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@pytest.fixture
def run() -> Run:
    return make_settled_run()


@pytest.fixture
def trainer(run: Run) -> Trainer:
    return Trainer.objects.create(
        run=run, uuid=7, identity="t", epoch=1, registered_at=NOON, last_seen_at=NOON
    )


def batch(
    trainer: Trainer, leased: float, delivered: float | None, settled: float | None, **fields: Any
) -> Batch:
    run_id = trainer.run_id
    values: dict[str, Any] = {
        "kind": "fragments",
        "ordinal": Batch.objects.filter(run_id=run_id).count() + 1,
        "state": "leased" if settled is None else "confirmed",
        "epoch": 1,
        "policy_step": 3,
        "items": 2,
        "sequences": 2,
        "size_bytes": 10,
        "composition": {},
        "staleness": {"0": 1, "1": 1},
    }
    return Batch.objects.create(
        run_id=run_id,
        trainer=trainer,
        leased_at=at(leased),
        lease_expires_at=at(leased + 100),
        delivered_at=None if delivered is None else at(delivered),
        settled_at=None if settled is None else at(settled),
        **{**values, **fields},
    )


def item(batch: Batch, received: float, *, is_in: bool = True) -> FragmentChunk:
    number = FragmentChunk.objects.count()
    return FragmentChunk.objects.create(
        run_id=batch.run_id,
        state="served" if is_in else "queued",
        batch=batch if is_in else None,
        position=number if is_in else None,
        epoch=1,
        received_at=at(received),
        size_bytes=1,
        slot="s",
        number=number,
        contiguous=False,
        environment="e",
        worker="w",
        version_min=0,
        version_max=0,
        steps=4,
    )


def test_a_run_without_a_trainer_has_no_pace(run: Run) -> None:
    assert trainer_pace(run.pk, now=NOON) is None


def test_a_trainer_waits_from_an_acknowledgement_to_the_next_delivery(trainer: Trainer) -> None:
    batch(trainer, 0, 0, 2)
    batch(trainer, 7, 8, 10)

    pace = trainer_pace(trainer.run_id, now=at(10))

    assert pace
    assert (pace.batches, pace.seconds) == (2, 10)
    assert pace.waiting_share == pytest.approx(0.6)
    assert pace.age_versions == pytest.approx(0.5)


def test_the_wait_of_a_trainer_includes_the_transfer_and_not_the_training(trainer: Trainer) -> None:
    batch(trainer, 0, 0, 5)
    batch(trainer, 6, None, None)
    on_its_way = trainer_pace(trainer.run_id, now=at(10))
    Batch.objects.filter(ordinal=2).update(delivered_at=at(6))
    with_trainer = trainer_pace(trainer.run_id, now=at(10))

    assert on_its_way
    assert with_trainer
    assert on_its_way.waiting_share == pytest.approx(0.5)
    assert with_trainer.waiting_share == pytest.approx(0.1)


def test_only_the_last_minute_counts(trainer: Trainer) -> None:
    batch(trainer, 80, 80, 100)
    batch(trainer, 100, 100, 130)

    pace = trainer_pace(trainer.run_id, now=at(160))
    later = trainer_pace(trainer.run_id, now=at(500))

    assert pace
    assert (pace.seconds, pace.batches) == (60, 1)
    assert pace.waiting_share == pytest.approx(0.5)
    assert later is None


def test_two_cycles_of_a_slow_trainer_count(trainer: Trainer) -> None:
    batch(trainer, 0, 0, 50)
    batch(trainer, 100, 100, 150)

    pace = trainer_pace(trainer.run_id, now=at(199))
    rates = rates_of(trainer.run, now=at(199))

    assert pace
    assert (pace.seconds, pace.batches) == (199, 2)
    assert pace.waiting_share == pytest.approx(99 / 199)
    assert (rates.batches, rates.train_seconds) == (2 / 200, [50, 50])
    assert trainer_pace(trainer.run_id, now=at(351)) is None


@pytest.mark.parametrize("sampler", ["", "uniform"])
def test_the_age_of_items_is_their_wait_for_a_batch(trainer: Trainer, sampler: str) -> None:
    made = batch(trainer, 10, 10, 11, sampler=sampler)
    for position, received in enumerate((2, 6)):
        chunk = item(made, received, is_in=not sampler)
        if sampler:
            BatchUse.objects.create(
                batch=made, item=chunk, position=position, importance_weight=1.0
            )

    pace = trainer_pace(trainer.run_id, now=at(11))

    assert pace
    assert pace.age_seconds == pytest.approx(6.0)


def test_the_pipeline_has_the_waits_of_trainers_and_producers(trainer: Trainer) -> None:
    batch(trainer, 0, 0, 1)
    waiting = pipeline_of(trainer.run, now=at(10))
    Batch.objects.update(settled_at=at(10))
    training = pipeline_of(trainer.run, now=at(10))

    assert waiting.stages[-1].waits == pytest.approx(0.9)
    assert (waiting.age_versions, training.age_versions) == (0.5, 0.5)
    assert training.stages[-1].waits == 0


def test_batches_of_a_window_are_timed_from_the_acknowledgement_before(trainer: Trainer) -> None:
    batch(trainer, 0, 0, 10)
    batch(trainer, 0, 1, 20)
    batch(trainer, 10, 11, 30)
    batch(trainer, 20, 21, None)
    batch(trainer, 30, 31, None)

    rates = rates_of(trainer.run, now=at(34))

    assert rates.train_seconds == [10, 10, 10]
    assert rates.holding_seconds == 4


def test_a_trainer_that_acknowledges_nothing_holds_its_first_batch(trainer: Trainer) -> None:
    batch(trainer, 0, 0, None)
    batch(trainer, 2, 2, None)

    assert rates_of(trainer.run, now=at(40)).holding_seconds == 40
