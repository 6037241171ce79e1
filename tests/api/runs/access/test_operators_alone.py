"""An operator works without an administrator, with no more rights than their own."""

from typing import Any, Final

import pytest
from django.test import Client
from pytest_django.live_server_helper import LiveServer

from rolldeck import Trainer
from runs.access.models import ApiToken, User
from runs.events.models import RunEvent
from tests.factories import make_run, make_user

pytestmark = pytest.mark.django_db
JSON: Final = "application/json"
GROUP: Final = {"tokens": [[1, 2], [1, 3]], "masks": [[-100, 2], [-100, 3]], "scores": [1.0, 0.0]}
PASSWORD: Final = "a new password of grace"


@pytest.fixture
def grace() -> User:
    return make_user(username="grace", role="operator")


@pytest.fixture
def browser(grace: User) -> Client:
    client = Client()
    client.post("/api/v1/session", {"username": "grace", "password": "grace"}, content_type=JSON)
    return client


def create_token(client: Client, *scopes: str, headers: Any = None, **more: Any) -> Any:
    body = {"name": "mine", "scopes": list(scopes), **more}
    return client.post("/api/v1/tokens", body, content_type=JSON, headers=headers)


def headers_of(answer: Any) -> dict[str, str]:
    assert answer.status_code == 201, answer.content
    return {"Authorization": f"Bearer {answer.json()['token']}"}


def launch(client: Client, name: str = "mine", headers: Any = None) -> None:
    body = {"name": name, "kind": "outside", "start": True}
    answer = client.post("/api/v1/runs", body, content_type=JSON, headers=headers)
    assert answer.status_code == 201, answer.content


@pytest.mark.django_db(transaction=True)
def test_an_operator_launches_pushes_trains_reads_and_deletes(
    live_server: LiveServer, browser: Client
) -> None:
    launch(browser)
    env = headers_of(create_token(browser, "env", run="mine"))
    token = create_token(browser, "trainer", "read", run="mine").json()["token"]

    with Trainer(live_server.url, "mine", token) as trainer:
        trainer.register(batch_size=2)
        pushed = Client().post("/atropos/mine/scored_data", GROUP, content_type=JSON, headers=env)
        batch = trainer.next_batch(wait_seconds=10)
        assert batch is not None, pushed.content
        trainer.ack(batch)
    read = Client().get(
        "/api/v1/trajectories?run=mine", headers={"Authorization": f"Bearer {token}"}
    )
    stopped = browser.post("/api/v1/runs/mine/kill", {"reason": "done"}, content_type=JSON)
    deleted = browser.delete("/api/v1/runs/mine?reason=done")

    assert [group["scores"] for group in batch.groups] == [[1.0, 0.0]]
    assert [row["state"] for row in read.json()["results"]] == ["served"]
    assert stopped.status_code in {200, 202}, stopped.content
    assert deleted.status_code == 202, deleted.content
    assert browser.get("/api/v1/runs/mine").status_code == 404


def test_an_operator_launches_and_creates_tokens_with_a_user_token(browser: Client) -> None:
    mine = headers_of(create_token(browser, "user"))
    launch(Client(), "by-token", headers=mine)

    answer = create_token(Client(), "trainer", run="by-token", headers=mine)

    assert answer.status_code == 201
    assert answer.json()["created_by"] == "grace"


@pytest.mark.parametrize("scope", ["env", "trainer", "worker"])
@pytest.mark.parametrize("run", [None, "others"])
def test_an_operator_creates_no_machine_token_for_all_runs_or_those_of_others(
    browser: Client, scope: str, run: str | None
) -> None:
    make_run(name="others")

    answer = create_token(browser, scope, "read", run=run)

    assert (answer.status_code, answer.json()["code"]) == (403, "scope_not_granted")
    assert f"scopes: {scope} not permitted" in answer.json()["detail"]


@pytest.mark.parametrize("scope", ["metrics", "admin"])
def test_an_operator_creates_no_token_of_an_administrator(browser: Client, scope: str) -> None:
    launch(browser)

    for run in (None, "mine"):
        assert create_token(browser, scope, run=run).status_code == 403


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/segments"),
        ("PUT", "/api/v1/cluster/nodes/a/cordon"),
        ("PUT", "/api/v1/environments/approvals"),
        ("GET", "/metrics"),
        ("POST", "/api/v1/runs/mine/groups"),
        ("POST", "/api/v1/runs/mine/batches/next"),
    ],
)
def test_an_operator_in_a_browser_does_nothing_of_machines_and_administrators(
    browser: Client, method: str, path: str
) -> None:
    launch(browser)

    assert browser.generic(method, path, "{}", content_type=JSON).status_code == 403


def test_a_token_for_a_run_creates_no_tokens_and_reads_no_other_run(browser: Client) -> None:
    launch(browser)
    make_run(name="others")
    bound = headers_of(create_token(browser, "trainer", "user", run="mine"))

    assert create_token(Client(), "read", headers=bound).status_code == 403
    assert Client().get("/api/v1/runs/others", headers=bound).status_code == 403
    assert Client().get("/api/v1/runs/mine", headers=bound).status_code == 200


def test_an_operator_lists_and_revokes_their_own_tokens_only(browser: Client) -> None:
    admin = Client()
    admin.force_login(make_user(username="ada", role="admin"))
    theirs = create_token(admin, "read").json()["id"]
    mine = create_token(browser, "read").json()["id"]

    listed = browser.get("/api/v1/tokens").json()["results"]
    refused = browser.delete(f"/api/v1/tokens/{theirs}")
    revoked = browser.delete(f"/api/v1/tokens/{mine}?reason=done")

    assert [row["id"] for row in listed] == [mine]
    assert (refused.status_code, revoked.status_code) == (404, 204)
    assert list(ApiToken.objects.filter(revoked_at=None).values_list("pk", flat=True)) == [theirs]


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
def test_everyone_changes_their_own_password(role: str) -> None:
    make_user(username="mia", role=role)
    here, elsewhere = Client(), Client()
    for client in (here, elsewhere):
        client.post("/api/v1/session", {"username": "mia", "password": "mia"}, content_type=JSON)

    answer = change(here, "mia", PASSWORD)

    assert answer.status_code == 200, answer.content
    assert here.get("/api/v1/session").json()["authenticated"]
    assert not elsewhere.get("/api/v1/session").json()["authenticated"]
    assert Client().login(username="mia", password=PASSWORD)
    assert not Client().login(username="mia", password="mia")
    assert RunEvent.objects.get(kind="password_changed").actor == "user:mia"


def change(client: Client, current: str, new: str) -> Any:
    body = {"current_password": current, "new_password": new}
    return client.put("/api/v1/session/password", body, content_type=JSON)


@pytest.mark.parametrize(
    ("current", "new", "status", "words"),
    [
        ("wrong", PASSWORD, 403, "current password is wrong"),
        ("grace", "short", 400, "too short"),
        ("grace", "12345678901234", 400, "entirely numeric"),
        ("grace", "grace123", 400, "too similar"),
    ],
)
def test_a_wrong_or_weak_password_changes_nothing(
    browser: Client, current: str, new: str, status: int, words: str
) -> None:
    answer = change(browser, current, new)

    assert answer.status_code == status
    assert words in str(answer.json())
    assert Client().login(username="grace", password="grace")


def test_attempts_to_change_a_password_are_counted(browser: Client) -> None:
    statuses = [change(browser, "wrong", PASSWORD).status_code for _ in range(7)]

    assert statuses[0] == 403
    assert statuses[-1] == 429


def test_a_token_changes_no_password(browser: Client) -> None:
    mine = headers_of(create_token(browser, "user"))
    body = {"current_password": "grace", "new_password": PASSWORD}

    answer = Client().put("/api/v1/session/password", body, content_type=JSON, headers=mine)

    assert answer.status_code in {401, 403}
