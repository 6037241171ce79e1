"""Save, use, change and delete presets according to their access."""

import re
from typing import Any

import pytest
from rest_framework.test import APIClient

from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.saved.models import SavedObject
from tests.factories import bearer, make_user

pytestmark = pytest.mark.django_db
FOUR = {"fleet": {"num_workers": 4}}
SECRET = {"environment": {"kwargs": {"api_key": "abc"}}}


def someone(username: str, role: str = "operator") -> APIClient:
    client = APIClient()
    client.force_login(make_user(username=username, role=role))
    return client


@pytest.fixture
def olga() -> APIClient:
    return someone("olga")


@pytest.fixture
def oscar() -> APIClient:
    return someone("oscar")


def save(client: APIClient, name: str = "four", **fields: Any) -> Any:
    body = {"name": name, "config": FOUR} | fields
    return client.post("/api/v1/presets", body, format="json")


def change(client: APIClient, name: str = "four", *, revision: int = 1, **fields: Any) -> Any:
    return client.patch(f"/api/v1/presets/{name}", {"revision": revision} | fields, format="json")


def names(client: APIClient) -> list[str]:
    return [row["name"] for row in client.get("/api/v1/presets").json()["results"]]


def error_of(answer: Any) -> tuple[int, str, list[str]]:
    problem = answer.json()
    return answer.status_code, problem["code"], [each["field"] for each in problem["errors"]]


def test_a_stored_preset_configures_a_run(olga: APIClient) -> None:
    saved = save(olga, description="four of them", access="shared", reason="for the sweep")

    assert saved.status_code == 201
    preset = saved.json()
    assert (preset["owner"], preset["kind"], preset["may_change"]) == ("olga", "fleet", True)
    assert preset["config"]["fleet"]["num_workers"] == 4
    assert preset["config"]["num_steps"] == 1000, "defaults are written out"
    body = {"name": "alpha", "preset": "four", "config": {"seed": 7}}
    run = olga.post("/api/v1/runs", body, format="json").json()
    assert (run["preset"], run["num_workers"], run["config"]["seed"]) == ("four", 4, 7)
    event = RunEvent.objects.get(kind="preset_saved")
    assert (event.actor, event.reason) == ("user:olga", "for the sweep")


def test_a_private_preset_is_visible_to_its_owner_only(olga: APIClient, oscar: APIClient) -> None:
    save(olga)
    ada = someone("ada", "admin")

    assert [names(client) for client in (olga, oscar, ada)] == [["four"], [], []]
    for other in (oscar, ada):
        assert other.get("/api/v1/presets/four").status_code == 404
        assert change(other, description="mine").status_code == 404
        assert other.delete("/api/v1/presets/four").status_code == 404
        launch = other.post("/api/v1/runs", {"name": "a", "preset": "four"}, format="json")
        assert error_of(launch) == (400, "invalid", ["preset"])
        assert error_of(save(other)) == (409, "preset_exists", ["name"])
    checked = olga.post("/api/v1/run-checks", {"preset": "nobody-has-it"}, format="json").json()
    assert [finding["field"] for finding in checked["findings"]] == ["preset"]


def test_a_shared_preset_is_changed_by_its_owner_and_an_open_one_by_operators(
    olga: APIClient, oscar: APIClient
) -> None:
    save(olga, access="shared")
    assert error_of(change(oscar, description="mine"))[:2] == (403, "forbidden")
    assert oscar.delete("/api/v1/presets/four").status_code == 403
    [row] = oscar.get("/api/v1/presets").json()["results"]
    assert row["may_change"] is False

    assert change(olga, access="open").status_code == 200
    changed = change(oscar, revision=2, config={"fleet": {"num_workers": 8}}, reason="more")

    assert changed.json()["config"]["fleet"]["num_workers"] == 8
    assert (changed.json()["revision"], changed.json()["changed_by"]) == (3, "user:oscar")
    event = RunEvent.objects.filter(kind="preset_changed").latest("pk")
    assert event.details["config.fleet.num_workers"] == {"before": 4, "after": 8}
    assert event.reason == "more"


def test_the_later_of_two_changes_is_refused(olga: APIClient) -> None:
    save(olga)
    assert change(olga, description="first").status_code == 200

    assert error_of(change(olga, description="second"))[:2] == (409, "preset_changed")
    assert olga.get("/api/v1/presets/four").json()["description"] == "first"


def test_the_audit_omits_the_contents_of_private_presets(olga: APIClient) -> None:
    save(olga)
    change(olga, config={"fleet": {"num_workers": 8}}, access="shared")

    row, event = SavedObject.objects.get(), RunEvent.objects.get(kind="preset_changed")
    access = {"before": "private", "after": "shared"}
    assert event.details == {"id": row.pk, "name": "four", "access": access}
    assert event.message == "preset four changed: access, config"


def test_a_deleted_preset_frees_its_name_and_keeps_its_runs(olga: APIClient) -> None:
    save(olga)
    olga.post("/api/v1/runs", {"name": "alpha", "preset": "four"}, format="json")

    assert olga.delete("/api/v1/presets/four?reason=too+many").status_code == 204
    assert olga.delete("/api/v1/presets/four").status_code == 404
    assert RunEvent.objects.get(kind="preset_deleted").reason == "too many"
    assert Run.objects.get(name="alpha").config["fleet"]["num_workers"] == 4
    assert names(olga) == []
    assert save(olga).status_code == 201
    assert SavedObject.objects.count() == 2


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"name": "cartpole"}, (409, "preset_exists", ["name"])),
        ({"name": "no spaces"}, (400, "invalid", ["name"])),
        ({"access": "mine"}, (400, "invalid", ["access"])),
        ({"description": "x" * 301}, (400, "invalid", ["description"])),
        ({"config": {"surprise": 1}}, (400, "invalid", ["config.surprise"])),
        ({"config": SECRET}, (400, "invalid", ["config.environment.kwargs.api_key"])),
        ({"more": 1}, (400, "invalid", ["more"])),
    ],
)
def test_an_invalid_preset_is_refused_with_its_field(
    olga: APIClient, fields: dict[str, Any], expected: tuple[int, str, list[str]]
) -> None:
    assert error_of(save(olga, **fields)) == expected
    assert not SavedObject.objects.exists()


def test_a_change_that_adds_a_secret_is_refused(olga: APIClient) -> None:
    save(olga)

    refused = change(olga, config=SECRET)
    assert error_of(refused) == (400, "invalid", ["config.environment.kwargs.api_key"])


def test_a_token_cannot_create_private_presets() -> None:
    machine = APIClient(headers=bearer("admin"))

    assert error_of(save(machine)) == (400, "invalid", ["access"])
    assert save(machine, access="open").json()["owner"] is None
    refused = change(machine, access="private")
    assert error_of(refused) == (400, "invalid", ["access"])


def test_the_immutable_id_is_accepted_wherever_the_name_is(olga: APIClient) -> None:
    uid = save(olga, access="shared").json()["uid"]
    assert re.fullmatch(r"preset_[0-9a-f]{24}", uid)

    assert olga.get(f"/api/v1/presets/{uid}").json()["name"] == "four"
    changed = change(olga, uid, description="of them").json()
    assert (changed["uid"], changed["description"]) == (uid, "of them")
    body = {"name": "alpha", "preset": uid}
    assert olga.post("/api/v1/runs", body, format="json").json()["preset"] == "four"
    checked = olga.post("/api/v1/run-checks", {"preset": uid}, format="json").json()
    assert checked["suggested_name"] == "four-1"
    project = {"name": "poles", "defaults": {"preset": uid}}
    made = olga.post("/api/v1/projects", project, format="json").json()
    assert made["defaults"]["preset"] == "four"

    assert olga.delete(f"/api/v1/presets/{uid}").status_code == 204
    again = save(olga).json()
    assert (again["name"], again["uid"] == uid) == ("four", False)
    assert olga.get(f"/api/v1/presets/{uid}").status_code == 404
    launch = olga.post("/api/v1/runs", {"name": "b", "preset": uid}, format="json")
    assert error_of(launch) == (400, "invalid", ["preset"])


def test_no_name_has_the_form_of_an_id(olga: APIClient) -> None:
    assert error_of(save(olga, f"preset_{'0' * 24}")) == (400, "invalid", ["name"])
