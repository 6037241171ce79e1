"""Operators hold lessons and change their weights, until they end the steering."""

from typing import Any

import pytest
from django.db.models.functions import Now
from rest_framework.test import APIClient

from rollouts.control.models import Fleet, FleetWorker
from rollouts.curriculum.models import Lesson, LessonChange
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
from tests.factories import make_user
from tests.lesson_factories import Class, lesson

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> APIClient:
    """Return an API client of an operator."""
    client = APIClient()
    client.force_login(make_user(username="alice", role="operator"))
    return client


def steer(alice: APIClient, name: str, **fields: Any) -> Any:
    return alice.put(f"/api/v1/runs/words/lessons/{name}/steering", fields, format="json")


def drawn(lessons: Class, *, tasks: int = 40) -> set[str]:
    """Return the lessons of the tasks that workers receive."""
    return {lessons.task()["lesson"] for _ in range(tasks)}


@pytest.fixture
def pair() -> Class:
    """Return two lessons without requirements, already evaluated."""
    lessons = Class({"a": lesson(stop_success=0.8), "b": lesson()})
    lessons.evaluate_all(successes=10)
    return lessons


def test_a_lesson_with_a_locked_hold_is_not_drawn(pair: Class, alice: APIClient) -> None:
    assert drawn(pair) == {"a", "b"}

    answer = steer(alice, "a", hold="locked", reason="it drowns b")

    assert answer.status_code == 200, answer.content
    assert drawn(pair) == {"b"}
    row = pair.lessons()["a"]
    assert (row["status"], row["hold"], row["probability"]) == ("locked", "locked", 0.0)
    assert row["reason"] == "held locked by alice"
    assert (row["steered_by"], row["steered_reason"]) == ("user:alice", "it drowns b")


def test_the_history_has_actor_and_reason(pair: Class, alice: APIClient) -> None:
    steer(alice, "a", hold="locked", weight_factor=2, reason="it drowns b")

    newest = pair.get("lessons/history")["results"][0]

    assert (newest["actor"], newest["source"], newest["target"]) == (
        "user:alice",
        "active",
        "locked",
    )
    assert newest["reason"] == "held locked and drawn 2 times as often: it drowns b"
    event = RunEvent.objects.get(run=pair.run, kind="lesson_steered")
    assert (event.actor, event.reason) == ("user:alice", "it drowns b")


def test_a_lesson_with_a_hold_graduates_only_after_its_release(
    pair: Class, alice: APIClient
) -> None:
    steer(alice, "a", hold="active")
    pair.publish(5)
    pair.evaluate_all(successes=32)
    assert pair.lessons()["a"]["status"] == "active"

    given_back = steer(alice, "a", reason="seen enough").json()["results"]

    assert {row["name"]: row["status"] for row in given_back}["a"] == "graduated"
    moves = pair.get("lessons/history", lesson="a")["results"]
    assert [(row["actor"], row["source"], row["target"]) for row in moves[:2]] == [
        ("curriculum", "active", "graduated"),
        ("user:alice", "active", "active"),
    ]


def test_a_manually_unlocked_lesson_locks_again_after_its_release(alice: APIClient) -> None:
    lessons = Class({"a": lesson(stop_success=0.8), "b": lesson("a")})
    lessons.evaluate_all(successes=10)
    steer(alice, "b", hold="active", reason="try it")
    assert drawn(lessons) == {"a", "b"}

    steer(alice, "b")

    row = lessons.lessons()["b"]
    assert (row["status"], row["hold"]) == ("locked", "")
    assert row["reason"].startswith("requires a")
    assert row["unlock_rule"].startswith("Unlocks when a has graduated")
    assert drawn(lessons) == {"a"}


def test_a_released_lesson_unlocks_at_once_if_its_rule_is_met(alice: APIClient) -> None:
    lessons = Class({"a": lesson(stop_success=0.8), "b": lesson("a")})
    steer(alice, "b", hold="locked")
    lessons.evaluate_all(successes=32)
    assert lessons.lessons()["a"]["status"] == "graduated"
    assert lessons.lessons()["b"]["status"] == "locked"

    steer(alice, "b")

    assert lessons.lessons()["b"]["status"] == "active"
    assert lessons.lessons()["b"]["reason"] == "a has graduated"


def test_a_factor_changes_how_often_a_lesson_is_drawn(pair: Class, alice: APIClient) -> None:
    steer(alice, "b", weight_factor=4)

    rows = pair.lessons()

    assert [rows[name]["probability"] for name in "ab"] == pytest.approx([0.2, 0.8])
    given = [pair.task()["lesson"] for _ in range(200)]
    assert 130 <= given.count("b") <= 190


def test_a_change_is_pending_until_each_worker_has_requested_a_task(
    pair: Class, alice: APIClient
) -> None:
    fleet = Fleet.objects.create(run=pair.run)
    for index, state in enumerate(("running", "running", "stopped")):
        FleetWorker.objects.create(
            fleet=fleet, index=index, incarnation="1", state=state, heartbeat_at=Now()
        )
    steer(alice, "a", hold="locked")
    before = pair.get("lessons")["summary"]
    assert (before["steered"], before["awaited"]) == (1, ["w0@1", "w1@1"])

    pair.task("w0@1")

    after = pair.get("lessons")["summary"]
    assert after["awaited"] == ["w1@1"]
    assert after["revision"] > before["revision"]
    FleetWorker.objects.filter(index=1).update(incarnation="2")
    assert pair.get("lessons")["summary"]["awaited"] == []


def test_a_repeated_request_changes_nothing(pair: Class, alice: APIClient) -> None:
    for _ in range(2):
        assert steer(alice, "a", hold="locked").status_code == 200

    assert LessonChange.objects.filter(lesson="a").count() == 1


def test_the_last_lesson_cannot_be_locked(pair: Class, alice: APIClient) -> None:
    steer(alice, "a", hold="locked")

    refusal = steer(alice, "b", hold="locked")

    assert (refusal.status_code, refusal.json()["code"]) == (409, "last_lesson")
    assert Lesson.objects.get(name="b").hold == ""


@pytest.mark.parametrize(
    ("steering", "field"),
    [
        ({"weight_factor": 0}, "weight_factor"),
        ({"weight_factor": 1000}, "weight_factor"),
        ({"hold": "graduated"}, "hold"),
        ({"weight": 3}, "weight"),
    ],
)
def test_invalid_requests_are_refused_and_change_nothing(
    pair: Class, alice: APIClient, steering: dict[str, Any], field: str
) -> None:
    refusal = steer(alice, "a", **steering)

    assert refusal.status_code == 400
    assert field in refusal.content.decode()
    assert not LessonChange.objects.exists()


def test_lessons_of_an_ended_run_are_read_only(pair: Class, alice: APIClient) -> None:
    Run.objects.filter(pk=pair.run.pk).update(status=RunStatus.COMPLETED)

    assert steer(alice, "a", hold="locked").json()["code"] == "run_over"
    assert steer(alice, "nowhere", hold="locked").status_code == 404


def test_micro_evaluations_are_separate_and_change_no_state(pair: Class) -> None:
    pair.report("a", [1.0] * 30 + [0.0] * 10, mode="micro_eval")
    pair.report("b", [1.0] * 40, mode="micro_eval")

    rows = pair.get("lessons/a/micro-evaluations")["results"]

    assert [(row["policy_step"], row["samples"], row["successes"]) for row in rows] == [(0, 40, 30)]
    assert rows[0]["success"]["low"] < 0.75 < rows[0]["success"]["high"]
    assert pair.lessons()["b"]["status"] == "active"
