"""SECURITY.md lists the routes of the URL resolver that answer without credentials."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from django.test import Client

from tests.routes import Route, filled, routes

pytestmark = pytest.mark.django_db

SECURITY: Final = Path(__file__).parents[2] / "SECURITY.md"
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
UUIDS: Final = ("batch", "evaluation", "recording", "log_request")
VALUES: Final[dict[str, Any]] = {name: UUID(int=1) for name in UUIDS} | {
    "run": "alpha",
    "lesson": "reverse",
}
REFUSED: Final = {401, 403}
# Middleware answers these, before the check of the host.
HEALTH: Final = ("/healthz/live", "/healthz/ready")


class Values(dict[str, Any]):
    """A number for each parameter that is not named above."""

    def __missing__(self, name: str) -> int:
        return 1


def listed() -> set[str]:
    """Return the routes of the table in SECURITY.md."""
    section = SECURITY.read_text().partition("## Routes without credentials")[2]
    rows = re.findall(r"^\| (`[^|]+) \|", section.partition("\n## ")[0], re.MULTILINE)
    return {route for row in rows for route in re.findall(r"`([^`]+)`", row)}


def shown(route: Route) -> str:
    return re.sub(r"<\w+:(\w+)>", r"<\1>", route.address)


def answers(route: Route) -> Iterator[int]:
    """Yield the status of each method that the route has; 405 is left out."""
    client = Client()
    for method in METHODS:
        answer = client.generic(
            method, filled(route.address, Values(VALUES)), content_type="application/json"
        )
        target = answer.headers.get("Location", "")
        is_sent_to_login = answer.status_code == 302 and "/admin/login/" in target
        if answer.status_code != 405:
            yield 401 if is_sent_to_login else answer.status_code


def is_regular(route: Route) -> bool:
    """Return whether the address is plain, not a regular expression of Django's admin."""
    return "(?P" not in route.address


def test_the_table_lists_the_routes_that_answer_without_credentials(settings: Any) -> None:
    settings.ROLLDECK_AUTH = "required"
    open_routes = {
        shown(route) for route in routes() if is_regular(route) and set(answers(route)) - REFUSED
    }

    assert open_routes | set(HEALTH) == listed()
    assert [Client().get(route).status_code for route in HEALTH] == [200, 200]


@pytest.mark.parametrize("name", ["nothing", "runs", "runs/user/1/nothing"])
def test_other_addresses_of_the_admin_require_a_sign_in(name: str) -> None:
    answer = Client().get(f"/admin/{name}/")

    assert answer.status_code == 302
    assert "/admin/login/" in answer.headers["Location"]
