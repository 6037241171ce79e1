"""An outage pauses the run, a failing lesson stops alone, and a probe ends both."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from buffer.problems.models import LessonProblem
from rollouts.control.models import Fleet, FleetWorker, Outage
from rollouts.curriculum.models import Lesson
from rollouts.curriculum.models import LessonOutcome as OutcomeRow
from rollouts.curriculum.services.failure_budget import apply_failure_budgets
from runs.alerts.models import Alert
from runs.alerts.services.alerts import watch
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from tests.factories import bearer
from tests.lesson_factories import Class, lesson

pytestmark = pytest.mark.django_db
SENTENCE = "the inference server http://e: /generate: 400 the model is gone"
INFERENCE = {"errors": {"inference_failed": SENTENCE}}
OFF = {"share": 0.5, "failures": 0, "window_seconds": 120.0}


def running(names: str = "ab", **fields: Any) -> Class:
    """Return a running language run whose evaluations are done."""
    lessons = Class({name: lesson() for name in names}, **fields)
    Run.objects.filter(pk=lessons.run.pk).update(status="running")
    lessons.evaluate_all(successes=0)
    OutcomeRow.objects.all().delete()  # rollouts of evaluations count too
    return lessons


def fail(lessons: Class, *names: str, times: int = 3, failed: int = 20, **fields: Any) -> None:
    """Report tasks without a group; every rollout failed."""
    for _ in range(times):
        for name in names:
            assert lessons.report(name, [], generations=4, **problems(failed), **fields).json()


def problems(failed: int, kind: str = "inference_failed") -> dict[str, Any]:
    """Return the lost problems of a task of groups of four."""
    return {"lost_problems": {kind: list(range(1_000, 1_000 + failed // 4))}}


def fail_tools(lessons: Class, *names: str, times: int = 3) -> None:
    for name in names:
        for _ in range(times):
            lessons.report(
                name,
                [],
                generations=4,
                failed={"tool_failed": 20},
                errors={"tool_failed": "the tool server is away"},
                error="the tool server is away",
            )


def succeed(lessons: Class, name: str, **fields: Any) -> None:
    with django_capture():
        lessons.report(name, [1.0, 0.0, 1.0, 0.0], generations=4, **fields)


class django_capture:  # noqa: N801 a context manager
    """Run the callbacks of commits, which the transaction of a test would never reach."""

    def __enter__(self) -> None:
        from django.test import TestCase

        self._inner = TestCase.captureOnCommitCallbacks(execute=True)
        self._inner.__enter__()

    def __exit__(self, *exc: Any) -> None:
        self._inner.__exit__(*exc)


def apply(**later: float) -> int:
    return apply_failure_budgets(now=datetime.now(UTC) + timedelta(**later))


def state(lessons: Class) -> tuple[str, str]:
    row = Run.objects.get(pk=lessons.run.pk)
    return row.status, row.status_reason


def due() -> None:
    """Make the next probe due now."""
    Outage.objects.filter(ended_at=None).update(probe_at=datetime.now(UTC))


def test_an_outage_of_the_inference_server_pauses_the_run_with_its_sentence() -> None:
    lessons = running()
    fail(lessons, "a", "b", **INFERENCE)

    assert apply() == 1

    assert state(lessons) == (
        "paused",
        f"the inference server fails: 60 of 60 rollouts failed: {SENTENCE}",
    )
    [event] = RunEvent.objects.filter(kind="status", actor="failure budget")
    assert SENTENCE in event.reason
    watch(now=datetime.now(UTC))
    alert = Alert.objects.get(kind="outage")
    assert (alert.severity, SENTENCE in alert.message) == ("error", True)
    assert apply() == 0


@pytest.mark.parametrize(
    ("budget", "times", "succeeded", "pauses"),
    [
        ({}, 3, 0, True),
        ({}, 2, 0, False),
        ({}, 3, 61, False),
        ({"inference": OFF}, 30, 0, False),
        ({"inference": {"share": 0.2, "failures": 60, "window_seconds": 120.0}}, 3, 61, True),
        ({"inference": {"share": 0.2, "failures": 61, "window_seconds": 120.0}}, 3, 0, False),
    ],
)
def test_share_and_number_in_the_window_decide(
    budget: dict[str, Any], times: int, succeeded: int, pauses: bool
) -> None:
    lessons = Class({"a": lesson()})
    config = {**lessons.run.config, "failure_budget": budget}
    Run.objects.filter(pk=lessons.run.pk).update(status="running", config=config)
    lessons.evaluate_all(successes=0)
    OutcomeRow.objects.all().delete()
    fail(lessons, "a", times=times, **INFERENCE)
    if succeeded:
        lessons.report("a", [0.0] * succeeded)

    apply()

    assert (state(lessons)[0] == "paused") is pauses


def test_failures_before_the_window_do_not_count() -> None:
    lessons = running()
    fail(lessons, "a", **INFERENCE)

    assert apply(seconds=121) == 0


def test_a_failing_lesson_stops_alone_and_starts_again_after_a_probe() -> None:
    lessons = running()
    fail_tools(lessons, "a")
    lessons.report("b", [1.0] * 4)

    assert apply() == 1

    assert state(lessons)[0] == "running"
    rows = lessons.lessons()
    assert (rows["a"]["hold"], rows["b"]["hold"]) == ("stopped", "")
    assert "the tool server is away" in rows["a"]["reason"]
    assert {lessons.task()["lesson"] for _ in range(4)} == {"b"}
    due()
    probe = lessons.task()
    assert (probe["lesson"], probe["examples"]) == ("a", 1)
    assert lessons.task()["lesson"] == "b"

    succeed(lessons, "a")

    assert lessons.lessons()["a"]["hold"] == ""
    outage = Outage.objects.get()
    assert (outage.probes, outage.end_reason) == (1, "a task of lesson a succeeded")


def test_the_run_is_paused_when_every_lesson_fails() -> None:
    lessons = running()
    fail_tools(lessons, "a", "b")

    apply()

    assert state(lessons)[0] == "paused"
    assert state(lessons)[1].endswith("the tool server is away")
    assert lessons.lessons()["a"]["hold"] == ""


def test_between_probes_workers_wait_and_a_probe_is_one_problem() -> None:
    lessons = running()
    fail(lessons, "a", **INFERENCE)
    apply()

    waiting = lessons.task()
    assert (waiting["kind"], waiting["reason"]) == ("wait", "the failure budget has paused the run")
    due()
    probe = lessons.task()
    assert (probe["kind"], probe["examples"]) == ("train", 1)
    assert lessons.task(worker="w1@1")["kind"] == "wait"


def test_a_successful_probe_resumes_the_run() -> None:
    lessons = running()
    fail(lessons, "a", **INFERENCE)
    apply()
    watch(now=datetime.now(UTC))

    succeed(lessons, "a")

    status, reason = state(lessons)
    assert (status, reason) == ("running", "a task of lesson a succeeded after 0 s and 0 probes")
    [event] = RunEvent.objects.filter(kind="outage_ended")
    assert SENTENCE in event.reason
    watch(now=datetime.now(UTC))
    assert Alert.objects.get(kind="outage").state == "resolved"
    assert apply() == 0, "failures before the end of the outage do not count again"


@pytest.mark.parametrize(
    "outcome",
    [
        {"rewards": [], **INFERENCE},
        {"rewards": [1.0], "failed": {"inference_failed": 1}, **INFERENCE},
    ],
)
def test_a_failing_probe_does_not_resume_the_run(outcome: dict[str, Any]) -> None:
    lessons = running()
    fail(lessons, "a", **INFERENCE)
    apply()

    with django_capture():
        lessons.report("a", **outcome)

    assert state(lessons)[0] == "paused"


def test_probes_of_outages_in_succession_become_rarer() -> None:
    lessons = running()
    for step in range(3):
        fail(lessons, "a", **INFERENCE)
        assert apply() == 1
        assert Outage.objects.get(ended_at=None).wait_step == step
        succeed(lessons, "a")


def test_a_run_resumed_by_a_person_has_no_outage() -> None:
    lessons = running()
    fail(lessons, "a", **INFERENCE)
    apply()
    answer = APIClient().post(
        "/api/v1/runs/words/resume", {}, format="json", headers=bearer("admin")
    )
    assert answer.status_code == 200, answer.content

    assert apply(seconds=1) == 0

    assert state(lessons)[0] == "running"
    assert Outage.objects.get().end_reason == "the run is running"
    assert lessons.task()["examples"] == 2


def test_a_lesson_started_again_by_a_person_has_no_outage() -> None:
    lessons = running()
    fail_tools(lessons, "a")
    apply()
    APIClient().put(
        "/api/v1/runs/words/lessons/a/steering", {}, format="json", headers=bearer("admin")
    )

    apply(seconds=1)

    assert Outage.objects.get().end_reason == "the lesson was started again"


def test_a_draining_run_is_not_paused() -> None:
    lessons = running()
    fail(lessons, "a", **INFERENCE)
    Run.objects.filter(pk=lessons.run.pk).update(status="draining", drain_target="completed")

    assert apply() == 0
    assert not Outage.objects.exists()


def test_problems_that_an_outage_skipped_are_assigned_again() -> None:
    lessons = running("a")
    LessonProblem.objects.all().delete()
    task = lessons.task()
    for _ in range(3):
        numbers = list(range(task["first_example"], task["first_example"] + task["examples"]))
        lessons.report(
            "a",
            [],
            generations=4,
            failed={"reward_failed": 20},
            errors={"reward_failed": "the judge is away"},
            lost_problems={"reward_failed": numbers},
        )
        task = lessons.task(held={}) if task["attempt"] < 3 else task
    assert set(LessonProblem.objects.values_list("state", flat=True)) == {"skipped"}

    apply()

    assert set(LessonProblem.objects.values_list("state", "attempts")) == {("returned", 0)}


def workers(run: Run, *seconds: float) -> None:
    now = datetime.now(UTC)
    fleet = Fleet.objects.create(run=run, observed_at=now, incarnation="1-a", actor_name="m")
    for index, unanswered in enumerate(seconds):
        FleetWorker.objects.create(
            fleet=fleet,
            index=index,
            incarnation=f"{index}",
            state="running",
            heartbeat_at=now,
            unanswered_seconds=unanswered,
            reason=f"the inference server has not answered for {unanswered:.0f} s: refused",
        )


@pytest.mark.parametrize(
    ("seconds", "pauses"), [((121, 130), True), ((119, 130), False), ((0, 500), False)]
)
def test_a_server_that_answers_no_worker_pauses_the_run(
    seconds: tuple[float, ...], pauses: bool
) -> None:
    lessons = running()
    workers(lessons.run, *seconds)

    apply()

    assert (state(lessons)[0] == "paused") is pauses
    assert ("has not answered" in state(lessons)[1]) is pauses


def test_the_fleet_of_a_run_paused_by_an_outage_stays_ready_for_probes() -> None:
    lessons = running()
    workers(lessons.run, 0)
    control = "fleet/control"
    headers = bearer("worker", run=lessons.run)

    def desired() -> str:
        answer = APIClient().get(f"/api/v1/runs/words/{control}", headers=headers)
        return str(answer.json()["desired"])

    assert desired() == "running"
    fail(lessons, "a", **INFERENCE)
    apply()
    assert desired() == "running"
    Outage.objects.all().delete()
    assert desired() == "paused"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"errors": {"Inference": "x"}}, "errors"),
        ({"errors": {"inference_failed": "x" * 2001}}, "errors"),
        ({"errors": {"inference_failed": 3}}, "errors"),
    ],
)
def test_invalid_errors_are_refused_by_name(fields: dict[str, Any], field: str) -> None:
    lessons = running()

    answer = lessons.report("a", [], **fields)

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"].startswith(field)
    assert not OutcomeRow.objects.filter(mode="train").exists()


def test_all_open_outages_end_with_their_run() -> None:
    lessons = running()
    fail(lessons, "a", **INFERENCE)
    apply()
    Run.objects.filter(pk=lessons.run.pk).update(status="stopped")

    apply(seconds=1)

    assert Outage.objects.get().end_reason == "the run is stopped"
    assert Lesson.objects.filter(hold="stopped").count() == 0
