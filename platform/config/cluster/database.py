"""Maintenance figures of PostgreSQL: table sizes, dead rows, oldest transaction, WAL."""

from typing import Any, Final

import psycopg

TABLES_SHOWN: Final = 6
_TABLES: Final = """
    SELECT relname, pg_total_relation_size(relid), n_live_tup, n_dead_tup,
        greatest(last_vacuum, last_autovacuum)
    FROM pg_stat_user_tables ORDER BY 2 DESC LIMIT %s"""
# Holders of old snapshots: sessions, standbys, replication slots and prepared transactions.
_OLDEST_XMIN: Final = """
    SELECT max(held) FROM (
        SELECT max(age(backend_xmin)) AS held FROM pg_stat_activity WHERE pid <> pg_backend_pid()
        UNION ALL SELECT max(age(xmin)) FROM pg_replication_slots
        UNION ALL SELECT max(age(transaction)) FROM pg_prepared_xacts) AS holders"""
_WAL_ON_DISK: Final = "SELECT sum(size)::bigint FROM pg_ls_waldir()"


def upkeep_figures(own: "psycopg.Connection[Any]") -> dict[str, Any]:
    """Return the largest tables with their dead rows, the age of the oldest snapshot, WAL size.

    A figure is None if the role lacks the privilege, or the query times out.
    """
    tables = _query(own, _TABLES, [TABLES_SHOWN])
    xmin = _query(own, _OLDEST_XMIN)
    wal = _query(own, _WAL_ON_DISK)
    return {
        "tables": None if tables is None else [_table(row) for row in tables],
        "oldest_xmin_transactions": None if xmin is None else (xmin[0][0] or 0),
        "wal_bytes": None if wal is None else wal[0][0],
    }


def _query(
    own: "psycopg.Connection[Any]", query: str, given: list[Any] | None = None
) -> list[Any] | None:
    try:
        return own.execute(query, given).fetchall()
    except (psycopg.errors.QueryCanceled, psycopg.errors.InsufficientPrivilege):
        return None


def _table(row: tuple[Any, ...]) -> dict[str, Any]:
    name, size, live, dead, vacuumed_at = row
    return {
        "name": name,
        "size_bytes": int(size),
        "live_rows": int(live),
        "dead_rows": int(dead),
        "vacuumed_at": vacuumed_at,
    }
