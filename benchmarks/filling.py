"""Fill a queue with a million groups in seconds, by copying a pushed one in SQL."""

from typing import Any, Final

import psycopg
from psycopg import sql

from benchmarks.bodies import Numbered, Size, json_group
from benchmarks.http_client import Line, request_bytes
from benchmarks.rolldeck_server import AtroposApi, RolldeckServer

SMALL: Final = Size(sequences=8, tokens=4)
GROUPS_A_PUSH: Final = 100
# With this setting payloads are files, which the copied rows share.
SHARED_PAYLOADS: Final = {"ROLLDECK_INLINE_PAYLOAD_BYTES": "0"}


def fill_by_copying(rolldeck: RolldeckServer, *, groups: int) -> None:
    """Queue small groups until there are `groups`, in the run that one was pushed to.

    The rows pass every constraint and index; counts are updated in the same transaction. Then the
    tables are vacuumed, as by autovacuum during normal growth, and a checkpoint is written, so that
    later measurements do not include the cost of filling.
    """
    missing = groups - rolldeck.queue_size()
    if missing > 0:
        with rolldeck.sql(autocommit=False) as connection:
            _copy_rows(connection, missing)
            _raise_counts(connection, missing)
        with rolldeck.sql() as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")
    if rolldeck.queue_size() != groups:
        raise ValueError(f"{rolldeck.queue_size()} groups are queued, not {groups}")


def _copy_rows(connection: "psycopg.Connection[Any]", count: int) -> None:
    name_rows = connection.execute(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_name = 'buffer_trajectorygroup' AND column_name <> 'id'"
    )
    columns = sql.SQL(", ").join(sql.Identifier(name) for (name,) in name_rows)
    connection.execute(
        sql.SQL(
            "INSERT INTO buffer_trajectorygroup ({columns}) SELECT {columns}"
            " FROM (SELECT {columns} FROM buffer_trajectorygroup WHERE state = 'queued'"
            " ORDER BY id DESC LIMIT 1) g, generate_series(1, {count})"
        ).format(columns=columns, count=sql.Literal(count))
    )


def _raise_counts(connection: "psycopg.Connection[Any]", count: int) -> None:
    raised = connection.execute(
        "UPDATE buffer_tally SET items = items + %(count)s::bigint,"
        " sequences = sequences + %(count)s::bigint * %(size)s"
        " WHERE id IN (SELECT min(t.id) FROM buffer_tally t WHERE t.state IN ('accepted', 'queued')"
        " AND t.run_id = (SELECT max(run_id) FROM buffer_trajectorygroup WHERE state = 'queued')"
        " GROUP BY t.state)",
        {"count": count, "size": SMALL.sequences},
    )
    if raised.rowcount != 2:
        raise ValueError(f"{raised.rowcount} counts were updated, expected 2 (accepted and queued)")


def push_small(server: AtroposApi, *, env_id: int, groups: int) -> None:
    """Queue small groups over HTTP, a hundred per request."""
    body = json_group(SMALL, seed=0, env_id=env_id)
    with Line(server.url) as line:
        for start in range(0, groups, GROUPS_A_PUSH):
            numbers = range(start, min(start + GROUPS_A_PUSH, groups))
            parts = [bytes(Numbered(body).with_number(number)) for number in numbers]
            line.ok(request_bytes("POST", "/scored_data_list", b"[%b]" % b",".join(parts)))
