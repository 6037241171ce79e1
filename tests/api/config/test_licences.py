"""The API lists the installed packages with their licenses."""

import json
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from config import licences
from tests.factories import make_user

pytestmark = pytest.mark.django_db


def test_each_package_is_listed_with_its_version_and_licence(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    settings.FRONTEND_DIST = tmp_path
    built = [{"name": "react", "version": "19.2.0", "licence": "MIT"}]
    (tmp_path / "licences.json").write_text(json.dumps(built))
    licences._licences.cache_clear()
    client.force_login(make_user(username="vic", role="viewer"))

    licenses = client.get("/api/v1/server/licenses").json()
    licences._licences.cache_clear()

    assert licenses["own"] == "MIT"
    server = {row["name"]: row for row in licenses["results"] if row["part"] == "server"}
    assert "BSD" in server["django"]["licence"]
    assert "psycopg" in server
    assert {"sqlparse", "asgiref"} <= set(server), "indirect dependencies are listed"
    assert not {"rolldeck", "mypy", "pytest"} & set(server)
    assert [row["name"] for row in licenses["results"] if row["part"] == "dashboard"] == ["react"]


def test_a_server_whose_dashboard_was_not_built_lists_the_server(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    settings.FRONTEND_DIST = tmp_path
    licences._licences.cache_clear()
    client.force_login(make_user(username="vic", role="viewer"))

    licenses = client.get("/api/v1/server/licenses").json()
    licences._licences.cache_clear()

    assert {row["part"] for row in licenses["results"]} == {"server"}
