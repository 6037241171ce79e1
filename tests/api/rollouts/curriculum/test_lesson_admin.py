"""Lessons and evaluations are shown in the admin."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from rollouts.curriculum.models import Evaluation, Lesson, LessonChange, LessonOutcome
from tests.lesson_factories import Class, lesson

pytestmark = pytest.mark.django_db


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
