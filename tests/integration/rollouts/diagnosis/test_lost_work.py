"""The diagnosis of a run counts lost env slots, equal rewards, idle environments and crashes."""

from typing import Any

import pytest

from rollouts.control.models import EnvSlot, FleetWorker
from rollouts.curriculum.models import Lesson
from rollouts.lessons.rules.lessons import LessonStatus
from runs.events.models import RunEvent
from runs.lifecycle.models import Environment, Run, RunKind, Trainer
from tests.factories import make_settled_run
from tests.integration.rollouts.diagnosis.test_pipelines import at, lend, seen, work

pytestmark = pytest.mark.django_db


def lose(run: Run, kind: str, message: str, *, at_seconds: float, **details: Any) -> None:
    RunEvent.objects.create(
        run=run, at=at(at_seconds), kind=kind, actor="fleet", message=message, details=details
    )


def test_lost_env_slots_of_the_last_two_minutes_are_counted_by_cause() -> None:
    run = make_settled_run(batch_size=8)
    work(run, workers=1)
    EnvSlot.objects.bulk_create(
        EnvSlot(worker=FleetWorker.objects.get(), slot=slot, state="failed") for slot in range(8)
    )
    hang = "env process 64 did not answer for 10 s; restarting: 2 slots"
    lose(run, "slot_restarted", hang, at_seconds=-200, slots=[4, 5])
    lose(run, "slot_restarted", hang, at_seconds=-60, slots=[4, 5])
    error = "Slot 3: given up after an error: KeyError: 'goal'"
    lose(run, "slot_failed", error, at_seconds=-20, slot=3, error="Traceback")

    diagnosis = seen(run)[0].diagnosis

    assert (diagnosis.kind, diagnosis.summary) == (
        "environments_fail",
        "Environments fail: env slots were lost 3 times in 2 min; given up: 1.",
    )
    assert diagnosis.evidence[:2] == [
        "gymnasium:CartPole-v1: KeyError: 'goal' (1 time)",
        "gymnasium:CartPole-v1: its process did not answer for 10 s (2 times)",
    ]


@pytest.mark.parametrize(
    ("settings", "is_named"),
    [
        ({}, True),
        ({"keeps_zero_variance": True}, False),
        ({"keeps_zero_variance": True, "drop_zero_variance": True}, True),
    ],
)
def test_groups_of_equal_rewards_are_named_if_the_run_drops_them(
    settings: dict[str, bool], is_named: bool
) -> None:
    language = {"keeps_zero_variance": settings.get("keeps_zero_variance", False)}
    run = make_settled_run(batch_size=16)
    run.kind, run.config["language"] = RunKind.LANGUAGE, language
    run.drop_zero_variance = settings.get("drop_zero_variance", False)
    run.save()
    work(run, workers=1)
    counts = {"samples": 3872, "groups": 968, "zero_variance_groups": 968, "success": 0.0}
    Lesson.objects.filter(run=run).delete()
    Lesson.objects.create(
        run=run, name="math", position=0, weight=1.0, status=LessonStatus.ACTIVE, **counts
    )

    diagnosis = seen(run)[0].diagnosis

    assert (diagnosis.kind == "no_gradient") is is_named
    if is_named:
        assert diagnosis.summary.startswith("All 3,872 answers had equal rewards")
        assert diagnosis.evidence[0] == (
            "lesson math: 968 of 968 groups with equal rewards, success 0 %"
        )


ASKS, SILENT = (
    "Environments ask for their status, but push nothing.",
    "No activity in the last minute.",
)
NONE = "The trainer asks for batches, and no environment pushes data."
IDLE: dict[str, tuple[dict[str, Any], str]] = {
    "asks and pushes nothing": ({}, ASKS),
    "registered a moment ago": ({"registered_at": at(-20)}, SILENT),
    "is held back": ({"held_at": at(-30)}, SILENT),
    "is silent": ({"last_seen_at": at(-130)}, SILENT),
    "has been disconnected": ({"connected": False}, SILENT),
}


@pytest.mark.parametrize("name", IDLE)
@pytest.mark.parametrize("is_asked", [False, True])
def test_an_environment_that_pushes_nothing_is_named(name: str, is_asked: bool) -> None:
    fields, summary = IDLE[name]
    run = make_settled_run(
        kind=RunKind.OUTSIDE, batch_size=8, trainer_started_at=at(-70) if is_asked else None
    )
    values = {"registered_at": at(-75), "last_seen_at": at(-6)} | fields
    Environment.objects.create(
        run=run, env_id=0, desired_name="traj", wandb_name="traj_0", **values
    )
    Trainer.objects.create(
        run=run, uuid=1, identity="t", epoch=1, registered_at=at(-70), last_seen_at=at(-2)
    )

    diagnosis = seen(run)[0].diagnosis

    is_gone = name in {"is silent", "has been disconnected"}
    assert diagnosis.kind == "run_stalled"
    assert diagnosis.summary == (NONE if is_asked and is_gone else summary)
    if summary == ASKS:
        assert diagnosis.evidence == [
            "traj_0 asks for its status, but has pushed nothing for 75 s",
            *(["the trainer asks for batches, the queue is empty"] if is_asked else []),
        ]


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
