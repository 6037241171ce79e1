"""A chart point leads to the weights and batches of its time, packed or not."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from buffer.items.models import Batch
from rollouts.metrics.rules import CHUNK_SAMPLES
from rollouts.metrics.services.metrics import SAMPLES_KEPT, Figure, pack_metrics, store_figures
from runs.lifecycle.models import PolicyVersion, Run, Trainer
from tests.factories import NOON, bearer, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    return make_run(name="pole")


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def moment(run: Run, *, status: int = 200, **query: Any) -> Any:
    answer = APIClient().get(
        f"/api/v1/runs/{run.name}/metrics/context",
        {"name": "loss", **query},
        headers=bearer("read", run=run),
    )
    assert answer.status_code == status, answer.content
    return answer.json()


def measure(run: Run, *, steps: int, seconds_each: float = 1.0) -> None:
    """Store one value per step from noon on; values after the hundredth are simultaneous."""

    def store(*steps: int) -> None:
        figures = [Figure("loss", step, 0.5) for step in steps]
        store_figures(run_id=run.pk, figures=figures, now=after(steps[-1] * seconds_each))

    for step in range(min(steps, 100)):
        store(step)
    if steps > 100:
        store(*range(100, steps))


def hand_out(run: Run, *, count: int, interval_seconds: float, holds: float = 1.0) -> None:
    """Lease a batch every `interval_seconds` seconds, the first at noon."""
    trainer = Trainer.objects.create(
        run=run, uuid=7, identity="token:t", name="node-3", registered_at=NOON, last_seen_at=NOON
    )
    Batch.objects.bulk_create(
        Batch(
            run=run,
            trainer=trainer,
            kind="fragments",
            ordinal=place + 1,
            state="confirmed",
            epoch=1,
            policy_step=place,
            leased_at=after(place * interval_seconds),
            lease_expires_at=after(place * interval_seconds + 600),
            settled_at=after(place * interval_seconds + holds),
            items=2,
            sequences=2,
            size_bytes=10,
            composition={},
            staleness={},
        )
        for place in range(count)
    )


def publish(run: Run, *steps: int) -> None:
    for step in steps:
        PolicyVersion.objects.create(
            run=run,
            epoch=1,
            step=step,
            manifest={},
            sha256="0" * 64,
            size_bytes=1,
            published_at=after(step * 10),
        )


def test_a_step_has_the_newest_weights_and_batch_of_its_time(run: Run) -> None:
    measure(run, steps=40)
    hand_out(run, count=6, interval_seconds=10)
    publish(run, 0, 1, 2, 3)

    moment_shown = moment(run, **{"from": 25, "to": 25})

    assert (
        moment_shown["began_at"]
        == moment_shown["ended_at"]
        == after(25).isoformat().replace("+00:00", "Z")
    )
    assert (moment_shown["version"]["epoch"], moment_shown["version"]["step"]) == (1, 2)
    assert [batch["ordinal"] for batch in moment_shown["batches"]] == [3]
    assert (moment_shown["handed_out"], moment_shown["batches"][0]["trainer"]) == (0, "node-3")
    assert moment_shown["batches"][0]["with_trainer"] is False


@pytest.mark.parametrize(
    ("seconds", "ordinals"),
    [
        # Batches are leased at 0, 10, … 50 seconds; a point is measured before or at a lease.
        pytest.param([13], [3], id="measured before the batch was formed"),
        pytest.param([20], [3], id="measured when the batch was formed"),
        pytest.param([13, 20], [3], id="both"),
        pytest.param([13, 33], [5, 4, 3], id="several batches"),
        pytest.param([57], [], id="the batch is not formed yet"),
    ],
)
def test_a_metric_of_data_leads_to_the_batches_that_took_the_data(
    run: Run, seconds: list[float], ordinals: list[int]
) -> None:
    for at in seconds:
        figure = Figure("rolldeck/reward/mean", 2, 0.5)
        store_figures(run_id=run.pk, figures=[figure], now=after(at))
    hand_out(run, count=6, interval_seconds=10)

    shown = moment(run, name="rolldeck/reward/mean", **{"from": 2, "to": 2})

    assert [batch["ordinal"] for batch in shown["batches"]] == ordinals
    assert shown["handed_out"] == len(ordinals)


def test_a_batch_held_by_a_trainer_at_that_time_is_marked(run: Run) -> None:
    measure(run, steps=40)
    hand_out(run, count=6, interval_seconds=10, holds=9)

    moment_shown = moment(run, **{"from": 15, "to": 25})

    assert [(batch["ordinal"], batch["with_trainer"]) for batch in moment_shown["batches"]] == [
        (3, True),
        (2, True),
    ]
    assert moment_shown["handed_out"] == 1
    assert moment_shown["version"] is None


@pytest.mark.parametrize(
    "query",
    [
        {"x": "time", "from": NOON.timestamp() + 24.5, "to": NOON.timestamp() + 25.5},
        {"x": "step", "from": 25, "to": 25},
    ],
    ids=["time", "step"],
)
def test_packed_samples_have_their_moments_too(run: Run, query: dict[str, Any]) -> None:
    measure(run, steps=CHUNK_SAMPLES + SAMPLES_KEPT)
    hand_out(run, count=6, interval_seconds=10)
    before = moment(run, **query)
    assert pack_metrics(now=NOON + timedelta(days=2)) == 1

    assert moment(run, **query) == before
    assert [batch["ordinal"] for batch in before["batches"]] == [3]


def test_a_step_without_a_sample_is_not_found(run: Run) -> None:
    measure(run, steps=3)

    assert moment(run, status=404, **{"from": 7, "to": 9})["code"] == "not_found"
    assert moment(run, status=404, name="lost")["code"] == "not_found"


@pytest.mark.parametrize("query", [{"x": "moon"}, {"from": "x"}, {"from": 3, "to": 2}])
def test_an_invalid_range_is_refused(run: Run, query: dict[str, Any]) -> None:
    assert moment(run, status=400, **query)["code"] == "invalid"


def test_a_long_run_needs_few_queries_and_shows_few_batches(run: Run) -> None:
    measure(run, steps=30, seconds_each=100)
    hand_out(run, count=2000, interval_seconds=1)

    with CaptureQueriesContext(connection) as queries:
        moment_shown = moment(run, **{"from": 5, "to": 15})

    assert (moment_shown["handed_out"], len(moment_shown["batches"])) == (1000, 8)
    assert next(batch["ordinal"] for batch in moment_shown["batches"]) == 1501
    assert len(queries) < 50
