"""Projects over HTTP: definitions, defaults of launches, runs in them, activity."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.services.lifecycle import archive
from runs.lifecycle.services.registry import reset_run
from runs.projects.models import Project
from runs.projects.rules import InvalidProjectName, is_project_uid
from runs.projects.services import create_project
from tests.factories import NOON, make_project, make_run, make_user

pytestmark = pytest.mark.django_db
FOUR = {"fleet": {"num_workers": 4}}
DEFAULTS = {"preset": "cartpole", "config": FOUR | {"seed": 7}, "tags": ["Ablation"]}
SECRET = {"environment": {"kwargs": {"api_key": "abc"}}}


def create(client: APIClient, name: str = "poles", **fields: Any) -> Any:
    return client.post("/api/v1/projects", {"name": name} | fields, format="json")


def change(client: APIClient, project: str = "poles", /, **fields: Any) -> Any:
    return client.patch(f"/api/v1/projects/{project}", fields, format="json")


def launch(client: APIClient, name: str = "alpha", **fields: Any) -> Any:
    return client.post("/api/v1/runs", {"name": name, "project": "poles"} | fields, format="json")


def move(client: APIClient, run: str = "alpha", **fields: Any) -> Any:
    return client.patch(f"/api/v1/runs/{run}", fields, format="json")


def names(client: APIClient, path: str = "/api/v1/projects", **query: Any) -> list[str]:
    return [row["name"] for row in client.get(path, query).json()["results"]]


def error_of(answer: Any) -> tuple[int, str, list[str]]:
    problem = answer.json()
    return answer.status_code, problem["code"], [each["field"] for each in problem["errors"]]


def test_a_project_is_created_with_its_defaults_and_an_audit_entry(operator: APIClient) -> None:
    made = create(operator, title=" Poles ", defaults=DEFAULTS, reason="for the sweep")

    assert made.status_code == 201, made.content
    project = made.json()
    assert (project["title"], project["runs"], project["created_by"]) == ("Poles", 0, "user:olga")
    assert project["defaults"] == DEFAULTS | {"tags": ["ablation"]}
    assert operator.get("/api/v1/projects/poles").json() == project
    event = RunEvent.objects.get(kind="project_created")
    assert (event.actor, event.reason, event.run_id) == ("user:olga", "for the sweep", None)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"name": "no spaces"}, (400, "invalid", ["name"])),
        ({"name": "x" * 81}, (400, "invalid", ["name"])),
        ({"name": ""}, (400, "invalid", ["name"])),
        ({"title": "x" * 121}, (400, "invalid", ["title"])),
        ({"description": "x" * 2001}, (400, "invalid", ["description"])),
        ({"more": 1}, (400, "invalid", ["more"])),
        ({"defaults": {"more": 1}}, (400, "invalid", ["defaults.more"])),
        ({"defaults": {"preset": "none"}}, (400, "invalid", ["defaults.preset"])),
        ({"defaults": {"config": []}}, (400, "invalid", ["defaults.config"])),
        ({"defaults": {"tags": ["no space"]}}, (400, "invalid", ["defaults.tags"])),
        ({"defaults": {"config": {"surprise": 1}}}, (400, "invalid", ["defaults.config.surprise"])),
        (
            {"defaults": {"config": {"fleet": {"num_workers": 0}}}},
            (400, "invalid", ["defaults.config.fleet.num_workers"]),
        ),
        (
            {"defaults": {"config": SECRET}},
            (400, "invalid", ["defaults.config.environment.kwargs.api_key"]),
        ),
    ],
)
def test_an_invalid_project_is_refused_with_the_field(
    operator: APIClient, fields: dict[str, Any], expected: tuple[int, str, list[str]]
) -> None:
    assert error_of(create(operator, **fields)) == expected
    assert not Project.objects.exists()

    make_project(name="poles")
    if "name" not in fields or fields["name"]:
        assert error_of(change(operator, **fields)) == expected


def test_a_name_is_taken_in_upper_and_lower_case(operator: APIClient) -> None:
    create(operator)
    create(operator, "others")

    assert error_of(create(operator, "Poles")) == (409, "project_exists", ["name"])
    assert error_of(change(operator, "others", name="POLES")) == (409, "project_exists", ["name"])
    with pytest.raises(InvalidProjectName):
        create_project(name="../x", actor="tests", now=NOON)


def test_a_private_preset_is_no_default_preset(operator: APIClient) -> None:
    for name, access in (("mine", "private"), ("ours", "shared")):
        body = {"name": name, "config": FOUR, "access": access}
        operator.post("/api/v1/presets", body, format="json")

    refused = create(operator, defaults={"preset": "mine"})
    assert error_of(refused) == (400, "invalid", ["defaults.preset"])
    assert create(operator, defaults={"preset": "ours"}).status_code == 201


def test_a_launch_takes_the_defaults_under_its_own_values(operator: APIClient) -> None:
    create(operator, defaults=DEFAULTS)

    plain = launch(operator).json()
    own = launch(operator, "beta", preset="", config={"seed": 8}, tags=[]).json()
    without = launch(operator, "gamma", uses_project_defaults=False).json()

    assert (plain["project"], plain["preset"], plain["tags"]) == ("poles", "cartpole", ["ablation"])
    assert (plain["num_workers"], plain["config"]["seed"]) == (4, 7)
    assert plain["config"]["environment"]["spec"] == "gymnasium:CartPole-v1"
    assert (own["project"], own["preset"], own["tags"]) == ("poles", "", [])
    assert (own["num_workers"], own["config"]["seed"]) == (4, 8)
    assert (without["project"], without["preset"], without["tags"]) == ("poles", "", [])
    assert without["config"]["seed"] == 0


def test_an_outside_run_takes_the_tags_but_no_configuration(operator: APIClient) -> None:
    create(operator, defaults=DEFAULTS)

    run = launch(operator, kind="outside").json()

    assert (run["project"], run["tags"], run["config"]) == ("poles", ["ablation"], {})
    assert error_of(launch(operator, "beta", kind="outside", config=FOUR))[2] == ["config"]


def test_a_check_applies_the_defaults_and_names_an_unknown_project(operator: APIClient) -> None:
    make_project(name="poles", defaults={"preset": "cartpole", "config": {"seed": 7}})

    def check(**body: Any) -> dict[str, Any]:
        answer: dict[str, Any] = operator.post("/api/v1/run-checks", body, format="json").json()
        return answer

    unknown = check(project="none")
    assert [finding["field"] for finding in unknown["findings"]] == ["project"]
    assert check(project="poles", config={"num_steps": 5})["config"]["seed"] == 7


def test_an_unknown_and_an_archived_project_take_no_run(operator: APIClient) -> None:
    assert error_of(launch(operator)) == (400, "invalid", ["project"])
    make_project(name="poles", archived_at=NOON)
    make_run(name="beta")

    assert error_of(launch(operator)) == (409, "project_archived", ["project"])
    assert error_of(move(operator, "beta", project="poles")) == (
        409,
        "project_archived",
        ["project"],
    )
    assert error_of(move(operator, "beta", project="none")) == (400, "invalid", ["project"])
    assert error_of(move(operator, "beta", project="a b")) == (400, "invalid", ["project"])
    assert not Run.objects.filter(name="alpha").exists()


def test_a_run_is_moved_between_projects_even_after_its_end(operator: APIClient) -> None:
    make_project(name="poles")
    make_run(name="alpha", status=RunStatus.STOPPED)

    assert move(operator, project="poles", reason="sorted").json()["project"] == "poles"
    assert move(operator, project="poles").status_code == 200
    event = RunEvent.objects.get(kind="settings_changed")
    assert event.details == {"project": {"before": None, "after": "poles"}}
    assert (event.reason, event.message) == ("sorted", "project none → poles")
    assert operator.get("/api/v1/projects/poles").json()["runs"] == 1
    assert error_of(move(operator, project=None, num_steps=5))[1] == "run_over"
    assert move(operator, project=None).json()["project"] is None


def test_runs_stay_in_a_project_that_is_renamed(operator: APIClient) -> None:
    make_run(name="alpha", project=make_project(name="poles", defaults=DEFAULTS))

    changed = change(operator, name="Poles-2", defaults={"config": FOUR}, reason="second try")

    assert changed.json()["name"] == "Poles-2"
    assert changed.json()["defaults"]["preset"] == "cartpole", "omitted defaults stay"
    assert operator.get("/api/v1/runs/alpha").json()["project"] == "Poles-2"
    assert names(operator, "/api/v1/runs", q="project:poles-2") == ["alpha"]
    assert operator.get("/api/v1/projects/poles").status_code == 404
    event = RunEvent.objects.get(kind="project_changed")
    assert event.details["name"] == {"before": "poles", "after": "Poles-2"}
    assert event.details["config.seed"] == {"before": 7, "after": None}
    assert event.message == "project Poles-2 changed: config, name"
    assert change(operator, "Poles-2", name="Poles-2").status_code == 200
    assert RunEvent.objects.filter(kind="project_changed").count() == 1


def test_an_archived_project_keeps_its_runs_and_leaves_the_list(operator: APIClient) -> None:
    make_run(name="alpha", project=make_project(name="poles"))
    make_project(name="others")

    assert change(operator, archived=True).json()["archived_at"] is not None

    assert names(operator) == ["others"]
    assert names(operator, archived="true") == ["poles"]
    assert operator.get("/api/v1/runs/alpha").json()["project"] == "poles"
    refused = operator.get("/api/v1/projects", {"archived": "maybe"})
    assert error_of(refused) == (400, "invalid", ["archived"])
    change(operator, archived=False)
    assert names(operator) == ["others", "poles"]


def test_a_project_with_current_runs_is_not_deleted(operator: APIClient) -> None:
    project = make_project(name="poles")
    run = make_run(name="alpha", project=project, status=RunStatus.STOPPED)

    refused = operator.delete("/api/v1/projects/poles")
    assert error_of(refused)[:2] == (409, "project_in_use")
    assert "1 run is in poles" in refused.json()["detail"]

    archive(run_id=run.pk, actor="tests", now=NOON)
    assert operator.delete("/api/v1/projects/poles?reason=done").status_code == 204
    assert operator.delete("/api/v1/projects/poles").status_code == 404
    event = RunEvent.objects.get(kind="project_deleted")
    assert (event.details["archived_runs"], event.reason) == (1, "done")
    assert Run.objects.get(pk=run.pk).project is None


def test_a_reset_run_stays_in_its_project() -> None:
    run = make_run(name="alpha", kind="outside", project=make_project())

    fresh = reset_run(run_id=run.pk, actor="tests", now=NOON)

    assert fresh.project_id == run.project_id


def test_runs_are_found_and_suggested_by_project(operator: APIClient) -> None:
    make_run(name="alpha", project=make_project(name="poles"))
    make_run(name="beta", project=make_project(name="poles-2"))
    make_run(name="gamma")

    def found(text: str) -> set[str]:
        return set(names(operator, "/api/v1/runs", q=text))

    assert found("project:poles") == {"alpha"}
    assert found("project~pole") == {"alpha", "beta"}
    assert found("-project:poles") == {"beta", "gamma"}
    values = operator.get("/api/v1/run-filter/values", {"of": "project", "part": "-"}).json()
    assert values["results"] == [{"value": "poles-2", "count": 1}]
    header, first, *_ = operator.get("/api/v1/runs.csv?sort=name").content.decode().splitlines()
    assert first.split(",")[header.split(",").index("project")] == "poles"


def test_a_viewer_reads_projects_but_changes_none() -> None:
    make_project(name="poles")
    client = APIClient()
    client.force_login(make_user(username="vera"))

    assert names(client) == ["poles"]
    assert create(client, "more").status_code == 403
    assert change(client, title="mine").status_code == 403
    assert client.delete("/api/v1/projects/poles").status_code == 403


def test_the_immutable_id_is_accepted_wherever_the_name_is(operator: APIClient) -> None:
    uid = create(operator, defaults=DEFAULTS).json()["uid"]
    assert is_project_uid(uid)

    run = launch(operator, project=uid, kind="outside").json()
    assert (run["project"], run["project_uid"]) == ("poles", uid)
    changed = change(operator, uid, name="carts").json()
    assert (changed["name"], changed["uid"], changed["runs"]) == ("carts", uid, 1)
    assert operator.get(f"/api/v1/projects/{uid}").json() == changed
    assert names(operator, "/api/v1/runs", q=f"project:{uid}") == ["alpha"]
    assert names(operator, "/api/v1/runs", q=f"-project:{uid}") == []
    samples = operator.get("/api/v1/trajectories", {"q": f"project:{uid}"})
    assert (samples.status_code, samples.json()["results"]) == (200, [])

    assert move(operator, project=uid).status_code == 200
    assert not RunEvent.objects.filter(kind="settings_changed").exists()
    assert move(operator, project=None).json()["project_uid"] is None
    assert move(operator, project=uid).json()["project"] == "carts"
    refused = operator.delete(f"/api/v1/projects/{uid}")
    assert "1 run is in carts" in refused.json()["detail"]
    assert move(operator, project=None).status_code == 200
    assert operator.delete(f"/api/v1/projects/{uid}").status_code == 204


def test_no_name_has_the_form_of_an_id(operator: APIClient) -> None:
    refused = create(operator, f"project_{'0' * 24}")

    assert error_of(refused) == (400, "invalid", ["name"])
    assert operator.get(f"/api/v1/projects/project_{'0' * 24}").status_code == 404
