"""Evaluation tasks of the workers of a language run."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.db.models.functions import Now

from rollouts.curriculum.models import Evaluation, Lesson
from runs.events.models import RunEvent
from tests.lesson_factories import Class, lesson

pytestmark = pytest.mark.django_db


def test_every_unlocked_lesson_is_evaluated_at_the_first_version_and_every_few_steps() -> None:
    lessons = Class({"a": lesson(), "b": lesson(), "locked": lesson("a")})

    first = lessons.evaluate_all(successes=10)
    lessons.publish(4)
    early = lessons.evaluate_all(successes=10)
    lessons.publish(5)
    later = lessons.evaluate_all(successes=10)

    assert (first, early, later) == (["a", "b"], [], ["a", "b"])


def test_evaluations_always_have_the_same_problems_and_draws() -> None:
    lessons = Class({"a": lesson()}, evaluation={"generations": 3})
    first = lessons.task()
    lessons.finish(first, successes=0)
    lessons.publish(5)

    again = lessons.task()

    assert first["kind"] == again["kind"] == "evaluate"
    for same in ("first_example", "examples", "generations", "seed"):
        assert first[same] == again[same]
    assert (first["first_example"], first["examples"], first["generations"]) == (0, 32, 3)
    assert first["evaluation"] != again["evaluation"]


def test_a_new_epoch_begins_with_an_evaluation_though_its_steps_are_lower() -> None:
    lessons = Class({"a": lesson()})
    lessons.publish(40)
    lessons.evaluate_all(successes=30)

    lessons.publish(7, epoch=2)

    assert lessons.evaluate_all(successes=3) == ["a"]
    evaluation = lessons.lessons()["a"]["evaluation"]
    assert (evaluation["epoch"], evaluation["policy_step"]) == (2, 7)
    assert evaluation["figures"]["successes"] == 3


def test_a_worker_with_older_weights_is_not_given_an_evaluation() -> None:
    lessons = Class({"a": lesson()})
    lessons.evaluate_all(successes=0)
    lessons.publish(5)

    assert lessons.task(policy_step=4)["kind"] == "train"
    assert lessons.task(policy_step=5)["kind"] == "evaluate"


def expire(task: dict[str, Any]) -> None:
    Evaluation.objects.filter(pk=task["evaluation"]).update(expires_at=Now() - timedelta(seconds=1))


def test_a_lost_evaluation_is_leased_to_another_worker_and_its_late_result_refused() -> None:
    lessons = Class({"a": lesson()})
    lost = lessons.task(worker="w0@1")
    assert lessons.task(worker="w1@1")["kind"] == "train"
    expire(lost)

    taken = lessons.task(worker="w1@1")

    assert (taken["evaluation"], taken["fence"]) == (lost["evaluation"], lost["fence"] + 1)
    late = lessons.finish(lost, successes=32)
    assert (late.status_code, late.json()["code"]) == (409, "lease_lost")
    assert lessons.finish(taken, successes=16).status_code == 200
    assert lessons.lessons()["a"]["evaluation"]["figures"]["successes"] == 16
    assert lessons.finish(taken, successes=32).status_code == 409


def test_a_late_result_counts_if_no_other_worker_leased_the_evaluation() -> None:
    lessons = Class({"a": lesson()})
    task = lessons.task()
    expire(task)

    assert lessons.finish(task, successes=20).status_code == 200


def test_each_attempt_has_twice_the_time_and_the_last_one_fails() -> None:
    lessons = Class({"a": lesson()}, evaluation={"lease_seconds": 100})
    seconds = []
    for _ in range(5):
        task = lessons.task()
        leased = Evaluation.objects.filter(pk=task["evaluation"])
        left = leased.annotate(left=F("expires_at") - Now()).values_list("left", flat=True).get()
        seconds.append(round(left.total_seconds(), -2))
        expire(task)

    assert lessons.task()["kind"] == "train"

    assert seconds == [100, 200, 400, 800, 1600]
    assert Evaluation.objects.get().state == "lost"
    assert RunEvent.objects.filter(run=lessons.run, kind="evaluation_lost").count() == 1
    lessons.publish(5)
    assert lessons.task()["kind"] == "evaluate"


def test_an_evaluation_without_results_is_leased_to_the_next_worker() -> None:
    lessons = Class({"a": lesson()})
    first = lessons.task()
    response = lessons.finish(first | {"examples": 0}, successes=0, error="the simulator is away")

    again = lessons.task()

    assert response.json()["is_new"] is True
    assert (again["evaluation"], again["fence"]) == (first["evaluation"], first["fence"] + 1)
    assert "the simulator is away" in lessons.lessons()["a"]["last_error"]
    (shown,) = lessons.get("evaluations")["results"]
    assert (shown["state"], shown["attempts"]) == ("leased", 2)
    assert shown["reason"] == "the simulator is away"
    assert lessons.finish(again, successes=20).status_code == 200
    (shown,) = lessons.get("evaluations")["results"]
    assert (shown["state"], shown["reason"]) == ("done", "")


def test_an_evaluation_that_fails_on_every_attempt_is_shown_as_failed_with_an_event() -> None:
    lessons = Class({"a": lesson()})
    for _ in range(5):
        task = lessons.task()
        assert task["kind"] == "evaluate"
        lessons.finish(task | {"examples": 0}, successes=0, error="the simulator is away")

    assert lessons.task()["kind"] == "train"
    (shown,) = lessons.get("evaluations")["results"]
    assert (shown["state"], shown["attempts"]) == ("failed", 5)
    assert shown["reason"] == "the simulator is away"
    assert shown["figures"] is None
    event = RunEvent.objects.get(run=lessons.run, kind="evaluation_failed")
    assert event.level == "warning"
    assert "a could not be evaluated in round 1: 5 attempts" in event.message


def test_locked_lessons_are_evaluated_in_each_round_on_request() -> None:
    chain = {"a": lesson(), "b": lesson("a")}
    plain = Class(chain, name="plain")
    whole = Class(chain, name="whole", evaluation={"evaluates_locked": True})

    assert [plain.evaluate_all(successes=0), whole.evaluate_all(successes=0)] == [["a"], ["a", "b"]]
    plain.publish(5)
    whole.publish(5)
    assert [plain.evaluate_all(successes=0), whole.evaluate_all(successes=0)] == [["a"], ["a", "b"]]
    assert whole.lessons()["b"]["status"] == "locked"
    assert whole.lessons()["b"]["evaluation"]["figures"]["problems"] == 32


@pytest.mark.parametrize(("every", "rounds"), [(1, 8), (4, 2), (8, 1)])
def test_graduated_lessons_are_evaluated_every_nth_round(every: int, rounds: int) -> None:
    lessons = Class(
        {"a": lesson(), "b": lesson()},
        evaluation={"graduated_every_rounds": every},
        strategy_options={"reactivates": False},
    )
    lessons.evaluate_all(successes=0)
    Lesson.objects.filter(run=lessons.run, name="b").update(status="graduated", weight=0.0)

    names = []
    for step in range(5, 45, 5):
        lessons.publish(step)
        names += lessons.evaluate_all(successes=0)

    assert names.count("a") == 8
    assert names.count("b") == rounds


def test_slow_evaluations_do_not_accumulate() -> None:
    lessons = Class({"a": lesson()})
    slow = lessons.task()
    lessons.publish(50)

    assert lessons.task()["kind"] == "train"
    assert lessons.finish(slow, successes=32, policy_step=0).status_code == 200
    assert Evaluation.objects.count() == 1


def test_graduated_lessons_are_evaluated_in_one_round_of_four() -> None:
    lessons = Class({"a": lesson(stop_success=0.5), "b": lesson()})
    rounds = []
    for step in range(0, 50, 5):
        lessons.publish(step)
        rounds.append(lessons.evaluate_all(successes=28))

    assert rounds[0] == ["a", "b"]
    assert all("b" in turn for turn in rounds)
    assert sum("a" in turn for turn in rounds[1:]) == 2
