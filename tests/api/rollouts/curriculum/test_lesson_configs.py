"""Runs with lessons that cannot be learned are rejected on creation."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from runs.lifecycle.models import Run
from tests.factories import bearer
from tests.lesson_factories import Class, language, lesson

pytestmark = pytest.mark.django_db

WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "no lessons": (language({}), "lessons", "at least one lesson is required"),
    "lessons that wait for each other": (
        language({"a": lesson("b"), "b": lesson("a")}),
        "lessons.a.requires",
        "a → b → a",
    ),
    "a lesson that is not there": (
        language({"a": lesson("b")}),
        "lessons.a.requires.0.lesson",
        "lesson 'b' does not exist",
    ),
    "a goal that the evaluation cannot show": (
        language({"a": lesson(stop_success=0.99)}),
        "lessons.a.stop_success",
        "at least 268 are needed",
    ),
    "a stop token outside the alphabet": (
        language({"a": lesson(sampling={"stop_token_ids": [1, 900]})}),
        "lessons.a.sampling.stop_token_ids[1]",
        "token 900 is outside the vocabulary",
    ),
    "a lesson without prompts": (
        language({"a": lesson(prompts_per_batch=0)}),
        "lessons.a.prompts_per_batch",
        ">= 1",
    ),
    "an unknown strategy": (
        language({"a": lesson()}, strategy="greedy"),
        "strategy",
        "ROLLDECK_STRATEGIES",
    ),
    "an unknown option": (
        language({"a": lesson()}, strategy_options={"floor": 0.1}),
        "strategy_options.floor",
        "minimum_sample_probability",
    ),
    "an option of the other strategy": (
        language({"a": lesson()}, strategy="marin", strategy_options={"reactivates": True}),
        "strategy_options.reactivates",
        "unknown option",
    ),
    "an option of the wrong kind": (
        language({"a": lesson()}, strategy_options={"reactivates": 0.5}),
        "strategy_options.reactivates",
        "bool",
    ),
    "an option that follows from others": (
        language({"a": lesson()}, strategy_options={"evaluation_samples": 9}),
        "strategy_options.evaluation_samples",
        "evaluation.examples",
    ),
    "a floor that cannot hold": (
        language(
            {"a": lesson(), "b": lesson()}, strategy_options={"minimum_sample_probability": 0.6}
        ),
        "strategy_options.minimum_sample_probability",
        "2 lessons",
    ),
    "an unknown task": (
        language({"a": lesson(spec="task:poetry")}),
        "lessons.a.spec",
        "task:reverse",
    ),
    "an argument that the task lacks": (
        language({"a": lesson(kwargs={"depth": 2})}),
        "lessons.a.kwargs.depth",
        "length",
    ),
    "an unregistered environment": (
        language({"a": lesson(spec="lab:maze")}),
        "lessons.a.spec",
        "ROLLDECK_ENVIRONMENTS",
    ),
}


@pytest.mark.parametrize(("config", "field", "words"), WRONG.values(), ids=WRONG.keys())
def test_invalid_lessons_are_refused_with_their_field(
    config: dict[str, Any], field: str, words: str
) -> None:
    body = {"name": "words", "config": config}

    answer = APIClient().post("/api/v1/runs", body, format="json", headers=bearer("admin"))

    assert answer.status_code == 400
    problem = answer.json()["errors"][0]
    assert problem["field"] == f"config.language.{field}"
    assert words in problem["message"]
    assert not Run.objects.filter(name="words").exists()


class FirstOnly:
    """A third-party strategy that always draws the first lesson."""

    def __init__(self, keenness: float = 1.0) -> None:
        self.keenness = keenness

    def check(self, lessons: Any) -> None:
        """Accept all lessons."""

    def success(self, *_: Any) -> float:
        return 0.25

    def weight(self, *_: Any) -> float:
        return self.keenness

    def shares(self, weights: Any) -> dict[str, float]:
        first = next(iter(weights))
        return {name: float(name == first) for name in weights}

    def decide(self, *_: Any) -> None:
        """Keep the status of every lesson."""


NAME = f"{__name__}:FirstOnly"


def test_a_registered_strategy_decides(settings: Any) -> None:
    settings.ROLLDECK_STRATEGIES = [NAME]
    lessons = Class(
        {"a": lesson(), "b": lesson()}, strategy=NAME, strategy_options={"keenness": 2.0}
    )
    lessons.evaluate_all(successes=32)

    assert {lessons.task()["lesson"] for _ in range(10)} == {"a"}
    assert lessons.lessons()["b"]["success"] == 0.25


def test_a_registered_strategy_that_cannot_be_imported_is_reported(settings: Any) -> None:
    settings.ROLLDECK_STRATEGIES = ["no.such.module:Strategy"]
    config = language({"a": lesson()}, strategy="no.such.module:Strategy")

    answer = APIClient().post(
        "/api/v1/runs", {"name": "words", "config": config}, format="json", headers=bearer("admin")
    )

    assert answer.status_code == 400
    assert "cannot be imported" in answer.json()["errors"][0]["message"]


def created(config: dict[str, Any]) -> Run:
    """Return a run created through the API."""
    body = {"name": "words", "config": config}
    answer = APIClient().post("/api/v1/runs", body, format="json", headers=bearer("admin"))
    assert answer.status_code == 201, answer.content
    return Run.objects.get(name="words")


def test_lessons_are_listed_in_configured_order() -> None:
    # Not in the order of the database's object keys, which sorts shorter names first.
    written = ["the-first-of-all", "second", "third-one", "z", "a"]
    run = created(language({name: lesson() for name in written}))

    shown = APIClient().get("/api/v1/runs/words/lessons", headers=bearer("read", run=run))

    assert run.config["language"]["lesson_order"] == written
    assert [row["name"] for row in shown.json()["results"]] == written


def test_lessons_are_listed_in_the_requested_order() -> None:
    run = created(
        language({"a": lesson(), "b": lesson(), "c": lesson()}, lesson_order=["gone", "c"])
    )

    assert run.config["language"]["lesson_order"] == ["c", "a", "b"]
