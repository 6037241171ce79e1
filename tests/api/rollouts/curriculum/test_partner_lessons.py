"""Lessons of verifiers and OpenEnv are checked as far as the server has their settings."""

import json
import sys
from typing import Any

import pytest
from rest_framework.test import APIClient

from runs.lifecycle.models import Run
from tests.factories import bearer
from tests.lesson_factories import language

pytestmark = pytest.mark.django_db

CHECKPOINT = {"checkpoint": "qwen", "tokenizer": "checkpoint"}
WEIGH = {"python": sys.executable, "env": {"taskset": {"id": "weighing"}}}


@pytest.fixture(autouse=True)
def registered(settings: Any) -> Any:
    settings.ROLLDECK_ENVIRONMENTS = ["verifiers:weigh", "openenv:guess"]
    settings.ROLLDECK_VERIFIERS = settings.ROLLDECK_OPENENV = ""
    settings.RAY_ADDRESS = "127.0.0.1:6379"
    return settings


def create(spec: str, **kwargs: Any) -> Any:
    config = language({"a": {"spec": spec, "kwargs": kwargs}}, model=CHECKPOINT)
    request = {"name": "words", "config": config}
    return APIClient().post("/api/v1/runs", request, format="json", headers=bearer("admin"))


def error(answer: Any) -> tuple[str, str]:
    assert answer.status_code == 400, answer.content
    [found] = answer.json()["errors"]
    return found["field"], found["message"]


@pytest.mark.parametrize("spec", ["verifiers:weigh", "openenv:guess"])
def test_a_setting_that_only_the_workers_have_is_left_to_them(spec: str) -> None:
    assert create(spec).status_code == 201
    assert Run.objects.filter(name="words").exists()


def test_valid_settings_are_accepted(registered: Any) -> None:
    registered.ROLLDECK_VERIFIERS = json.dumps({"weigh": WEIGH})
    registered.ROLLDECK_OPENENV = json.dumps({"guess": {"url": "http://games:8000"}})

    assert create("verifiers:weigh", max_turns=3).status_code == 201
    Run.objects.filter(name="words").delete()
    assert create("openenv:guess", seeds=4).status_code == 201


@pytest.mark.parametrize("spec", ["verifiers:weigh", "openenv:guess"])
def test_a_check_leaves_the_construction_to_the_workers(registered: Any, spec: str) -> None:
    registered.RAY_ADDRESS = ""
    registered.ROLLDECK_VERIFIERS = json.dumps({"weigh": WEIGH})
    registered.ROLLDECK_OPENENV = json.dumps({"guess": {"url": "http://games:8000"}})
    config = language({"a": {"spec": spec}}, model=CHECKPOINT)
    request = {"name": "words", "config": config}

    answer = (
        APIClient()
        .post("/api/v1/run-checks", request, format="json", headers=bearer("admin"))
        .json()
    )

    [found] = [one for one in answer["findings"] if one["subject"] == "Environment"]
    assert (found["level"], found["field"]) == ("info", "language.lessons.a.spec")
    assert found["message"].startswith(f"{spec} was not constructed")
    assert not [one for one in answer["findings"] if one["level"] == "error"]


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("{", "ROLLDECK_VERIFIERS of "),
        (json.dumps({"other": WEIGH}), "verifiers:weigh is not in ROLLDECK_VERIFIERS"),
        (json.dumps({"weigh": WEIGH | {"python": ""}}), "python"),
        (json.dumps({"weigh": WEIGH | {"env": {}}}), "env.taskset.id is missing"),
        (
            json.dumps({"weigh": WEIGH | {"python": "/opt/absent/bin/python"}}),
            "ROLLDECK_VERIFIERS: python: /opt/absent/bin/python is not an executable file",
        ),
        (json.dumps({"weigh": WEIGH | {"python": __file__}}), "is not an executable file"),
    ],
)
def test_an_invalid_setting_of_verifiers_is_refused_with_its_name(
    registered: Any, setting: str, text: str
) -> None:
    registered.ROLLDECK_VERIFIERS = setting

    field, message = error(create("verifiers:weigh"))

    assert field == "config.language.lessons.a.spec"
    assert text in message
    assert not Run.objects.filter(name="words").exists()


def test_paths_of_other_machines_are_not_checked(registered: Any) -> None:
    registered.RAY_ADDRESS = "ray.example:6379"
    setting = {"weigh": WEIGH | {"python": "/opt/absent/bin/python"}}
    registered.ROLLDECK_VERIFIERS = json.dumps(setting)

    assert create("verifiers:weigh").status_code == 201


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ({"other": {"url": "http://games:8000"}}, "openenv:guess is not in ROLLDECK_OPENENV"),
        ({"guess": {"url": "games:8000"}}, "url"),
        ({"guess": {}}, "url"),
    ],
)
def test_an_invalid_setting_of_openenv_is_refused_with_its_name(
    registered: Any, setting: dict[str, Any], text: str
) -> None:
    registered.ROLLDECK_OPENENV = json.dumps(setting)

    field, message = error(create("openenv:guess"))

    assert field == "config.language.lessons.a.spec"
    assert "ROLLDECK_OPENENV" in message
    assert text in message


@pytest.mark.parametrize(
    ("spec", "kwargs"), [("verifiers:weigh", {"max_turns": 0}), ("openenv:guess", {"turns": 3})]
)
def test_invalid_arguments_are_refused(spec: str, kwargs: dict[str, Any]) -> None:
    field, message = error(create(spec, **kwargs))

    assert field == "config.language.lessons.a.kwargs"
    assert next(iter(kwargs)) in message
