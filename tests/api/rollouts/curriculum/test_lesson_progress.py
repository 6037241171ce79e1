"""Training progress of lessons by version, and the admin of lessons."""

import pytest
from django.test import Client
from rest_framework.test import APIClient

from rollouts.curriculum.models import Evaluation, Lesson, LessonChange, LessonOutcome
from rollouts.curriculum.queries.lessons import lesson_progress
from runs.access.models import User
from tests.factories import bearer, make_run
from tests.lesson_factories import Class, lesson

pytestmark = pytest.mark.django_db


def test_each_lesson_has_its_samples_by_version() -> None:
    lessons = Class({"b": lesson(), "a": lesson(), "never": lesson("a")})
    lessons.report("b", [1.0, 0.0])
    lessons.report("a", [1.0, 1.0, 0.0])
    lessons.report("b", [0.0, 0.0])
    lessons.publish(3)
    lessons.report("a", [1.0])

    progress = lessons.get("lessons/progress")

    assert (progress["epoch"], progress["bucket"], progress["outcomes"]) == (1, 1, 4)
    assert progress["is_whole"]
    assert progress["results"] == [
        {"lesson": "b", "step": [0], "samples": [4], "successes": [1]},
        {"lesson": "a", "step": [0, 3], "samples": [3, 1], "successes": [2, 1]},
    ]


def test_versions_are_merged_where_they_outnumber_buckets() -> None:
    lessons = Class({"a": lesson()})
    for step in range(10, 30):
        lessons.publish(step)
        lessons.report("a", [1.0, float(step % 2)])

    progress = lessons.get("lessons/progress", buckets=4)

    [line] = progress["results"]
    assert progress["bucket"] == 5
    assert line["step"] == [10, 15, 20, 25]
    assert line["samples"] == [10, 10, 10, 10]
    assert sum(line["successes"]) == 30


def test_evaluations_other_epochs_and_other_runs_are_not_training() -> None:
    other = Class({"a": lesson()}, name="other")
    other.report("a", [1.0])
    lessons = Class({"a": lesson()})
    lessons.report("a", [1.0])
    lessons.finish(lessons.task(), successes=32)
    lessons.report("a", [1.0], mode="micro_eval")
    lessons.publish(5, epoch=2)
    assert lessons.get("lessons/progress")["results"] == []

    lessons.report("a", [0.0, 1.0])
    lessons.report("a", [1.0], epoch=1)

    progress = lessons.get("lessons/progress")
    assert (progress["epoch"], progress["outcomes"]) == (2, 1)
    assert progress["results"] == [{"lesson": "a", "step": [5], "samples": [2], "successes": [1]}]


def test_of_many_tasks_the_newest_are_read() -> None:
    lessons = Class({"a": lesson()})
    for step in range(6):
        lessons.publish(step)
        lessons.report("a", [1.0])

    progress = lesson_progress(lessons.run.pk, buckets=60, outcomes_read=3)

    assert (progress.outcomes, progress.is_whole) == (3, False)
    assert progress.results[0].step == [3, 4, 5]


def test_buckets_are_wider_for_many_lessons() -> None:
    lessons = Class(
        {f"lesson-{number}": lesson() for number in range(400)},
        strategy_options={"minimum_sample_probability": 0.001},
    )
    for step in range(100):
        lessons.publish(step)
        lessons.report("lesson-7", [1.0])

    assert lesson_progress(lessons.run.pk, buckets=200).bucket == 2


@pytest.mark.parametrize("buckets", ["0", "201", "many"])
def test_an_invalid_number_of_buckets_is_refused_with_its_field(buckets: str) -> None:
    lessons = Class({"a": lesson()})

    answer = APIClient().get(
        f"/api/v1/runs/{lessons.run.name}/lessons/progress",
        {"buckets": buckets},
        headers=lessons.reader,
    )

    assert answer.status_code == 400
    assert "buckets" in answer.json()["detail"]


def test_a_run_without_lessons_has_no_progress() -> None:
    run = make_run(name="outside")

    answer = APIClient().get(
        f"/api/v1/runs/{run.name}/lessons/progress", headers=bearer("read", run=run)
    )

    assert (answer.status_code, answer.json()["code"]) == (409, "no_curriculum")


@pytest.mark.parametrize("model", [Lesson, LessonChange, LessonOutcome, Evaluation])
def test_tables_of_lessons_are_read_only(
    model: type[Lesson | LessonChange | LessonOutcome | Evaluation],
) -> None:
    lessons = Class({"a": lesson(stop_success=0.5), "b": lesson("a")})
    lessons.evaluate_all(successes=32)
    admin = Client()
    admin.force_login(User.objects.create_superuser("root"))
    table = f"/admin/rollouts/{model.__name__.lower()}/"
    row = model.objects.first()
    assert row is not None

    listed, shown = admin.get(table), admin.get(f"{table}{row.pk}/change/")

    assert (listed.status_code, shown.status_code) == (200, 200)
    assert "words" in listed.content.decode()
    assert 'name="_save"' not in shown.content.decode()
    assert admin.get(f"{table}add/").status_code == 403
