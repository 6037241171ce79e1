"""Rows that a search examines: of each run a bounded number, in index order.

A search reads at most :data:`ROWS_EXAMINED` rows, so that a filter with few matches costs no more
than one that matches every row. Where the rows of a run are cut off, the rows of all runs count
only up to the first such cut (the *horizon*): beyond it, rows of the cut run are unknown.
"""

from typing import Any, Final

ROWS_EXAMINED: Final = 20_000


def rows_of_each(runs: int, *, limit: int, rows: int) -> int:
    """Return the number of rows to examine in each of some runs.

    At least one more than a page, so that a list without filters is never cut.
    """
    return max(limit + 1, rows // max(1, runs))


def horizon(
    cursor: Any, source: str, params: dict[str, Any], *, columns: str, is_descending: bool
) -> tuple[Any, ...] | None:
    """Return the sort values at which the rows of the first cut run end; None without a cut.

    Args:
        cursor: Cursor of the database.
        source: Query of the examined rows, with `run_id` and the columns.
        params: Its parameters, with `each`, the number of rows per run.
        columns: Sort columns.
        is_descending: Whether the list is in descending order of them.
    """
    direction, beyond = ("ASC", "DESC") if is_descending else ("DESC", "ASC")
    last = ", ".join(f"{column} {direction}" for column in columns.split(", "))
    first = ", ".join(f"{column} {beyond}" for column in columns.split(", "))
    cursor.execute(
        f"""SELECT {columns} FROM (
            SELECT {columns}, count(*) OVER (PARTITION BY run_id) AS examined,
                row_number() OVER (PARTITION BY run_id ORDER BY {last}) AS place
            FROM ({source}) rows
        ) ends WHERE place = 1 AND examined >= %(each)s ORDER BY {first} LIMIT 1""",  # noqa: S608
        params,
    )
    found: tuple[Any, ...] | None = cursor.fetchone()
    return found
