"""List of all known environments, with their runs and statistics."""

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from rollouts.control.models import Fleet
from runs.config.services import configured
from runs.lifecycle.models import Run
from tests.buffer_factories import ENVIRONMENT, REGISTRATION, body, group
from tests.factories import NOON, make_run, make_token
from tests.lesson_factories import language, lesson

pytestmark = pytest.mark.django_db(transaction=True)


class Server:
    """Runs, and a user who lists their environments."""

    def __init__(self) -> None:
        self.http = Client()
        self.token = {"Authorization": f"Bearer {make_token('env', 'trainer', 'read')[1]}"}

    def registers(self, run: str, **environment: Any) -> int:
        """Register an environment with an outside run; return its id."""
        env_id: int = self.post(run, "/register-env", ENVIRONMENT | environment)["env_id"]
        return env_id

    def post(self, run: str, path: str, content: Any) -> Any:
        answer = self.http.post(
            f"/atropos/{run}{path}",
            data=body(content),
            content_type="application/json",
            headers=self.token,
        )
        assert answer.status_code == 200, answer.content
        return answer.json()

    def opens(self, run: str) -> None:
        """Register a trainer that requests its first batch, so that environments may register."""
        self.post(run, "/register", REGISTRATION)
        assert b"".join(self.http.get(f"/atropos/{run}/batch", headers=self.token))

    def get(self, path: str = "", **query: Any) -> Any:
        answer = self.http.get(f"/api/v1/environments{path}", query, headers=self.token)
        return answer.json() | {"status": answer.status_code}

    def names(self, **query: Any) -> list[str]:
        return [row["name"] for row in self.get(**query)["results"]]


@pytest.fixture
def server() -> Server:
    return Server()


def test_available_environments_are_listed_before_their_first_use(
    server: Server, settings: Settings
) -> None:
    settings.ROLLDECK_ENVIRONMENTS = ["module:my_lab:Maze"]

    rows = {row["name"]: row for row in server.get()["results"]}

    assert {"gymnasium:CartPole-v1", "task:reverse", "module:my_lab:Maze"} <= set(rows)
    assert rows["gymnasium:CartPole-v1"]["presets"] == ["cartpole"]
    assert rows["task:reverse"]["kind"] == "tokens"
    maze = rows["module:my_lab:Maze"]
    assert (maze["registered"], maze["runs"], maze["per_hour"]) == (True, 0, None)


def test_an_outside_environment_has_its_figures(server: Server) -> None:
    for name in ("one", "two"):
        make_run(name=name, kind="outside", status="running")
        server.opens(name)
        server.registers(name)
        server.registers(name, desired_name="code")
    server.post(
        "two",
        "/scored_data_list",
        [
            group(env_id=0, scores=[1.0, 0.0]),
            group(env_id=0, scores=[1.0, 1.0], mark=2),
            group(env_id=1, scores=[0.0, 0.0], mark=3),
        ],
    )

    (math,) = server.get(kind="outside", q="MAT")["results"]

    assert (math["name"], math["runs"], math["active_runs"]) == ("math", 2, 2)
    assert math["newest_run"] in {"one", "two"}
    assert math["last_seen_at"]
    assert (math["per_hour"], math["reward_mean"], math["zero_variance_share"]) == (2.0, 0.75, 0.5)
    assert (math["examined"], math["registered"]) == (2, False)


def test_a_fleet_s_environment_shows_the_returns_of_its_episodes(server: Server) -> None:
    run = make_run(name="pole")
    Fleet.objects.create(run=run, heard_at=NOON)
    window = {
        "at": NOON,
        "environment": "gymnasium:CartPole-v1",
        "worker": 0,
        "seconds": 1.0,
        "return_min": 0,
        "return_max": 9,
        "return_p10": 0,
        "return_p50": 5,
        "return_p90": 9,
        "discounted_return_mean": 1,
        "length_mean": 5,
        "length_max": 9,
        "terminated": 4,
        "truncated": 0,
        "aborted": 0,
        "return_mean": 5,
    }
    run.episode_windows.create(**window, mode="train", count=4, return_sum=20.0)
    run.episode_windows.create(**window, mode="eval", count=90, return_sum=900.0)

    (row,) = server.get(q="cartpole")["results"]

    assert (row["runs"], row["reward_mean"], row["examined"]) == (1, 5.0, 4)
    assert (row["per_hour"], row["zero_variance_share"]) == (0.0, None)
    assert row["last_seen_at"] == "2026-03-01T12:00:00Z"


def test_a_lesson_s_environment_is_found_by_its_spec(server: Server) -> None:
    make_run(name="words", config=language({"easy": lesson(), "hard": lesson("easy")}))

    shown = server.get("/detail", kind="tokens", name="task:reverse")

    assert [(run["name"], run["lessons"]) for run in shown["runs"]] == [("words", ["easy", "hard"])]
    assert shown["environment"]["runs"] == 1
    assert shown["config"] == {
        "language": {"lessons": {"easy": {"spec": "task:reverse", "kwargs": {"length": 2}}}}
    }


def test_the_launch_configuration_of_an_environment_is_valid(server: Server) -> None:
    for row in server.get()["results"]:
        shown = server.get("/detail", kind=row["kind"], name=row["name"])
        parsed = configured(preset="", config=shown["config"])
        specs = (
            [lesson.spec for lesson in parsed.language.lessons.values()] if parsed.language else []
        )
        assert row["name"] in {*specs, parsed.environment.spec}


def test_pages_have_no_gaps_and_no_duplicates(server: Server) -> None:
    make_run(name="outside", kind="outside", status="running")
    server.opens("outside")
    for name in ("zebra", "Äpfel", "gymnasium:CartPole-v1"):
        server.registers("outside", desired_name=name)
    whole = [(row["name"], row["kind"]) for row in server.get()["results"]]

    rows: list[Any] = []
    cursor = ""
    while True:
        page = server.get(limit=2, cursor=cursor)
        rows += [(row["name"], row["kind"]) for row in page["results"]]
        if page["next"] is None:
            break
        cursor = page["next"]

    assert rows == whole
    assert len(set(rows)) == len(rows)
    assert ("gymnasium:CartPole-v1", "outside") in rows
    assert ("gymnasium:CartPole-v1", "steps") in rows


def test_archived_runs_are_not_counted(server: Server) -> None:
    make_run(name="old", kind="outside", status="running")
    server.opens("old")
    server.registers("old", desired_name="archived")
    assert server.names(q="archived") == ["archived"]

    Run.objects.update(archived_at=NOON)

    assert server.names(q="archived") == []


@pytest.mark.parametrize(
    ("path", "query", "status", "field"),
    [
        ("", {"kind": "odd"}, 400, "kind"),
        ("", {"q": "a\x00"}, 400, "q"),
        ("", {"cursor": "nowhere"}, 400, "cursor"),
        ("", {"limit": "0"}, 400, "limit"),
        ("/detail", {"kind": "steps"}, 400, "name"),
        ("/detail", {"name": "x"}, 400, "kind"),
    ],
)
def test_an_invalid_query_is_refused_with_its_field(
    server: Server, path: str, query: dict[str, str], status: int, field: str
) -> None:
    answer = server.get(path, **query)

    assert (answer["status"], answer["errors"][0]["field"]) == (status, field)


def test_an_unknown_environment_is_not_found(server: Server) -> None:
    answer = server.get("/detail", kind="steps", name="gymnasium:Nowhere")

    assert (answer["status"], answer["code"]) == (404, "not_found")
