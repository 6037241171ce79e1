"""Leases of evaluations, evaluations on request, and retention of outcomes."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.models import F
from django.db.models.functions import Now
from rest_framework.test import APIClient

from rollouts.curriculum.models import Evaluation, LessonOutcome
from rollouts.curriculum.services.outcomes import delete_old_outcomes
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from tests.factories import bearer
from tests.lesson_factories import Class, lesson

pytestmark = pytest.mark.django_db


def renew(lessons: Class, task: dict[str, Any], **fields: Any) -> Any:
    """Return the response to a worker that renews its lease."""
    url = f"/api/v1/runs/{lessons.run.name}/evaluations/{task['evaluation']}/lease"
    body = {"fence": task["fence"], **fields}
    return APIClient().put(url, body, format="json", headers=lessons.worker)


def seconds_left(task: dict[str, Any]) -> float:
    left = Evaluation.objects.filter(pk=task["evaluation"]).annotate(left=F("expires_at") - Now())
    remaining: timedelta = left.values_list("left", flat=True).get()
    return remaining.total_seconds()


def let_pass(task: dict[str, Any], *, seconds: float) -> None:
    """Make a lease older by some seconds."""
    Evaluation.objects.filter(pk=task["evaluation"]).update(
        expires_at=F("expires_at") - timedelta(seconds=seconds)
    )


def test_a_lease_that_is_renewed_does_not_go_to_another_worker() -> None:
    lessons = Class({"a": lesson()}, evaluation={"lease_seconds": 100})
    task = lessons.task()
    let_pass(task, seconds=90)

    answer = renew(lessons, task)

    assert (answer.status_code, answer.json()) == (200, {"seconds": 100.0})
    assert 90 < seconds_left(task) <= 100
    let_pass(task, seconds=90)
    assert lessons.task("w1@1")["kind"] == "train"
    assert lessons.finish(task, successes=32).status_code == 200


def test_an_expired_lease_is_renewed_if_no_other_worker_has_it() -> None:
    lessons = Class({"a": lesson()})
    task = lessons.task()
    let_pass(task, seconds=1000)

    assert renew(lessons, task).status_code == 200
    assert lessons.task("w1@1")["kind"] == "train"


def test_a_lost_lease_is_not_renewed() -> None:
    lessons = Class({"a": lesson()})
    lost = lessons.task()
    let_pass(lost, seconds=1000)
    taken = lessons.task("w1@1")
    before = seconds_left(taken)

    late = renew(lessons, lost)

    assert (late.status_code, late.json()["code"]) == (409, "lease_lost")
    assert seconds_left(taken) <= before
    lessons.finish(taken, successes=32)
    assert renew(lessons, taken).status_code == 409


def test_a_longer_lease_of_a_later_attempt_is_not_cut() -> None:
    lessons = Class({"a": lesson()}, evaluation={"lease_seconds": 100})
    let_pass(lessons.task(), seconds=1000)
    second = lessons.task("w1@1")

    renew(lessons, second)

    assert seconds_left(second) > 150


def test_an_unknown_evaluation_is_not_found() -> None:
    lessons = Class({"a": lesson()})
    other = {"evaluation": "00000000-0000-0000-0000-000000000009", "fence": 1}

    assert renew(lessons, other).status_code == 404


def request_evaluations(school: Class, /, **body: Any) -> Any:
    """Return the response to an operator who requests evaluations."""
    url = f"/api/v1/runs/{school.run.name}/evaluations"
    return APIClient().post(url, body, format="json", headers=bearer("admin"))


def test_an_operator_may_request_unscheduled_evaluations() -> None:
    lessons = Class({"a": lesson(), "b": lesson(), "c": lesson("a")})
    lessons.evaluate_all(successes=20)
    lessons.publish(2)
    assert lessons.task()["kind"] == "train"

    answer = request_evaluations(lessons, lessons=["b"], reason="it looks stuck")

    assert answer.status_code == 201
    newest = answer.json()["results"][0]
    assert (newest["lesson"], newest["state"], newest["due_step"]) == ("b", "queued", 2)
    assert lessons.evaluate_all(successes=20) == ["b"]
    event = RunEvent.objects.get(run=lessons.run, kind="evaluation_requested")
    assert (event.reason, event.message) == (
        "it looks stuck",
        "requested an evaluation of b at version 2",
    )
    # The schedule is unaffected by the request.
    lessons.publish(5)
    assert lessons.evaluate_all(successes=20) == ["a", "b"]


def test_all_unlocked_lessons_without_a_lease_are_evaluated() -> None:
    lessons = Class({"a": lesson(), "b": lesson(), "c": lesson("a")})
    in_transit = lessons.task()

    assert request_evaluations(lessons).status_code == 201
    assert lessons.evaluate_all(successes=20) == ["b"]
    assert lessons.finish(in_transit, successes=20).status_code == 200
    assert Evaluation.objects.count() == 2


@pytest.mark.parametrize(
    ("fields", "body", "status", "code"),
    [
        ({"policy_step": -2}, {}, 409, "nothing_to_evaluate"),
        ({"status": "stopped"}, {}, 409, "nothing_to_evaluate"),
        ({}, {"lessons": ["nothing"]}, 404, "not_found"),
        ({}, {"lesson": "a"}, 400, "invalid"),
    ],
)
def test_lessons_that_cannot_be_evaluated_are_named(
    fields: dict[str, Any], body: dict[str, Any], status: int, code: str
) -> None:
    lessons = Class({"a": lesson()})
    Run.objects.filter(pk=lessons.run.pk).update(**fields)

    answer = request_evaluations(lessons, **body)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert not Evaluation.objects.exists()


def outcomes(lessons: Class, *ages: timedelta) -> None:
    """Report outcomes of the given ages."""
    for age in ages:
        lessons.report("a", [1.0])
        newest = LessonOutcome.objects.order_by("-pk").values("pk")[:1]
        LessonOutcome.objects.filter(pk__in=newest).update(at=datetime.now(UTC) - age)


def test_old_outcomes_are_deleted_without_changing_progress(settings: Any) -> None:
    settings.ROLLDECK_OUTCOME_SECONDS = 3 * 24 * 3600
    lessons = Class({"a": lesson()})
    outcomes(lessons, timedelta(days=4), timedelta(days=2), timedelta())

    assert delete_old_outcomes(now=datetime.now(UTC)) == 1
    assert delete_old_outcomes(now=datetime.now(UTC)) == 0
    assert LessonOutcome.objects.count() == 2
    assert lessons.lessons()["a"]["samples"] == 3


def test_stored_outcomes_are_limited_except_those_that_may_be_repeated(settings: Any) -> None:
    settings.ROLLDECK_OUTCOME_SECONDS, settings.ROLLDECK_OUTCOME_ROWS = 0, 2
    lessons = Class({"a": lesson()})
    day = timedelta(days=1)
    outcomes(lessons, day, day, day, timedelta(), timedelta(), timedelta())

    assert delete_old_outcomes(now=datetime.now(UTC)) == 3
    assert LessonOutcome.objects.count() == 3


def test_without_limits_all_outcomes_are_kept(settings: Any) -> None:
    settings.ROLLDECK_OUTCOME_SECONDS = settings.ROLLDECK_OUTCOME_ROWS = 0
    lessons = Class({"a": lesson()})
    outcomes(lessons, timedelta(days=400))

    assert delete_old_outcomes(now=datetime.now(UTC)) == 0


def test_one_evaluation_is_read_with_its_answers_and_its_pass_at_k(lessons_of_four: Class) -> None:
    lessons = lessons_of_four
    task = lessons.task()
    sample = {"prompt": "ab=", "response": "ba", "reward": 1.0, "is_correct": True}
    lessons.finish(task, successes=task["examples"] * 2, samples=[sample])

    evaluation = lessons.get(f"evaluations/{task['evaluation']}")

    assert evaluation["samples"] == [sample]
    assert list(evaluation["pass_at"]) == ["1", "2", "4"]
    assert evaluation["pass_at"]["4"]["low"] <= evaluation["pass_at"]["4"]["estimate"]
    path = f"/api/v1/runs/words/evaluations/{uuid4()}"
    assert APIClient().get(path, headers=lessons.reader).status_code == 404


@pytest.fixture
def lessons_of_four() -> Class:
    """Return a run whose evaluations ask each problem four times."""
    return Class({"a": lesson()}, evaluation={"generations": 4})
