"""The servers under the tests are real ones."""

import pytest
import redis
from django.conf import settings
from django.db import connection


@pytest.mark.django_db
def test_the_database_is_postgresql_and_keeps_what_it_confirms() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('fsync'), current_setting('synchronous_commit')")

        assert cursor.fetchone() == ("on", "on")
        assert connection.vendor == "postgresql"


def test_the_broker_answers() -> None:
    client = redis.Redis.from_url(settings.REDIS_URL)

    assert client.ping()
    client.close()
