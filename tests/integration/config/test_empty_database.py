"""The database is empty after each test that commits, although tests create and drop tables."""

import pytest
from django.contrib.auth.models import Permission
from django.db import connection

from runs.lifecycle.models import Run
from tests.database import delete_rows
from tests.factories import make_run

pytestmark = pytest.mark.django_db(transaction=True)


def test_rows_are_deleted_after_a_partition_is_dropped() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE buffer_payload_99 (LIKE buffer_payload INCLUDING ALL)")
    delete_rows()
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE buffer_payload_99")
    make_run()

    delete_rows()

    assert not Run.objects.exists()
    assert Permission.objects.exists()
