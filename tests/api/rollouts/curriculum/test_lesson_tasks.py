"""Tasks of the workers of a language run."""

from collections import Counter
from typing import Any

import pytest
from rest_framework.test import APIClient

from buffer.problems.models import LessonProblem
from rollouts.curriculum.models import Lesson
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
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


def test_no_two_tasks_have_the_same_problems() -> None:
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
    assert lessons.task()["reason"] == "the last problems are sampled"
    LessonProblem.objects.update(state="trained")
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
    LessonProblem.objects.update(state="trained")
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
            LessonProblem.objects.update(state="trained")

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
        lessons.report("hopeless", [0.0] * 200)

    drawn = Counter(task["lesson"] for task in training_tasks(lessons, 100))

    assert lessons.lessons()["hopeless"]["probability"] < 0.06
    assert 0 < drawn["hopeless"] < 15


def test_graduated_lessons_have_the_configured_share() -> None:
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
def test_a_worker_waits_while_the_run_is_not_running(status: str) -> None:
    lessons = Class({"a": lesson()})
    Run.objects.filter(pk=lessons.run.pk).update(
        status=status, drain_target=RunStatus.COMPLETED if status == "draining" else ""
    )

    task = lessons.task()

    assert (task["kind"], task["reason"]) == ("wait", status)


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
        "curriculum/share/a",
        "curriculum/share/b",
    }


def test_lessons_are_shown_before_the_first_task_request() -> None:
    lessons = Class({"b": lesson("a"), "a": lesson()})

    rows = lessons.get("lessons")["results"]

    assert [(row["name"], row["status"]) for row in rows] == [("a", "active"), ("b", "locked")]
    assert rows[1]["reason"] == "requires a (active, not tried yet)"
    assert not Lesson.objects.exists()
