"""One URL per server is converted to each library's settings."""

from pathlib import Path

import pytest

from config.env import InvalidSetting
from config.settings.connections import (  # noqa: TID251 under test
    celery_broker,
    database,
    payload_storage,
    runtime_env,
)


def test_a_database_on_a_socket_keeps_its_folder() -> None:
    entry = database("postgresql:///rolldeck?host=/run/server&user=server")

    assert (entry["HOST"], entry["NAME"], entry["USER"]) == ("/run/server", "rolldeck", "server")


def test_a_database_on_the_network_keeps_its_port_and_password() -> None:
    entry = database("postgresql://server:p%40ss@db.example:5433/runs")

    assert (entry["HOST"], entry["PORT"]) == ("db.example", "5433")
    assert (entry["USER"], entry["PASSWORD"], entry["NAME"]) == ("server", "p@ss", "runs")


@pytest.mark.parametrize(
    ("url", "broker"),
    [
        ("unix:///tmp/x/valkey.sock", "redis+socket:///tmp/x/valkey.sock"),
        ("redis://broker:6379/1", "redis://broker:6379/1"),
    ],
)
def test_celery_gets_its_own_form_of_socket_urls(url: str, broker: str) -> None:
    assert celery_broker(url) == broker


def test_payloads_are_stored_in_files_unless_a_bucket_is_configured() -> None:
    files = payload_storage("", folder=Path("/server/payloads"))
    bucket = payload_storage(
        "s3://server/some/where/?endpoint=https://s3.example:9000&region=eu-1",
        folder=Path("/server"),
    )

    assert files["OPTIONS"] == {"location": "/server/payloads"}
    assert bucket["OPTIONS"] == {
        "bucket_name": "server",
        "location": "some/where",
        "endpoint_url": "https://s3.example:9000",
        "region_name": "eu-1",
    }


@pytest.mark.parametrize(
    "url", ["/payloads", "s3:///prefix", "gs://server", "s3://server?acl=public"]
)
def test_other_payload_stores_are_refused(url: str) -> None:
    with pytest.raises(InvalidSetting, match="ROLLDECK_PAYLOAD_STORAGE"):
        payload_storage(url, folder=Path("/server"))


def test_the_runtime_env_of_fleets_is_a_json_object() -> None:
    assert runtime_env("") == {}
    assert runtime_env('{"env_vars": {"A": "1"}, "py_modules": ["/opt/x"]}') == {
        "env_vars": {"A": "1"},
        "py_modules": ["/opt/x"],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not valid JSON"),
        ("[]", "must be a JSON object"),
        ('{"env_var": {}}', "'env_var' is not a valid key"),
    ],
)
def test_an_invalid_runtime_env_is_refused_at_the_start(text: str, message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        runtime_env(text)
