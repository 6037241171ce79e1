"""No index of our tables is redundant."""

import pytest
from django.db import connection

pytestmark = pytest.mark.django_db

# Unique and partial indexes serve other purposes than finding rows.
BEGINNINGS = """
    SELECT part.indexrelid::regclass::text, whole.indexrelid::regclass::text
    FROM pg_index part
    JOIN pg_index whole ON whole.indrelid = part.indrelid AND whole.indexrelid <> part.indexrelid
    JOIN pg_class kind ON kind.oid = part.indexrelid
    JOIN pg_class other ON other.oid = whole.indexrelid AND other.relam = kind.relam
    JOIN pg_am method ON method.oid = kind.relam AND method.amname = 'btree'
    WHERE part.indrelid::regclass::text ~ '^(buffer|rollouts|runs)_'
    AND NOT part.indisunique AND part.indpred IS NULL AND whole.indpred IS NULL
    AND part.indexprs IS NULL
    AND whole.indkey::text || ' ' LIKE part.indkey::text || ' %'
    AND whole.indclass::text || ' ' LIKE part.indclass::text || ' %'"""


def test_no_index_is_a_prefix_of_another() -> None:
    """A redundant index costs writes, and the planner may prefer it for an unknown run.

    For a run without statistics PostgreSQL expects few rows, rates both indexes the same, and reads
    all rows of the run, where the longer index would lead to eight.
    """
    with connection.cursor() as cursor:
        cursor.execute(BEGINNINGS)
        assert cursor.fetchall() == []
