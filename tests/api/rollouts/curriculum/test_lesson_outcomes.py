"""Reported outcomes unlock, graduate and reactivate lessons."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from rollouts.curriculum.models import Lesson, LessonChange, LessonOutcome
from runs.events.models import RunEvent
from tests.lesson_factories import Class, lesson

pytestmark = pytest.mark.django_db


def kinds(lessons: Class) -> list[str]:
    events = RunEvent.objects.filter(run=lessons.run, actor="curriculum").order_by("pk")
    return list(events.values_list("kind", flat=True))


def test_a_repeated_outcome_counts_once() -> None:
    lessons = Class({"a": lesson()})
    outcome = lessons.outcome([1.0, 0.0, 0.0, 0.0], generations=4, tokens=40, truncated=1)

    answers = [lessons.post("lessons/a/outcomes", outcome) for _ in range(3)]

    assert [answer.json()["is_new"] for answer in answers] == [True, False, False]
    row = lessons.lessons()["a"]
    assert (row["samples"], row["tokens_mean"], row["truncated_share"]) == (4, 10.0, 0.25)
    assert LessonOutcome.objects.count() == 1


def test_groups_without_variance_are_counted() -> None:
    lessons = Class({"a": lesson()})
    lessons.report("a", [1.0] * 8, generations=4, zero_variance_groups=2, duplicates=3)
    lessons.report("a", [1.0, 0.0, 1.0, 0.0], generations=4)

    row = lessons.lessons()["a"]

    assert row["zero_variance_share"] == pytest.approx(2 / 3)
    assert row["duplicate_share"] == pytest.approx(3 / 12)


def test_a_lesson_graduates_by_its_evaluation_and_unlocks_its_dependents() -> None:
    lessons = Class({"a": lesson(stop_success=0.8), "b": lesson("a"), "c": lesson("b")})
    lessons.report("a", [1.0] * 64)
    assert lessons.lessons()["a"]["status"] == "active"

    outcome = lessons.finish(lessons.task(), successes=32).json()

    assert len(outcome["changes"]) == 2
    assert {name: row["status"] for name, row in lessons.lessons().items()} == {
        "a": "graduated",
        "b": "active",
        "c": "locked",
    }
    assert kinds(lessons) == ["lesson_graduated", "lesson_unlocked"]
    history = lessons.get("lessons/history")["results"]
    assert [(row["lesson"], row["source"], row["target"]) for row in history] == [
        ("b", "locked", "active"),
        ("a", "active", "graduated"),
    ]
    assert history[1]["reason"].startswith("evaluation succeeded 32 times of 32: at least 0.9")
    assert history[1]["figures"]["lower_bound"] > 0.9
    assert (history[1]["epoch"], history[1]["policy_step"]) == (1, 0)
    assert lessons.get("lessons/history", lesson="b", limit=5)["results"] == history[:1]


def test_a_graduated_lesson_that_gets_worse_is_active_again() -> None:
    lessons = Class({"a": lesson(stop_success=0.8)})
    lessons.finish(lessons.task(), successes=32)
    lessons.get("lessons")
    for step in (5, 10, 15, 20):
        lessons.publish(step)
        lessons.evaluate_all(successes=5)

    row = lessons.lessons()["a"]

    assert row["status"] == "active"
    assert row["reason"].startswith("evaluation fell to 5 of 32")
    assert "lesson_reactivated" in kinds(lessons)
    assert row["probability"] == 1.0


def test_a_regression_is_reported_once_without_reactivation() -> None:
    lessons = Class({"a": lesson(stop_success=0.8)}, strategy_options={"reactivates": False})
    lessons.finish(lessons.task(), successes=32)
    for step in range(5, 65, 5):
        lessons.publish(step)
        lessons.evaluate_all(successes=5)
    assert lessons.lessons()["a"]["has_regressed"] is True
    for step in range(65, 85, 5):
        lessons.publish(step)
        lessons.evaluate_all(successes=32)

    row = lessons.lessons()["a"]

    assert (row["status"], row["has_regressed"]) == ("graduated", False)
    assert kinds(lessons).count("lesson_regressed") == 1


def test_failure_unlocks_nothing_and_a_plateau_of_success_does() -> None:
    flat = lesson(plateau_window=64, stop_success=0.9)
    lessons = Class({"a": flat, "hopeless": flat, "b": lesson("a"), "c": lesson("hopeless")})
    for _ in range(8):
        lessons.report("a", [1.0, 1.0, 1.0, 0.0] * 8)
        lessons.report("hopeless", [0.0] * 32)

    rows = lessons.lessons()

    assert (rows["b"]["status"], rows["c"]["status"]) == ("active", "locked")
    assert rows["c"]["reason"] == "requires hopeless (active, success 0.02)"


def test_the_published_strategy_can_be_chosen() -> None:
    lessons = Class(
        {"a": lesson(plateau_window=50, stop_success=0.99), "b": lesson("a")}, strategy="marin"
    )
    lessons.evaluate_all(successes=0)
    for _ in range(3):
        lessons.report("a", [1.0] * 40)

    rows = lessons.lessons()

    assert rows["a"]["success"] == pytest.approx(1 - 0.5 * 0.9**120)
    assert (rows["a"]["status"], rows["b"]["status"]) == ("graduated", "active")


def test_a_micro_evaluation_is_logged_and_changes_no_state() -> None:
    lessons = Class({"a": lesson(stop_success=0.5)})
    before = lessons.lessons()["a"]

    lessons.report("a", [1.0] * 64, mode="micro_eval")

    after = lessons.lessons()["a"]
    assert after | {"revision": 0} == before | {"revision": 0}
    row = LessonOutcome.objects.get()
    assert (row.mode, row.counted, row.samples, row.successes) == ("micro_eval", False, 64, 64)


def test_outcomes_of_an_older_epoch_are_only_logged() -> None:
    lessons = Class({"a": lesson()})
    lessons.publish(0, epoch=2)

    assert lessons.report("a", [1.0] * 8, epoch=1).json()["is_new"] is True

    assert lessons.lessons()["a"]["samples"] == 0


def test_a_failing_lesson_is_reported_at_intervals_and_continues() -> None:
    lessons = Class({"a": lesson()})
    for _ in range(3):
        assert lessons.report("a", [], error="no such file").status_code == 200
    assert kinds(lessons) == ["lesson_failed"]
    Lesson.objects.update(told_of_error_at=Now() - timedelta(minutes=2))

    lessons.report("a", [], error="no such file")
    lessons.report("a", [1.0])

    row = lessons.lessons()["a"]
    assert kinds(lessons) == ["lesson_failed", "lesson_failed"]
    assert (row["errors"], row["last_error"], row["samples"]) == (4, "no such file", 1)
    assert row["status"] == "active"


def test_evaluations_show_figures_and_the_newest_their_answers() -> None:
    lessons = Class({"a": lesson()}, evaluation={"generations": 2})
    sample = {"prompt": "abc=", "response": "cba", "reward": 1.0, "is_correct": True}
    for step in (0, 5):
        lessons.publish(step)
        response = lessons.finish(lessons.task(), successes=33, tokens=640, samples=[sample])
        assert response.status_code == 200

    newest, first = lessons.get("evaluations", lesson="a")["results"]

    assert (newest["round"], newest["policy_step"], newest["state"]) == (2, 5, "done")
    assert (newest["samples"], first["samples"]) == ([sample], [])
    figures = newest["figures"]
    assert (figures["problems"], figures["generations"], figures["tokens"]) == (32, 2, 640)
    assert figures["success"]["estimate"] == pytest.approx(33 / 64)
    assert figures["success"]["low"] < 0.5 < figures["success"]["high"]
    assert figures["pass_at"]["2"] == pytest.approx(17 / 32)
    assert lessons.get("evaluations", lesson="nobody")["results"] == []


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "more successes than rewards": ({"successes": [True] * 3}, "successes"),
    "half a group": ({"generations": 3}, "rewards"),
    "a reward that is text": ({"rewards": ["x", 1.0]}, "rewards[0]"),
    "an unknown mode": ({"mode": "test"}, "mode"),
    "an evaluation without its id": ({"mode": "eval"}, "evaluation"),
    "an evaluation with other answers": (
        {"mode": "eval", "generations": 2, "evaluation": "x"},
        "generations",
    ),
    "an unknown field": ({"loss": 1}, "loss"),
    "no key": ({"key": ""}, "key"),
}


@pytest.mark.parametrize(("fields", "field"), WRONG.values(), ids=WRONG.keys())
def test_invalid_outcomes_are_refused_with_their_field_and_not_stored(
    fields: dict[str, Any], field: str
) -> None:
    lessons = Class({"a": lesson()})

    outcome = lessons.outcome([1.0, 0.0]) | fields
    answer = lessons.post("lessons/a/outcomes", outcome)

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
    assert not LessonOutcome.objects.exists()


def test_unknown_lessons_and_evaluations_are_not_found() -> None:
    lessons = Class({"a": lesson(), "b": lesson()})
    task = lessons.task()

    assert lessons.report("nobody", [1.0]).status_code == 404
    assert lessons.finish(task | {"lesson": "b"}, successes=1).status_code == 404
    assert not LessonChange.objects.exists()
