"""A lesson stops for the run after a failure, by its setting, until an operator starts it again."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from rollouts.curriculum.models import LessonChange
from runs.events.models import RunEvent
from tests.factories import make_user
from tests.lesson_factories import Class, lesson

pytestmark = pytest.mark.django_db

ERROR = "dataset:sums.jsonl/train/3: reward module:lab:score raised ZeroDivisionError: no reward"


@pytest.fixture
def alice() -> APIClient:
    """Return an API client of an operator."""
    client = APIClient()
    client.force_login(make_user(username="alice", role="operator"))
    return client


def start_again(alice: APIClient, name: str, **fields: Any) -> Any:
    url = f"/api/v1/runs/words/lessons/{name}/steering"
    answer = alice.put(url, fields, format="json")
    assert answer.status_code == 200, answer.content
    return answer.json()


def stop(lessons: Class, name: str, **fields: Any) -> None:
    answer = lessons.report(name, [], error=ERROR, stops=True, **fields)
    assert answer.status_code == 200, answer.content


def drawn(lessons: Class, *, tasks: int = 40) -> set[str]:
    return {lessons.task()["lesson"] for _ in range(tasks)}


def events(lessons: Class, kind: str) -> list[RunEvent]:
    return list(RunEvent.objects.filter(run=lessons.run, kind=kind))


@pytest.fixture
def pair() -> Class:
    """Return two evaluated lessons without requirements."""
    lessons = Class({"a": lesson(stop_success=0.8), "b": lesson()})
    lessons.evaluate_all(successes=10)
    return lessons


def test_a_stopped_lesson_is_not_sampled_by_any_worker(pair: Class) -> None:
    stop(pair, "a", worker="w0@1")

    assert drawn(pair) == {"b"}
    assert {pair.task(worker="w1@1")["lesson"] for _ in range(20)} == {"b"}
    row = pair.lessons()["a"]
    assert (row["status"], row["hold"], row["probability"]) == ("locked", "stopped", 0.0)
    assert row["reason"] == f"stopped: {ERROR}"
    assert (row["errors"], row["steered_by"]) == (1, "curriculum")
    summary = pair.get("lessons")["summary"]
    assert (summary["stopped"], summary["steered"]) == (1, 0)


def test_a_stop_is_recorded_once(pair: Class) -> None:
    for worker in ("w0@1", "w1@1"):
        stop(pair, "a", worker=worker)

    [event] = events(pair, "lesson_stopped")
    assert (event.level, event.reason, event.details["lesson"]) == ("error", ERROR, "a")
    assert events(pair, "lesson_failed") == []
    [change] = LessonChange.objects.filter(run=pair.run, target="locked")
    assert (change.source, change.actor, change.reason) == (
        "active",
        "curriculum",
        f"stopped: {ERROR}",
    )


def test_a_failure_without_the_setting_stops_nothing(pair: Class) -> None:
    pair.report("a", [], error=ERROR)

    assert drawn(pair) == {"a", "b"}
    assert events(pair, "lesson_stopped") == []


def test_an_operator_starts_a_stopped_lesson_again(pair: Class, alice: APIClient) -> None:
    before = pair.lessons()["a"]
    start_again(alice, "a", weight_factor=2)
    stop(pair, "a")

    start_again(alice, "a", weight_factor=2, reason="the reward is repaired")

    row = pair.lessons()["a"]
    assert (row["status"], row["hold"], row["weight_factor"]) == ("active", "", 2)
    assert row["reason"] == before["reason"]
    assert drawn(pair) == {"a", "b"}
    newest = pair.get("lessons/history", lesson="a")["results"][0]
    assert (newest["source"], newest["target"], newest["actor"]) == (
        "locked",
        "active",
        "user:alice",
    )
    assert newest["reason"] == "started again, active: the reward is repaired"
    stop(pair, "a")
    assert len(events(pair, "lesson_stopped")) == 2


def test_evaluations_of_a_stopped_lesson_wait(pair: Class, alice: APIClient) -> None:
    pair.publish(5)
    task = pair.task()
    assert (task["kind"], task["lesson"]) == ("evaluate", "a")
    lease = {"evaluation": task["evaluation"], "fence": task["fence"], "mode": "eval"}

    stop(pair, "a", **lease)

    assert pair.evaluate_all(successes=10) == ["b"]
    [waiting] = pair.get("evaluations", lesson="a")["results"][:1]
    assert (waiting["state"], waiting["reason"]) == ("queued", ERROR)
    start_again(alice, "a")
    assert pair.evaluate_all(successes=10) == ["a"]


def test_workers_wait_when_every_lesson_has_stopped(alice: APIClient) -> None:
    lessons = Class({"a": lesson()}, max_rollouts=10_000)
    lessons.evaluate_all(successes=10)
    stop(lessons, "a")

    task = lessons.task()

    assert (task["kind"], task["reason"]) == (
        "wait",
        "no lesson is unlocked; start a stopped one again on Curriculum",
    )
    assert events(lessons, "max_rollouts_reached") == []
    assert events(lessons, "curriculum_complete") == []
    start_again(alice, "a")
    assert lessons.task()["lesson"] == "a"


def test_a_graduated_lesson_and_one_on_hold_return_to_the_status_before(
    pair: Class, alice: APIClient
) -> None:
    pair.publish(5)
    pair.evaluate_all(successes=32)
    start_again(alice, "b", hold="active")
    assert pair.lessons()["a"]["status"] == "graduated"
    for name in ("a", "b"):
        stop(pair, name)

    for name in ("a", "b"):
        start_again(alice, name)

    rows = pair.lessons()
    assert rows["a"]["status"] == "graduated"
    assert (rows["b"]["status"], rows["b"]["hold"]) == ("graduated", "")


def test_a_person_cannot_set_the_state_of_a_failure(pair: Class, alice: APIClient) -> None:
    url = "/api/v1/runs/words/lessons/a/steering"

    answer = alice.put(url, {"hold": "stopped"}, format="json")

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "hold"
