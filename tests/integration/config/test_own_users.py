"""A database from before the model of users became our own keeps its people, rights and tokens."""

import json
import lzma
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
import pytest
from django.conf import settings

from config.embedded.children import postgres_folder

ROOT: Final = Path(settings.BASE_DIR)
# `pg_dump --inserts` of a database made by commit 72c71d3c: an administrator, ada, and an operator,
# grace, who may also change people by a group and see them by a permission of her own.
OLD: Final = Path(__file__).with_name("database_of_auth_users.sql.xz")
NAME: Final = "database_of_auth_users"
# The rights of each person and token, and the admin's log, as JSON.
REPORT: Final = """
import json
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.test import Client
from runs.models import User

def signed_in(name):
    client = Client(SERVER_NAME="localhost")
    body = {"username": name, "password": f"a password of {name}"}
    answer = client.post("/api/v1/session", body, content_type="application/json")
    return client, answer.json()

def by_token(name):
    key = f"rd_{name:0<8}_secret-of-{name}"
    headers = {"Authorization": f"Bearer {key}"}
    return Client(SERVER_NAME="localhost").get("/api/v1/runs", headers=headers).status_code

ada, session = signed_in("ada")
print(json.dumps({
    "roles": {name: signed_in(name)[1]["role"] for name in ("ada", "grace")},
    "groups": sorted(User.objects.get(username="grace").groups.values_list("name", flat=True)),
    "may": sorted(User.objects.get(username="grace").get_all_permissions()),
    "tokens": {name: by_token(name) for name in ("ada", "grace")},
    "admin": ada.get("/admin/runs/user/").status_code,
    "log": [str(entry.content_type.model_class()) for entry in LogEntry.objects.all()],
    "permissions": sorted(
        Permission.objects.filter(content_type__model="user")
        .values_list("content_type__app_label", "codename")
    ),
    "created": User.objects.create_user("new").pk,
}))
"""


@pytest.fixture(scope="module")
def old_database() -> Iterator[str]:
    """The address of a database of the earlier version."""
    server = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    with server:
        server.execute(f'CREATE DATABASE "{NAME}"')
        try:
            parts = urlsplit(os.environ["DATABASE_URL"])
            url = parts._replace(path=f"/{NAME}").geturl().replace("postgresql:/", "postgresql:///")
            with psycopg.connect(url) as session:
                session.execute(lzma.decompress(OLD.read_bytes()).decode())
            yield url
        finally:
            server.execute(f'DROP DATABASE "{NAME}" WITH (FORCE)')


def manage(url: str, *words: str) -> str:
    """Run a command of `manage.py` on a database."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "manage.py", *words],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "config.settings.base"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def schema(url: str) -> list[str]:
    """Return the statements that create the tables of people, groups and permissions."""
    done = subprocess.run(
        [postgres_folder() / "pg_dump", "--schema-only", "--table=auth_*", "--dbname", url],
        check=True,
        capture_output=True,
        text=True,
    )
    lines = [line for line in done.stdout.splitlines() if not line.startswith("\\")]
    assert "CREATE TABLE public.auth_user (" in lines
    return lines


@pytest.fixture(scope="module")
def upgraded(old_database: str) -> str:
    """The address of the database after `prepare`."""
    manage(old_database, "prepare")
    return old_database


@pytest.fixture(scope="module")
def report(upgraded: str) -> dict[str, Any]:
    """Rights of the people and tokens of the earlier version."""
    return dict(json.loads(manage(upgraded, "shell", "-v0", "-c", REPORT)))


def test_people_sign_in_with_their_roles(report: dict[str, Any]) -> None:
    assert report["roles"] == {"ada": "admin", "grace": "operator"}
    assert report["groups"] == ["operator", "people"]
    assert report["created"] == 3


def test_tokens_keep_their_owners(report: dict[str, Any]) -> None:
    assert report["tokens"] == {"ada": 200, "grace": 200}


def test_permissions_follow_the_model(report: dict[str, Any]) -> None:
    assert report["may"] == ["runs.change_user", "runs.view_run", "runs.view_user"]
    assert report["permissions"] == [
        ["runs", f"{verb}_user"] for verb in ("add", "change", "delete", "view")
    ]


def test_the_admin_shows_people_and_its_log(report: dict[str, Any]) -> None:
    assert report["admin"] == 200
    assert report["log"] == ["<class 'runs.access.models.User'>"]


def test_an_upgraded_database_has_the_tables_of_a_new_one(upgraded: str) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as server:
        server.execute("CREATE DATABASE new_database")
        try:
            new = upgraded.replace(NAME, "new_database")
            manage(new, "prepare")

            assert schema(upgraded) == schema(new)
        finally:
            server.execute("DROP DATABASE new_database WITH (FORCE)")
