"""Environments are probed before a launch, and administrators deny them to new runs."""

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from rollouts.environments.models import DeniedEnvironment
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from tests.factories import make_run, make_user
from tests.lesson_factories import language, lesson

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("gateway")]

SPEC = "rolldeck:recall-v0"


def person(name: str, role: str) -> Client:
    client = Client()
    client.force_login(make_user(username=name, role=role))
    return client


@pytest.fixture
def ada() -> Client:
    return person("ada", "admin")


@pytest.fixture
def olga() -> Client:
    return person("olga", "operator")


def approve(client: Client, *, is_allowed: bool, reason: str = "", spec: str = SPEC) -> Any:
    body = {"spec": spec, "is_allowed": is_allowed, "reason": reason}
    return client.put("/api/v1/environments/approvals", body, content_type="application/json")


def probe(client: Client, **fields: Any) -> Any:
    body = {"spec": SPEC, "kwargs": {"delay": 4}, **fields}
    return client.post("/api/v1/environments/probes", body, content_type="application/json")


def launch(client: Client, name: str, **config: Any) -> Any:
    body = {"kind": "fleet", "name": name, "start": False, "config": config}
    return client.post("/api/v1/runs", body, content_type="application/json")


def row(client: Client, spec: str = SPEC) -> Any:
    (environment,) = client.get("/api/v1/environments", {"q": spec}).json()["results"]
    return environment


def test_a_denied_environment_is_refused_to_new_runs_until_it_is_allowed(
    ada: Client, olga: Client
) -> None:
    config = {"environment": {"spec": SPEC}}
    assert approve(ada, is_allowed=False, reason="it leaks memory").status_code == 204
    assert approve(ada, is_allowed=False, reason="again").status_code == 204

    refused = launch(olga, "late", **config)
    assert refused.status_code == 400
    (error,) = refused.json()["errors"]
    assert error["field"] == "config.environment.spec"
    assert "it leaks memory" in error["message"]
    assert not Run.objects.exists()
    check = olga.post(
        "/api/v1/run-checks", {"config": config}, content_type="application/json"
    ).json()
    assert check["result"] == "refused"
    assert launch(olga, "another").status_code == 201
    denied = row(olga)["denied"]
    assert (denied["reason"], denied["denied_by"]) == ("it leaks memory", "ada")
    assert row(olga, "CartPole-v1")["denied"] is None

    assert approve(ada, is_allowed=True, reason="mended").status_code == 204
    assert launch(olga, "late", **config).status_code == 201
    assert row(olga)["denied"] is None
    events = RunEvent.objects.filter(kind__startswith="environment_").order_by("pk")
    assert list(events.values_list("kind", "actor", "reason")) == [
        ("environment_denied", "user:ada", "it leaks memory"),
        ("environment_allowed", "user:ada", "mended"),
    ]


def test_a_denied_lesson_is_named_by_its_field(ada: Client, olga: Client) -> None:
    config = language(lessons={"sums": lesson()})
    spec = config["language"]["lessons"]["sums"]["spec"]
    assert approve(ada, is_allowed=False, reason="too easy", spec=spec).status_code == 204
    body = {"kind": "fleet", "name": "talk", "start": False, "config": config}

    refused = olga.post("/api/v1/runs", body, content_type="application/json")

    assert [each["field"] for each in refused.json()["errors"]] == [
        "config.language.lessons.sums.spec"
    ]


def test_only_administrators_may_deny_and_only_available_environments(
    ada: Client, olga: Client, settings: Settings
) -> None:
    assert approve(olga, is_allowed=False, reason="no").status_code == 403
    assert approve(ada, is_allowed=True, spec="module:os:system").status_code == 404
    empty = approve(ada, is_allowed=False, reason="  ")
    assert [each["field"] for each in empty.json()["errors"]] == ["reason"]
    settings.ROLLDECK_ENVIRONMENTS = ["module:my_lab:Maze"]
    assert (
        approve(ada, is_allowed=False, reason="old", spec="module:my_lab:Maze").status_code == 204
    )
    assert [each.spec for each in DeniedEnvironment.objects.all()] == ["module:my_lab:Maze"]


def test_a_probe_describes_an_episode(olga: Client) -> None:
    answer = probe(olga, steps=50)

    assert answer.status_code == 200, answer.content
    tried = answer.json()
    assert (tried["trouble"], tried["is_missing"]) == ("", False)
    assert tried["action"] == "choices 2"
    episode = tried["episode"]
    assert episode["ended"] in {"terminated", "truncated"}
    assert episode["steps"] == len(episode["rewards"]) == 6
    assert episode["total_return"] == pytest.approx(sum(episode["rewards"]))
    assert (episode["outside"], episode["steps_per_second"] > 0) == ("", True)
    assert not RunEvent.objects.exists()


def test_a_long_episode_is_cut(olga: Client) -> None:
    episode = probe(olga, steps=2).json()["episode"]

    assert (episode["steps"], episode["ended"]) == (2, "cut")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"spec": "module:os:system"}, 404),
        ({"spec": "task:reverse"}, 404),
        ({"steps": 0}, 400),
        ({"steps": 1_000_000}, 400),
        ({"surprise": 1}, 400),
    ],
)
def test_environments_that_no_fleet_steps_are_not_probed(
    olga: Client, fields: dict[str, Any], status: int
) -> None:
    assert probe(olga, **fields).status_code == status


def test_a_viewer_cannot_test_a_webhook() -> None:
    make_run(name="alpha")

    assert probe(person("vic", "viewer")).status_code == 403


def test_exceptions_of_an_environment_are_reported(olga: Client) -> None:
    tried = probe(olga, kwargs={"no_such_argument": 1}).json()

    assert "no_such_argument" in tried["trouble"]
    assert tried["episode"] is None
