"""Passwords are checked as they are, and sessions end with the account and the sign-out."""

from importlib import import_module

import pytest
from django.test import Client
from django.utils.module_loading import import_string
from pytest_django import Settings

from runs.access.models import User
from tests.factories import make_user

pytestmark = pytest.mark.django_db
JSON = "application/json"
LONG = "Ünï code, mit  Leerzeichen " * 4
"""More than 64 characters, with spaces at the end, capitals and other letters."""


def sign_in(browser: Client, password: str) -> int:
    body = {"username": "alice", "password": password}
    return browser.post("/api/v1/session", body, JSON).status_code


def change(browser: Client, new: str) -> int:
    body = {"current_password": "alice", "new_password": new}
    return browser.put("/api/v1/session/password", body, JSON).status_code


@pytest.fixture
def browser() -> Client:
    """A browser in which alice is signed in."""
    make_user()
    browser = Client()
    assert sign_in(browser, "alice") == 200
    return browser


def test_a_new_database_has_no_accounts() -> None:
    assert not User.objects.exists()


@pytest.mark.parametrize("password", ["password1", "iloveyou2", "1qaz2wsx3edc", "trustno1!"[:8]])
def test_a_common_password_is_refused(browser: Client, password: str) -> None:
    assert change(browser, password) == 400


@pytest.mark.parametrize("password", ["Rolldeck-2026!", "operator12345", "2026_My Lab_2026"])
def test_a_name_of_the_platform_is_refused(
    browser: Client, password: str, settings: Settings
) -> None:
    settings.ROLLDECK_DEPLOYMENT = "my lab"

    assert change(browser, password) == 400
    assert change(browser, f"{password} and harmonic") == 200


def test_a_password_is_checked_unchanged(browser: Client) -> None:
    assert len(LONG) > 64
    assert change(browser, LONG) == 200

    assert sign_in(Client(), LONG) == 200
    for other in (LONG.strip(), LONG.lower(), LONG[:64]):
        assert sign_in(Client(), other) == 403, other


def test_a_password_is_stored_with_a_slow_hash() -> None:
    (name,) = import_module("config.settings.base").PASSWORD_HASHERS

    algorithm, iterations, salt, _ = import_string(name)().encode("x", "a" * 22).split("$")

    assert (algorithm, salt) == ("pbkdf2_sha256", "a" * 22)
    assert int(iterations) >= 600_000


def test_password_fields_of_the_admin_are_masked() -> None:
    page = Client().get("/admin/login/").content.decode()

    (field,) = [tag for tag in page.split("<input ")[1:] if 'name="password"' in tag]
    assert 'type="password"' in field.partition(">")[0]


def test_a_sign_in_changes_the_session_key(browser: Client) -> None:
    first = browser.cookies["sessionid"].value

    assert sign_in(browser, "alice") == 200

    assert browser.cookies["sessionid"].value != first
    old = Client()
    old.cookies["sessionid"] = first
    assert not old.get("/api/v1/session").json()["authenticated"]


def test_a_key_of_an_ended_session_is_refused(browser: Client) -> None:
    key = browser.cookies["sessionid"].value
    browser.delete("/api/v1/session")

    again = Client()
    again.cookies["sessionid"] = key

    assert not again.get("/api/v1/session").json()["authenticated"]
    assert again.get("/api/v1/runs").status_code == 401


def test_a_session_of_a_deactivated_person_is_refused(browser: Client) -> None:
    assert browser.get("/api/v1/runs").status_code == 200

    User.objects.update(is_active=False)

    assert browser.get("/api/v1/runs").status_code == 401
