"""Users of the recorded server, who act as in a browser."""

from typing import Any, Final

import httpx

from tests.e2e.conftest import PASSWORD, in_the_shell
from tests.server import Server

OPERATOR: Final = "grace"
_CREATE: Final = f"""
from django.contrib.auth.models import Group
from runs.access.models import User
user = User.objects.create_user({OPERATOR!r}, password={PASSWORD!r})
Group.objects.get_or_create(name="operator")[0].user_set.add(user)
"""


class Person:
    """A signed-in user."""

    def __init__(self, server: Server, name: str) -> None:
        """Sign in."""
        self._http = httpx.Client(base_url=server.url, timeout=60)
        self._http.get("/api/v1/session").raise_for_status()
        self.post("/api/v1/session", {"username": name, "password": PASSWORD})

    def post(self, path: str, body: dict[str, Any] | None = None, *, method: str = "POST") -> Any:
        """Send a request and return the response's JSON, None without one."""
        headers = {"X-CSRFToken": self._http.cookies.get("csrftoken", "")}
        response = self._http.request(method, path, json=body or {}, headers=headers)
        assert response.is_success, f"{method} {path}: {response.text}"
        return response.json() if response.content else None

    def put(self, path: str, body: dict[str, Any]) -> Any:
        """Replace an object."""
        return self.post(path, body, method="PUT")

    def patch(self, path: str, body: dict[str, Any]) -> Any:
        """Change an object."""
        return self.post(path, body, method="PATCH")


def create_operator(server: Server) -> Person:
    """Create the operator who launches and steers the runs."""
    in_the_shell(server, _CREATE)
    return Person(server, OPERATOR)
