"""Series of a run from the outcomes of its lessons, and answers of micro-evaluations."""

from typing import Any

import pytest

from rollouts.curriculum.models import LessonOutcome
from rollouts.metrics.models import MetricSample, MetricSeries
from rollouts.metrics.services import metrics as metric_services
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

    lessons.report("a", [1.0, 0.0, 0.5, 0.0], tokens=40, truncated=1, metrics={"turns_mean": 1.5})

    assert series(lessons) == {
        "rollout/a/success": [(3, 0.5)],
        "rollout/a/reward": [(3, 0.375)],
        "rollout/a/tokens": [(3, 10.0)],
        "rollout/a/truncated_share": [(3, 0.25)],
        "env/a/turns_mean": [(3, 1.5)],
    }


def test_evaluations_of_both_kinds_become_samples() -> None:
    lessons = Class({"a": lesson()})

    lessons.finish(lessons.task(), successes=16, metrics={"turns_mean": 2.0})
    lessons.report("a", [1.0, 0.0], mode="micro_eval", metrics={"turns_mean": 3.0})

    found = series(lessons)
    assert found["eval/a/success"] == [(0, 0.5)]
    assert found["eval/a/env/turns_mean"] == [(0, 2.0)]
    assert found["micro_eval/a/success"] == [(0, 0.5)]
    assert found["micro_eval/a/reward"] == [(0, 0.5)]
    assert found["micro_eval/a/env/turns_mean"] == [(0, 3.0)]


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
