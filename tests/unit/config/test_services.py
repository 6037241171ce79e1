"""The tests use real servers."""

from pathlib import Path

import pytest
import redis
from django.conf import settings
from django.db import connection

from config.embedded.postgres import Postgres


@pytest.mark.django_db
def test_the_database_of_tests_is_postgresql_without_fsync() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('fsync'), current_setting('synchronous_commit')")

        assert cursor.fetchone() == ("off", "on")
        assert connection.vendor == "postgresql"


def test_the_database_of_a_server_is_durable(tmp_path: Path) -> None:
    folders = {f"{name}_folder": tmp_path / name for name in ("data", "socket", "log")}

    options = Postgres(**folders)._command(Path("bin"), ()).argv

    assert any(word.startswith("max_connections=") for word in options)
    # All three are on by default.
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        assert not any(word.startswith(name) for word in options)


def test_the_broker_answers() -> None:
    client = redis.Redis.from_url(settings.REDIS_URL)

    assert client.ping()
    client.close()
