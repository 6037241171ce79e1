"""SQL statements of the buffer, and their query plans."""

import json
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from buffer.items import services
from runs.lifecycle.models import Run
from tests.factories import make_run
from web import sql

pytestmark = pytest.mark.django_db(transaction=True)

ROWS = 3_000


def test_only_statements_marked_as_prepared_are_prepared() -> None:
    with sql.cursor() as cursor:
        cursor.execute("SELECT 1 + %s::int", [1], prepare=True)
        cursor.execute("SELECT 2 + %s::int", [1])
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        prepared = {statement for (statement,) in cursor.fetchall()}

    assert "SELECT 1 + $1::int" in prepared
    assert "SELECT 2 + $1::int" not in prepared


def queue_fragments(run: Run, count: int) -> list[int]:
    """Queue fragments without payloads, and leave PostgreSQL without statistics; return ids."""
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO buffer_fragmentchunk (run_id, state, drop_reason, epoch, received_at,
                size_bytes, slot, number, contiguous, environment, worker, version_min,
                version_max, steps, codec, object, crc32, "offset", segment, uses, confirmed)
            SELECT %s, 'queued', '', 0, now(), 10, 's', n, true, 'e', 'w', 0, 0, 1, 'msgpack',
                '', 0, 0, 0, 0, 0
            FROM generate_series(1, %s) AS n RETURNING id""",
            [run.pk, count],
        )
        return [item_id for (item_id,) in cursor.fetchall()]


_FORGET_STATISTICS = """
    DELETE FROM pg_statistic WHERE starelid = 'buffer_fragmentchunk'::regclass;
    SELECT pg_clear_relation_stats('public', 'buffer_fragmentchunk')"""


def rows_removed(plan: dict[str, Any]) -> float:
    """Return the number of rows that all nodes of a plan read and discarded."""
    here = plan.get("Rows Removed by Join Filter", 0) * plan["Actual Loops"]
    return float(here + sum(map(rows_removed, plan.get("Plans", []))))


def test_a_sample_is_looked_up_before_the_table_was_ever_analysed() -> None:
    run = make_run(name="replay")
    ids = queue_fragments(run, ROWS)[::100]
    parameters = {"batch": uuid4(), "ids": ids, "weights": [1.0] * len(ids), "max_reuse": 2}

    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        # Autovacuum may have analysed the table, for example during the test before.
        cursor.execute(_FORGET_STATISTICS)
        cursor.execute("SET LOCAL random_page_cost = 4")  # of a server that is not ours
        cursor.execute(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {services._ADD_USES_BY_KEY[False]}", parameters
        )
        (plan,) = cursor.fetchone()
        cursor.execute("ROLLBACK")
    explained = plan if isinstance(plan, list) else json.loads(plan)

    # Every id against every queued row would be 90,000.
    assert rows_removed(explained[0]["Plan"]) <= len(ids) ** 2
