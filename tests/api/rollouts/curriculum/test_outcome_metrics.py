"""Series of a run from the outcomes of its lessons, and answers of micro-evaluations."""

from typing import Any

import pytest
from django.test import Client

from rollouts.curriculum.models import Evaluation, Lesson, LessonChange, LessonOutcome
from rollouts.curriculum.services import tasks
from rollouts.metrics.models import MetricSample, MetricSeries
from rollouts.metrics.services import metrics as metric_services
from runs.access.models import User
from tests.lesson_factories import Class, lesson

pytestmark = pytest.mark.django_db(transaction=True)


def series(lessons: Class) -> dict[str, list[tuple[int, float]]]:
    """Return the samples of each name, except those of the curriculum."""
    rows = MetricSample.objects.filter(run=lessons.run).order_by("pk")
    found: dict[str, list[tuple[int, float]]] = {}
    for name, step, value in rows.values_list("series__name", "step", "value"):
        if not name.startswith("curriculum/"):
            found.setdefault(name, []).append((step, value))
    return found


def sample(place: int) -> dict[str, Any]:
    return {"prompt": f"p{place}", "response": "r", "reward": 1.0, "is_correct": True}


def test_a_training_outcome_becomes_samples_with_the_metrics_of_its_environment() -> None:
    lessons = Class({"a": lesson()})
    lessons.publish(3)

    lessons.report(
        "a",
        [1.0, 0.0, 0.5, 0.5],
        generations=2,
        tokens=40,
        length_p95=14.5,
        truncated=1,
        duplicates=1,
        zero_variance_groups=1,
        seconds=2.0,
        metrics={"turns_mean": 1.5},
    )

    assert series(lessons) == {
        "rollout/a/success": [(3, 0.75)],
        "rollout/a/reward": [(3, 0.5)],
        "rollout/a/reward_deviation": [(3, 0.25)],
        "rollout/a/zero_variance_share": [(3, 0.5)],
        "rollout/a/duplicate_share": [(3, 0.25)],
        "rollout/a/tokens": [(3, 10.0)],
        "rollout/a/length_p95": [(3, 14.5)],
        "rollout/a/tokens_per_second": [(3, 20.0)],
        "rollout/a/truncated_share": [(3, 0.25)],
        "rollout/a/failed_share": [(3, 0.0)],
        "env/a/turns_mean": [(3, 1.5)],
    }


def test_the_figures_of_groups_of_several_sizes_are_those_of_each_group() -> None:
    lessons = Class({"a": lesson()})

    lessons.report("a", [1.0, 0.0, 2.0], generations=2, sizes=[2, 1], zero_variance_groups=0)

    found = series(lessons)
    assert found["rollout/a/reward_deviation"] == [(0, 0.25)]
    assert found["rollout/a/zero_variance_share"] == [(0, 0.0)]
    # A worker of an earlier release sends neither length nor time.
    assert not {"rollout/a/length_p95", "rollout/a/tokens_per_second"} & found.keys()


def test_evaluations_of_both_kinds_become_samples() -> None:
    lessons = Class({"a": lesson()})

    lessons.finish(lessons.task(), successes=16, metrics={"turns_mean": 2.0})
    lessons.report("a", [1.0, 0.0], mode="micro_eval", metrics={"turns_mean": 3.0})

    found = series(lessons)
    assert found["eval/a/success"] == [(0, 0.5)]
    ((_, low),), ((_, high),) = found["eval/a/success/low"], found["eval/a/success/high"]
    assert (round(low, 3), round(high, 3)) == (0.36, 0.64)
    assert not any("pass_at" in name for name in found)
    assert found["eval/a/env/turns_mean"] == [(0, 2.0)]
    assert found["micro_eval/a/success"] == [(0, 0.5)]
    assert found["micro_eval/a/reward"] == [(0, 0.5)]
    assert found["micro_eval/a/env/turns_mean"] == [(0, 3.0)]


def test_an_evaluation_with_several_answers_adds_pass_at_k() -> None:
    lessons = Class({"a": lesson()}, evaluation={"generations": 2})

    lessons.finish(lessons.task(), successes=32)

    found = series(lessons)
    assert found["eval/a/success"] == [(0, 0.5)]
    assert found["eval/a/pass_at/2"] == [(0, 0.5)]
    assert "eval/a/pass_at/1" not in found


def shares(lessons: Class) -> dict[str, list[tuple[int, float]]]:
    """Return the shares of tasks at each version, by lesson."""
    rows = MetricSample.objects.filter(
        run=lessons.run, series__name__startswith="curriculum/share/"
    ).order_by("pk")
    found: dict[str, list[tuple[int, float]]] = {}
    for name, step, value in rows.values_list("series__name", "step", "value"):
        found.setdefault(name.removeprefix("curriculum/share/"), []).append((step, round(value, 3)))
    return found


def test_the_share_of_each_unlocked_lesson_has_one_point_per_version() -> None:
    lessons = Class({"a": lesson(stop_success=0.5), "b": lesson(), "c": lesson("a")})
    lessons.evaluate_all(successes=0)
    for _ in range(3):
        lessons.task()
    assert shares(lessons) == {"a": [(0, 0.5)], "b": [(0, 0.5)]}

    lessons.publish(5)
    while (task := lessons.task())["kind"] == "evaluate":
        lessons.finish(task, successes=32 if task["lesson"] == "a" else 0)

    seen = shares(lessons)
    assert {name: [step for step, _ in line] for name, line in seen.items()} == {
        "a": [0, 5],
        "b": [0, 5],
        "c": [5],
    }
    assert sum(line[-1][1] for line in seen.values()) == pytest.approx(1, abs=0.01)


def test_of_many_lessons_the_largest_shares_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "SHARES_AT_MOST", 1)
    lessons = Class({"a": lesson(), "b": lesson()})
    lessons.evaluate_all(successes=0)

    lessons.task()

    assert len(shares(lessons)) == 1


def test_a_task_is_given_although_the_run_has_too_many_series(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lessons = Class({"a": lesson()})
    lessons.evaluate_all(successes=0)
    lessons.publish(1)
    monkeypatch.setattr(metric_services, "SERIES_AT_MOST", 0)
    MetricSample.objects.filter(run=lessons.run).delete()
    MetricSeries.objects.filter(run=lessons.run).delete()

    assert lessons.task()["kind"] == "train"
    assert not shares(lessons)


def test_a_repeated_outcome_and_one_without_results_add_no_samples() -> None:
    lessons = Class({"a": lesson()})
    outcome = lessons.outcome([1.0], metrics={"turns_mean": 1.0})

    for _ in range(2):
        assert lessons.post("lessons/a/outcomes", outcome).status_code == 200
    lessons.report("a", [], error="no simulator", metrics={"turns_mean": 9.0})

    assert series(lessons)["env/a/turns_mean"] == [(0, 1.0)]


def test_an_outcome_counts_although_the_run_has_too_many_series(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metric_services, "SERIES_AT_MOST", 2)
    lessons = Class({"a": lesson()})

    told = lessons.report("a", [1.0])

    assert told.json()["is_new"] is True
    assert lessons.lessons()["a"]["samples"] == 1
    assert not MetricSeries.objects.filter(run=lessons.run, name__startswith="rollout/").exists()


@pytest.mark.parametrize(
    ("metrics", "field"),
    [
        ({"a" * 41: 1.0}, "metrics"),
        ({"a\nb": 1.0}, "metrics"),
        ({f"m{n}": 1.0 for n in range(65)}, "metrics"),
        ({"a": 1e31}, "metrics"),
    ],
    ids=["a long name", "a line break", "too many", "too large"],
)
def test_metrics_beyond_the_limits_are_refused(metrics: dict[str, float], field: str) -> None:
    lessons = Class({"a": lesson()})

    told = lessons.report("a", [1.0], metrics=metrics)

    assert told.status_code == 400
    assert field in told.content.decode()
    assert not LessonOutcome.objects.exists()


def test_the_newest_micro_evaluations_have_their_answers() -> None:
    lessons = Class({"a": lesson(), "b": lesson()})
    for step in range(3):
        lessons.publish(step)
        answers = [sample(place) for place in range(16)]
        lessons.report("a", [1.0, 0.0], mode="micro_eval", samples=answers)
    lessons.report("a", [], mode="micro_eval", error="no simulator")
    lessons.report("b", [1.0], mode="micro_eval", samples=[sample(99)])

    rows = lessons.get("lessons/a/micro-evaluations", samples=2)["results"]

    assert [len(row["answers"]) for row in rows] == [0, 8, 8, 0]
    assert rows[1]["answers"][0] == sample(0)
    assert (rows[1]["reward_mean"], rows[1]["error"]) == (0.5, "")
    assert (rows[0]["error"], rows[0]["success"], rows[0]["samples"]) == ("no simulator", None, 0)
    default = lessons.get("lessons/a/micro-evaluations")["results"]
    assert [len(row["answers"]) for row in default] == [0, 8, 0, 0]


def test_only_the_newest_twenty_micro_evaluations_of_a_lesson_keep_answers() -> None:
    lessons = Class({"a": lesson(), "b": lesson()})
    lessons.report("b", [1.0], mode="micro_eval", samples=[sample(0)])
    for place in range(23):
        lessons.report("a", [1.0], mode="micro_eval", samples=[sample(place)])

    kept = LessonOutcome.objects.exclude(answers=[]).order_by("pk")
    assert [row.answers[0]["prompt"] for row in kept.filter(lesson="a")] == [
        f"p{place}" for place in range(3, 23)
    ]
    assert kept.filter(lesson="b").count() == 1


def test_a_training_outcome_stores_no_answers() -> None:
    lessons = Class({"a": lesson()})

    lessons.report("a", [1.0], samples=[sample(0)])

    assert LessonOutcome.objects.get().answers == []


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
