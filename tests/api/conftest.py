"""Check the statuses of all responses against the API document, and sign in an operator."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from django.test import Client
from django.urls import Resolver404
from rest_framework.test import APIClient

from tests.factories import make_user

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"
UNDOCUMENTED: Final = frozenset({304, 405, 406, 500})
"""Statuses that follow from the method and headers of a request, or from an injected fault."""


@cache
def documented() -> dict[tuple[str, str], set[int]]:
    """Return the documented statuses by method and path."""
    return {
        (method.upper(), path): {int(status) for status in operation["responses"]}
        for path, operations in json.loads(DOCUMENT.read_text())["paths"].items()
        for method, operation in operations.items()
    }


@pytest.fixture(autouse=True)
def only_documented_statuses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if a response of the test has a status that the document does not list."""
    found: set[str] = set()
    send = Client.request

    def checked(client: Client, **request: Any) -> Any:
        response = send(client, **request)
        try:
            route = response.resolver_match.route
        except Resolver404:
            return response
        path = "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route)
        method = str(request["REQUEST_METHOD"])
        statuses = documented().get((method, path))
        if statuses is not None and response.status_code not in statuses | UNDOCUMENTED:
            found.add(f"{response.status_code} of {method} {path}")
        return response

    monkeypatch.setattr(Client, "request", checked)
    yield
    assert not found, f"the API document lacks {', '.join(sorted(found))}"


@pytest.fixture
def operator(db: None) -> APIClient:
    """Return a browser in which Olga is signed in, an operator."""
    client = APIClient()
    client.force_login(make_user(username="olga", role="operator"))
    return client
