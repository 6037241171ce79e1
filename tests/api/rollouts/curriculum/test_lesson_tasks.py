"""Tasks of the workers of a language run."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.db.models.functions import Now
from rest_framework.test import APIClient

from rollouts.curriculum.models import Evaluation, Lesson
from runs.events.models import RunEvent
from runs.lifecycle.models.runs import Run
from runs.lifecycle.rules.lifecycle import RunStatus
from tests.factories import bearer, make_run
from tests.lesson_factories import Class, lesson

pytestmark = pytest.mark.django_db


def training_tasks(lessons: Class, count: int) -> list[dict[str, Any]]:
    tasks = []
    while len(tasks) < count:
        task = lessons.task(worker=f"w{len(tasks) % 3}@1")
        if task["kind"] == "evaluate":
            lessons.finish(task, successes=0)
        else:
            assert task["kind"] == "train"
            tasks.append(task)
    return tasks


def test_no_two_tasks_are_of_the_same_problems() -> None:
    tasks = training_tasks(Class({"a": lesson(), "b": lesson()}), 40)

    problems = [
        (task["lesson"], task["first_example"] + place)
        for task in tasks
        for place in range(task["examples"])
    ]
    assert len(set(problems)) == len(problems) == 80
    for name in ("a", "b"):
        numbers = sorted(number for lesson_, number in problems if lesson_ == name)
        assert numbers == list(range(len(numbers)))
    assert len({task["seed"] for task in tasks}) == 40
    assert {task["generations"] for task in tasks} == {4}


def test_a_task_has_the_sizes_of_its_lesson() -> None:
    tasks = training_tasks(
        Class({"a": lesson(), "b": lesson(group_size=8, prompts_per_batch=3)}), 20
    )

    sizes = {(task["lesson"], task["examples"], task["generations"]) for task in tasks}
    assert sizes == {("a", 2, 4), ("b", 3, 8)}
    numbers = sorted(task["first_example"] for task in tasks if task["lesson"] == "b")
    assert numbers == list(range(0, 3 * len(numbers), 3))


def test_a_run_drains_once_its_maximum_of_rollouts_is_assigned() -> None:
    lessons = Class({"a": lesson()}, max_rollouts=27)

    tasks = training_tasks(lessons, 3)

    # Groups of 4: 27 rollouts are 6 groups, in tasks of 2 problems.
    assert [task["examples"] for task in tasks] == [2, 2, 2]
    task = lessons.task()
    assert (task["kind"], task["reason"]) == ("wait", "max_rollouts")
    events = RunEvent.objects.filter(run=lessons.run, kind="max_rollouts_reached")
    assert "the maximum of 27 rollouts is assigned" in events.get().message
    run = Run.objects.get(pk=lessons.run.pk)
    assert (run.status, run.drain_target) == ("draining", "completed")
    assert run.status_reason == "all 27 rollouts of `max_rollouts` are assigned"
    assert lessons.task()["reason"] == "draining"
    assert Lesson.objects.get(run=lessons.run).examples == 6


def test_the_last_task_before_the_maximum_is_shorter() -> None:
    lessons = Class({"a": lesson()}, max_rollouts=12)

    assert [task["examples"] for task in training_tasks(lessons, 2)] == [2, 1]
    assert lessons.task()["reason"] == "max_rollouts"


def test_lessons_share_the_maximum_by_their_group_sizes() -> None:
    lessons = Class(
        {"a": lesson(), "b": lesson(group_size=8, prompts_per_batch=1)}, max_rollouts=100
    )

    assigned = 0
    for _ in range(40):
        task = lessons.task()
        if task["kind"] == "evaluate":
            lessons.finish(task, successes=0)
        elif task["kind"] == "train":
            assigned += task["examples"] * task["generations"]

    assert assigned == 100
    assert RunEvent.objects.filter(run=lessons.run, kind="max_rollouts_reached").count() == 1


def test_the_same_run_draws_the_same_lessons_again() -> None:
    drawn = [
        [
            (task["lesson"], task["first_example"], task["seed"])
            for task in training_tasks(Class({"a": lesson(), "b": lesson()}, name=name), 12)
        ]
        for name in ("first", "second")
    ]

    assert drawn[0] == drawn[1]


def test_a_locked_lesson_is_not_drawn() -> None:
    tasks = training_tasks(Class({"a": lesson(), "b": lesson("a")}), 20)

    assert {task["lesson"] for task in tasks} == {"a"}


def test_lessons_are_drawn_by_their_shares() -> None:
    lessons = Class({"a": lesson(), "hopeless": lesson()})
    training_tasks(lessons, 1)
    for _ in range(5):
        lessons.tell("hopeless", [0.0] * 200)

    drawn = Counter(task["lesson"] for task in training_tasks(lessons, 100))

    assert lessons.lessons()["hopeless"]["probability"] < 0.06
    assert 0 < drawn["hopeless"] < 15


def test_what_has_graduated_keeps_the_share_that_the_run_says() -> None:
    lessons = Class({"new": lesson(), "learnt": lesson()}, strategy_options={"rehearsal": 0.3})
    training_tasks(lessons, 1)
    Lesson.objects.filter(name="learnt").update(status="graduated", weight=0)

    given = Counter(task["lesson"] for task in training_tasks(lessons, 100))

    shown = lessons.lessons()
    assert (shown["learnt"]["probability"], shown["new"]["probability"]) == (0.3, 0.7)
    assert 15 < given["learnt"] < 45


def test_a_worker_waits_until_there_are_weights_of_this_epoch() -> None:
    lessons = Class({"a": lesson()})

    assert lessons.task(epoch=0)["reason"] == "weights"
    lessons.publish(-2, epoch=2)
    waiting = lessons.task(policy_step=-1)
    assert (waiting["kind"], waiting["reason"]) == ("wait", "weights")
    assert waiting["wait_seconds"] > 0


@pytest.mark.parametrize("status", ["paused", "draining", "completed", "failed", "stopped"])
def test_a_worker_waits_while_the_run_does_not_roll_out(status: str) -> None:
    lessons = Class({"a": lesson()})
    Run.objects.filter(pk=lessons.run.pk).update(
        status=status, drain_target=RunStatus.COMPLETED if status == "draining" else ""
    )

    task = lessons.task()

    assert (task["kind"], task["reason"]) == ("wait", status)


def test_every_unlocked_lesson_is_evaluated_at_the_first_version_and_every_few_steps() -> None:
    lessons = Class({"a": lesson(), "b": lesson(), "locked": lesson("a")})

    first = lessons.evaluate_all(successes=10)
    lessons.publish(4)
    early = lessons.evaluate_all(successes=10)
    lessons.publish(5)
    later = lessons.evaluate_all(successes=10)

    assert (first, early, later) == (["a", "b"], [], ["a", "b"])


def test_an_evaluation_is_of_the_same_problems_and_draws_for_ever() -> None:
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


def test_a_lost_evaluation_goes_to_another_worker_and_its_late_result_is_refused() -> None:
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


def test_a_late_result_counts_if_no_worker_took_the_evaluation_over() -> None:
    lessons = Class({"a": lesson()})
    task = lessons.task()
    expire(task)

    assert lessons.finish(task, successes=20).status_code == 200


def test_each_attempt_has_twice_the_time_and_the_last_one_gives_up() -> None:
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


def test_an_evaluation_without_results_goes_to_the_next_worker() -> None:
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
def test_graduated_lessons_are_evaluated_in_one_of_so_many_rounds(every: int, rounds: int) -> None:
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


def test_a_slow_evaluation_does_not_pile_up() -> None:
    lessons = Class({"a": lesson()})
    slow = lessons.task()
    lessons.publish(50)

    assert lessons.task()["kind"] == "train"
    assert lessons.finish(slow, successes=32, policy_step=0).status_code == 200
    assert Evaluation.objects.count() == 1


def test_graduation_of_all_lessons_is_reported_once_and_sampling_continues_evenly() -> None:
    lessons = Class({"a": lesson(stop_success=0.5), "b": lesson("a", stop_success=0.5)})
    lessons.evaluate_all(successes=32)
    lessons.publish(5)
    lessons.evaluate_all(successes=32)

    drawn = Counter(task["lesson"] for task in training_tasks(lessons, 40))

    assert {row["status"] for row in lessons.lessons().values()} == {"graduated"}
    assert min(drawn["a"], drawn["b"]) > 8
    assert RunEvent.objects.filter(run=lessons.run, kind="curriculum_complete").count() == 1
    assert lessons.get("lessons")["summary"]["completed_at"] is not None


def test_graduated_lessons_are_evaluated_in_one_round_of_four() -> None:
    lessons = Class({"a": lesson(stop_success=0.5), "b": lesson()})
    rounds = []
    for step in range(0, 50, 5):
        lessons.publish(step)
        rounds.append(lessons.evaluate_all(successes=28))

    assert rounds[0] == ["a", "b"]
    assert all("b" in turn for turn in rounds)
    assert sum("a" in turn for turn in rounds[1:]) == 2


def test_an_outside_run_and_a_fleet_of_environments_have_no_lessons() -> None:
    run = make_run(name="pole")
    body = {"worker": "w", "epoch": 1, "policy_step": 0}

    answer = APIClient().post(
        "/api/v1/runs/pole/lessons/tasks", body, format="json", headers=bearer("worker", run=run)
    )

    assert (answer.status_code, answer.json()["code"]) == (409, "no_curriculum")


def test_figures_of_the_draw_are_metrics_once_a_version() -> None:
    lessons = Class({"a": lesson(), "b": lesson()})
    training_tasks(lessons, 3)
    lessons.publish(1)
    training_tasks(lessons, 3)

    rows = lessons.get("metrics", names="curriculum/effective lessons")["results"]

    assert [(row["step"], round(row["value"], 3)) for row in rows] == [(1, 2.0), (0, 2.0)]
    names = {row["name"] for row in lessons.get("metrics")["results"]}
    assert {name for name in names if not name.startswith("eval/")} == {
        "curriculum/entropy",
        "curriculum/effective lessons",
        "curriculum/mean success",
    }


def test_lessons_are_shown_before_the_first_worker_asks() -> None:
    lessons = Class({"b": lesson("a"), "a": lesson()})

    rows = lessons.get("lessons")["results"]

    assert [(row["name"], row["status"]) for row in rows] == [("a", "active"), ("b", "locked")]
    assert rows[1]["reason"] == "requires a (active, not tried yet)"
    assert not Lesson.objects.exists()
