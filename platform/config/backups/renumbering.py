"""Renumber the positions of followers for a cluster with other transaction ids.

Items are ordered by the transactions that wrote them (buffer.followers.services), and transaction
ids belong to one cluster. In another cluster, items written after a restore may get smaller ids
than restored items. So all restored items count as written by one early transaction, in the order
of their row ids. Each reader continues at the first item that it had not read; some later items
may be read twice, and none is skipped.
"""

from typing import Final

_ITEMS: Final = ("buffer_trajectorygroup", "buffer_fragmentchunk")
_LAST: Final = (1 << 63) - 1

_PLACES: Final = """
    CREATE INDEX restoring_{table} ON public.{table} (run_id, written_in, id);
    ANALYZE public.{table};"""
_CURSORS: Final = """
    UPDATE public.{table} c SET {number} = '0', {item} = COALESCE((
        SELECT min(u.id) - 1 FROM (
            SELECT g.id FROM public.buffer_trajectorygroup g WHERE g.run_id = c.run_id
            AND (g.written_in, g.id) > (c.{number}::text::xid8, c.{item})
            UNION ALL
            SELECT f.id FROM public.buffer_fragmentchunk f WHERE f.run_id = c.run_id
            AND (f.written_in, f.id) > (c.{number}::text::xid8, c.{item})
        ) u), {last})
    WHERE c.{number}::text <> '0';"""
_FORGET: Final = """
    DROP INDEX public.restoring_{table};
    UPDATE public.{table} SET written_in = '0';"""
_READERS: Final = (
    ("buffer_follower", "cursor_written_in", "cursor_id"),
    ("buffer_digestcursor", "written_in", "item_id"),
    ("rollouts_measurecursor", "group_written_in", '"group"'),
    ("rollouts_measurecursor", "digest_written_in", "digest"),
)
_IF_AHEAD: Final = """
    DO $$ BEGIN
        IF EXISTS (SELECT FROM public.buffer_trajectorygroup
                   WHERE written_in >= pg_current_xact_id())
        OR EXISTS (SELECT FROM public.buffer_fragmentchunk
                   WHERE written_in >= pg_current_xact_id())
        THEN {statements} END IF;
    END $$;"""


def statements() -> str:
    """Return the SQL that renumbers restored items, if this cluster's ids are behind theirs."""
    places = [_PLACES.format(table=table) for table in _ITEMS]
    cursors = [
        _CURSORS.format(table=table, number=number, item=item, last=_LAST)
        for table, number, item in _READERS
    ]
    return _IF_AHEAD.format(
        statements="".join([*places, *cursors, *(_FORGET.format(table=table) for table in _ITEMS)])
    )
