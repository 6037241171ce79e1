"""Alerts about fleets and lessons last until their condition ends."""

from datetime import datetime

import pytest

from rollouts.control.models import FleetWorker, WorkerAttempt
from rollouts.curriculum.models import Evaluation, Lesson
from runs.alerts.models import Alert
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunVerb
from tests.alert_evaluation import evaluate_alerts
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.report_factories import (
    accept,
    change_status,
    fleet,
    later,
    report,
    rolling,
    worker,
)
from tests.lesson_factories import Class, lesson

pytestmark = pytest.mark.django_db


def watched(at: datetime) -> dict[str, str]:
    evaluate_alerts(now=at)
    return dict(Alert.objects.filter(cleared_at=None).values_list("kind", "message"))


def test_a_silent_fleet_raises_an_alert_until_it_reports() -> None:
    run = rolling(FakeCluster())
    assert watched(later(29)) == {}
    assert watched(later(31)) == {
        "fleet_silent": "the fleet of pole has not reported for more than 30 s"
    }

    accept(run, report(run, worker(env_steps=20), sequence=1), now=later(32))
    assert watched(later(33)) == {}


def test_a_fleet_whose_run_has_ended_may_be_silent() -> None:
    run = rolling(FakeCluster())
    change_status(run, RunVerb.KILL)

    assert watched(later(600)) == {}


def test_failed_workers_are_named_and_restarting_ones_have_a_minute() -> None:
    run = rolling(FakeCluster())
    workers = [worker(0), worker(1, state="failed"), worker(2, state="respawning")]
    accept(run, report(run, *workers, sequence=1), now=later(1))
    WorkerAttempt.objects.create(
        fleet=fleet(run), worker=2, incarnation="z", started_at=later(0), ended_at=later(1)
    )
    assert watched(later(2)) == {"workers_down": "one worker of pole is down: worker 1 has failed"}

    accept(run, report(run, *workers, sequence=2), now=later(62))
    message = "2 workers of pole are down: worker 1 has failed, worker 2 does not restart"
    assert watched(later(63)) == {"workers_down": message}
    assert Alert.objects.get().times_seen == 1

    accept(run, report(run, worker(0), worker(1), worker(2), sequence=3), now=later(64))
    assert FleetWorker.objects.filter(state="running").count() == 3
    assert watched(later(65)) == {}


def evaluate(room: Class, successes: list[int]) -> None:
    """Complete further evaluations of `sums` with 32 problems, one per round."""
    done = Evaluation.objects.filter(run=room.run, lesson="sums").count()
    for round_number, count in enumerate(successes, start=done):
        Evaluation.objects.create(
            run=room.run,
            lesson="sums",
            position=0,
            round=round_number,
            epoch=1,
            due_step=0,
            state="done",
            created_at=later(round_number),
            finished_at=later(round_number),
            figures={"successes": count, "problems": 32},
        )


def test_a_lesson_that_does_not_improve_raises_an_alert_until_it_does() -> None:
    room = Class({"sums": lesson(), "others": lesson()})
    Run.objects.filter(pk=room.run.pk).update(status_changed_at=later(0))
    room.task()
    Evaluation.objects.filter(run=room.run).delete()
    evaluate(room, [8, 9, 8, 9, 8, 8, 9])
    assert watched(later(10)) == {}

    evaluate(room, [8])
    message = "lesson sums of words did not improve in its last 8 evaluations"
    assert watched(later(10)) == {"lesson_stalled": message}
    assert Alert.objects.get().subject == "sums"

    evaluate(room, [16, 20, 24])
    assert watched(later(12)) == {}


def test_only_evaluations_since_a_lesson_became_active_count() -> None:
    room = Class({"sums": lesson()})
    Run.objects.filter(pk=room.run.pk).update(status_changed_at=later(0))
    room.task()
    Evaluation.objects.filter(run=room.run).delete()
    evaluate(room, [8] * 10)
    assert [*watched(later(10))] == ["lesson_stalled"]

    Lesson.objects.filter(run=room.run).update(changed_at=later(5))
    assert watched(later(10)) == {}
    Lesson.objects.filter(run=room.run).update(changed_at=None, status="graduated")
    assert watched(later(10)) == {}


def test_a_lesson_that_got_worse_raises_an_alert_until_it_is_better() -> None:
    room = Class({"sums": lesson()})
    Run.objects.filter(pk=room.run.pk).update(status_changed_at=later(0))
    room.task()
    Lesson.objects.filter(run=room.run, name="sums").update(has_regressed=True)
    assert watched(later(1)) == {
        "lesson_regressed": "lesson sums of words is worse than at graduation"
    }
    assert Alert.objects.get().subject == "sums"

    Lesson.objects.filter(run=room.run).update(has_regressed=False)
    assert watched(later(2)) == {}
