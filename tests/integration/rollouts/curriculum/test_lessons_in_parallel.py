"""Concurrent requests about lessons lose, duplicate and repeat nothing."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.db import connection

from rollouts.curriculum.models import Curriculum, Evaluation, Lesson, LessonChange, LessonOutcome
from runs.events.models import RunEvent
from tests.lesson_factories import Class, lesson

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    def call(one: Callable[[], Any]) -> Any:
        try:
            return one()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as threads:
        return [future.result() for future in [threads.submit(call, one) for one in calls]]


def test_simultaneous_first_workers_create_the_lessons_once() -> None:
    lessons = Class({"a": lesson(), "b": lesson("a")})

    tasks = at_once([partial(lessons.task, f"w{place}@1") for place in range(8)])

    assert Lesson.objects.count() == 2
    assert Curriculum.objects.count() == 1
    assert [task["kind"] for task in tasks].count("evaluate") == 1
    firsts = sorted(task["first_example"] for task in tasks if task["kind"] == "train")
    assert firsts == [0, 2, 4, 6, 8, 10, 12]


def test_every_outcome_of_many_workers_counts_once() -> None:
    lessons = Class({"a": lesson(), "b": lesson()})
    lessons.task()
    outcomes = [lessons.outcome([1.0, 0.0]) for _ in range(24)]

    def report_outcome(worker: str) -> None:
        for place, outcome in enumerate(outcomes):
            path = f"lessons/{'ab'[place % 2]}/outcomes"
            assert lessons.post(path, outcome | {"worker": worker}).status_code == 200

    at_once([partial(report_outcome, f"w{place}@1") for place in range(6)])

    assert LessonOutcome.objects.count() == 24
    assert {row["samples"] for row in lessons.lessons().values()} == {24}


def test_two_lessons_that_graduate_together_unlock_the_third() -> None:
    easy = lesson(stop_success=0.8)
    for place in range(5):
        lessons = Class({"a": easy, "b": easy, "c": lesson("a", "b")}, name=f"words-{place}")
        tasks = [lessons.task("w0@1"), lessons.task("w1@1")]
        assert {task["lesson"] for task in tasks} == {"a", "b"}

        at_once([partial(lessons.finish, task, successes=32) for task in tasks])

        assert lessons.lessons()["c"]["status"] == "active"
        assert LessonChange.objects.filter(run=lessons.run, lesson="c").count() == 1


def test_every_due_evaluation_is_leased_to_one_worker_only() -> None:
    lessons = Class({f"lesson-{place}": lesson() for place in range(6)})
    lessons.task()
    Evaluation.objects.update(state="queued", expires_at=None)

    tasks = at_once([partial(lessons.task, f"w{place}@1") for place in range(10)])

    leased = [task["evaluation"] for task in tasks if task["kind"] == "evaluate"]
    assert len(leased) == len(set(leased))
    rest = [lessons.task() for _ in range(6)]
    leased += [task["evaluation"] for task in rest if task["kind"] == "evaluate"]
    assert len(set(leased)) == len(leased) == 6


def test_concurrent_tasks_and_outcomes_do_not_deadlock() -> None:
    """Requirements point against the order in which lessons are locked, as far as possible."""
    web = {
        f"l{place}": lesson(*(f"l{above}" for above in range(place + 1, 6))) for place in range(6)
    }
    lessons = Class(web | {"l6": lesson()}, evaluation={"every_train_steps": 1})
    lessons.task()

    def work(worker: int) -> None:
        for turn in range(12):
            name = f"l{(worker * 5 + turn) % 6}"
            outcome = lessons.outcome([1.0] * 16, key=f"{worker}-{turn}")
            assert lessons.post(f"lessons/{name}/outcomes", outcome).status_code == 200
            task = lessons.task(f"w{worker}@1")
            if task["kind"] == "evaluate":
                response = lessons.finish(task, successes=32, key=f"e{worker}-{turn}")
                assert response.status_code == 200

    at_once([partial(work, worker) for worker in range(6)])

    assert LessonOutcome.objects.filter(mode="train").count() == 72
    unlocked = LessonChange.objects.filter(target="active")
    assert unlocked.count() == unlocked.values("lesson").distinct().count()
    assert not RunEvent.objects.filter(kind="lesson_failed").exists()
