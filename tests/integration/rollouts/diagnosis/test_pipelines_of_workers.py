"""The diagnosis of a run counts crashes, slow and blocked workers."""

import pytest

from rollouts.control.models import FleetWorker
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from tests.factories import make_settled_run
from tests.integration.rollouts.diagnosis.test_pipelines import at, lend, seen, work

pytestmark = pytest.mark.django_db


def crash(run: Run, *, at_seconds: float, message: str) -> None:
    RunEvent.objects.create(
        run=run,
        at=at(at_seconds),
        kind="worker_respawned",
        level="warning",
        actor="manager",
        message=message,
    )


def test_crashes_of_the_last_five_minutes_are_counted_since_the_start() -> None:
    run = make_settled_run(batch_size=8)
    work(run, workers=2)
    lend(run, (-50, -45.5))
    for seconds in (-400, -200, -100, -20):
        crash(run, at_seconds=seconds, message=f"Worker 0 is lost: crash at {seconds}")

    counted, _ = seen(run)
    Run.objects.update(started_at=at(-150))
    restarted, _ = seen(run)

    assert counted.diagnosis.summary == "Workers crashed 3 times in 5 min."
    assert counted.diagnosis.evidence[0] == "Worker 0 is lost: crash at -20"
    assert restarted.diagnosis.kind != "workers_down"


def test_slowest_of_several_workers_is_compared_with_the_median_of_the_others() -> None:
    run = make_settled_run(batch_size=8)
    work(run, workers=3)
    lend(run, (-50, -45.5), (-30, -25.5), (-10, -5.5))
    FleetWorker.objects.filter(index=1).update(env_steps_per_second=20.0)

    pipeline, _ = seen(run)

    assert pipeline.diagnosis.summary == (
        "Worker 1 is slow: 20 env steps per second, the other workers make 100."
    )


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("weights: PUT /v1/weights/1/0: Connection refused", "workers_down"),
        ("waiting for room in the buffer", "producers_slow"),
    ],
)
def test_reason_of_a_running_worker_blocks_it_unless_it_waits(reason: str, kind: str) -> None:
    run = make_settled_run(batch_size=8)
    work(run, workers=2)
    lend(run, (-50, -45.5), (-30, -25.5), (-10, -5.5))
    FleetWorker.objects.filter(index=1).update(reason=reason)

    pipeline, _ = seen(run)

    assert pipeline.diagnosis.kind == kind
