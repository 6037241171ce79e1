"""Passwords with any character, and connections that the database accepts."""

from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict
from redis.connection import parse_url

from config import database_connections
from config.env import InvalidSetting
from config.settings.connections import database, server_url, url_hosts  # noqa: TID251 as the settings do

PASSWORD = "a@b:c/d%e#f?g h&i=j\\'\"é"


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_variables(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    for name in ("DATABASE_URL", "REDIS_URL"):
        monkeypatch.delenv(name)
    return set_variables


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://rolldeck@db.example:5433/rolldeck",
        "postgresql://rolldeck@db.example:5433/rolldeck?sslmode=require",
    ],
)
def test_a_database_password_may_contain_any_character(given: Any, url: str) -> None:
    given(DATABASE_URL=url, DATABASE_PASSWORD=PASSWORD)

    found = database(server_url("DATABASE"))

    assert (found["PASSWORD"], found["HOST"], found["PORT"]) == (PASSWORD, "db.example", "5433")
    assert (found["USER"], found["NAME"]) == ("rolldeck", "rolldeck")


def test_a_database_on_a_socket_takes_a_password(given: Any) -> None:
    given(DATABASE_URL="postgresql://rolldeck@/db?host=/run/pg", DATABASE_PASSWORD=PASSWORD)

    parts = conninfo_to_dict(server_url("DATABASE"))

    assert (parts["password"], parts["host"], parts["user"]) == (PASSWORD, "/run/pg", "rolldeck")


def test_a_redis_password_may_contain_any_character(given: Any) -> None:
    given(REDIS_URL="redis://valkey:6379/0", REDIS_PASSWORD=PASSWORD)

    parts = parse_url(server_url("REDIS"))

    assert (parts["password"], parts["host"], parts["port"]) == (PASSWORD, "valkey", 6379)


def test_an_encoded_password_of_a_url_stays(given: Any) -> None:
    given(DATABASE_URL="postgresql://u:p%40ss@h/d")

    assert database(server_url("DATABASE"))["PASSWORD"] == "p@ss"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"DATABASE_PASSWORD": "x"}, "DATABASE_PASSWORD is set without DATABASE_URL"),
        (
            {"DATABASE_URL": "postgresql://u:p@h/d", "DATABASE_PASSWORD": "x"},
            "DATABASE_URL has a password, and DATABASE_PASSWORD is set; use one",
        ),
        ({"DATABASE_URL": "postgresql://u:a:b%c@h/d"}, "DATABASE_PASSWORD"),
        ({"DATABASE_URL": "postgresql://u:p@ss/word#1@h/d"}, "DATABASE_PASSWORD"),
        ({"DATABASE_URL": "postgresql://u:p/word@h/d"}, "DATABASE_PASSWORD"),
    ],
)
def test_an_invalid_url_names_the_setting_and_no_password(
    given: Any, variables: dict[str, str], message: str
) -> None:
    given(**variables)

    with pytest.raises(InvalidSetting, match=message) as caught:
        database(server_url("DATABASE"))

    assert "word" not in str(caught.value).replace("password", "").replace("PASSWORD", "")


def test_hosts_of_urls_are_accepted_hosts() -> None:
    urls = ("https://deck.example:8443/x", "http://[::1]:8000", "http://web:8000", "")

    assert url_hosts(*urls) == ["deck.example", "[::1]", "web"]


def test_too_few_database_connections_are_an_error_with_the_number() -> None:
    assert database_connections.needed(web_processes=2) == 88
    assert database_connections.problem(web_processes=2, most=100, reserved=3) == ""

    message = database_connections.problem(web_processes=4, most=100, reserved=3)

    assert message.startswith("ROLLDECK_WEB_WORKERS is 4: ")
    assert "136 PostgreSQL connections" in message
    assert "the server accepts 97" in message
    assert "Set max_connections to at least 139" in message
