from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from runs.access.models import User
from runs.access.rules import ATTEMPTS_PER_NAME_AND_PLACE
from runs.access.services.login_links import make_login_link
from runs.events.models import RunEvent
from tests.factories import bearer, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser() -> Client:
    return Client(enforce_csrf_checks=True)


def sign_in(browser: Client, username: str = "alice", password: str | None = None) -> Any:
    token = browser.get("/api/v1/session").cookies["csrftoken"].value
    return browser.post(
        "/api/v1/session",
        {"username": username, "password": password or username},
        content_type="application/json",
        headers={"X-CSRFToken": token},
    )


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
def test_a_person_signs_in_and_out(browser: Client, role: str) -> None:
    make_user(role=role)

    assert browser.get("/api/v1/session").json() == {
        "authenticated": False,
        "username": "",
        "role": "anonymous",
    }
    known = {"authenticated": True, "username": "alice", "role": role}
    assert sign_in(browser).json() == known
    assert browser.get("/api/v1/session").json() == known

    token = browser.cookies["csrftoken"].value
    assert browser.delete("/api/v1/session").status_code == 403
    browser.delete("/api/v1/session", headers={"X-CSRFToken": token})
    assert not browser.get("/api/v1/session").json()["authenticated"]


def test_signing_in_needs_the_csrf_token(browser: Client) -> None:
    make_user()

    response = browser.post(
        "/api/v1/session",
        {"username": "alice", "password": "alice"},
        content_type="application/json",
    )

    assert (response.status_code, response.json()["code"]) == (403, "forbidden")


def test_a_change_by_session_needs_the_csrf_token(browser: Client) -> None:
    make_user(role="operator")
    sign_in(browser)

    response = browser.post("/api/v1/runs", {"name": "a"}, content_type="application/json")

    assert response.status_code == 403


def test_wrong_passwords_are_refused_and_limited(browser: Client) -> None:
    make_user()

    for _ in range(ATTEMPTS_PER_NAME_AND_PLACE):
        response = sign_in(browser, password="wrong")
        assert (response.status_code, response.json()["code"]) == (403, "login_failed")
    response = sign_in(browser)

    assert (response.status_code, response.json()["code"]) == (429, "too_many_requests")
    assert 50 < int(response["Retry-After"]) <= 60
    make_user(username="bob")
    assert sign_in(browser, "bob").status_code == 200


def test_a_deactivated_person_cannot_sign_in(browser: Client) -> None:
    user = make_user()
    user.is_active = False
    user.save()

    assert sign_in(browser).status_code == 403


def redeem(browser: Client, link: str) -> Any:
    """Redeem a one-time link like the button of its page."""
    address, _, token = link.partition("#")
    csrf = browser.get(address).cookies["csrftoken"].value
    return browser.post(address, {"token": token, "csrfmiddlewaretoken": csrf})


def link_of(user: User, **more: str) -> str:
    return make_login_link(user, now=datetime.now(UTC), **more)


def test_a_one_time_link_signs_in_once(browser: Client) -> None:
    link = link_of(make_user(), then="/runs/alpha")

    first = redeem(browser, link)
    second = redeem(Client(), link)

    assert first["Location"] == "/runs/alpha"
    assert browser.get("/api/v1/session").json()["username"] == "alice"
    assert second.status_code == 403
    assert "has been used, has expired" in second.content.decode()


def test_reading_the_page_of_a_one_time_link_does_not_use_it_up(browser: Client) -> None:
    link = link_of(make_user())

    assert browser.head(link).status_code == 200
    assert browser.get(link).status_code == 200
    assert redeem(browser, link)["Location"] == "/"


def test_a_one_time_link_needs_the_csrf_token(browser: Client) -> None:
    link = link_of(make_user())

    assert browser.post("/login/once", {"token": link.partition("#")[2]}).status_code == 403
    assert redeem(browser, link).status_code == 302


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "javascript:x"])
def test_a_one_time_link_never_redirects_to_another_host(browser: Client, target: str) -> None:
    assert redeem(browser, link_of(make_user(), then=target))["Location"] == "/"


def test_a_person_ends_the_sessions_of_other_browsers() -> None:
    make_user()
    make_user(username="bob")
    here, there, stranger = Client(), Client(), Client()
    for browser, name in ((here, "alice"), (there, "alice"), (stranger, "bob")):
        assert sign_in(browser, name).status_code == 200

    path = "/api/v1/sessions"
    assert here.get(path).json() == {"sessions": 2}
    assert here.delete(f"{path}?reason={'x' * 2001}").status_code == 400
    assert here.delete(f"{path}?reason=a+lost+laptop").json() == {"sessions": 1}
    assert RunEvent.objects.get(kind="signed_out").reason == "a lost laptop"
    statuses = [browser.get("/api/v1/runs").status_code for browser in (here, there, stranger)]
    assert statuses == [200, 401, 200]


def test_a_machine_has_no_sessions() -> None:
    assert Client().get("/api/v1/sessions", headers=bearer("trainer")).json() == {"sessions": 0}
