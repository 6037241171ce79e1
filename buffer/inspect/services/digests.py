"""Background digests of new groups, for lists and searches.

Pushes do not wait for digests. A pass takes a bounded share of the time, so digests of busy runs
lag behind; the dashboard shows the lag.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
from django.db import connection, transaction

from buffer.inspect.models import DigestCursor
from buffer.inspect.queries.token_text import pieces_of
from buffer.inspect.rules.group_digest import GroupDigest, TextOf, digest, run_term
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import readable_contents
from rolldeck.groups import InvalidGroup, read
from runs.lifecycle.models import Environment, Run

PASS_SECONDS: Final = 0.4
"""Time of one pass; passes run every two seconds and leave the rest to training."""
GROUPS_AT_ONCE: Final = 64

_DUE: Final = """
    SELECT t.run_id, SUM(t.items)::bigint
    FROM buffer_tally t LEFT JOIN buffer_digestcursor c ON c.run_id = t.run_id
    WHERE t.kind = 'groups' AND t.state = 'accepted'
    GROUP BY t.run_id, c.accepted, c.digested_at
    HAVING SUM(t.items) <> COALESCE(c.accepted, 0)
    ORDER BY c.digested_at NULLS FIRST"""
# Only rows of finished transactions: no group can still appear before these.
_NEXT: Final = """
    SELECT i.written_in::text, i.id, i.env_id, i.score_mean, i.longest_tokens
    FROM buffer_trajectorygroup i
    WHERE i.run_id = %(run)s AND i.segment IS NOT NULL
    AND (i.written_in, i.id) > (%(written_in)s::text::xid8, %(item)s::bigint)
    AND i.written_in < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY i.written_in, i.id LIMIT %(limit)s"""
_IS_MORE: Final = """
    SELECT EXISTS (SELECT FROM buffer_trajectorygroup i
    WHERE i.run_id = %(run)s AND i.segment IS NOT NULL
    AND (i.written_in, i.id) > (%(written_in)s::text::xid8, %(item)s::bigint))"""
_STORE: Final = """
    INSERT INTO buffer_groupdigest
        (group_id, run_id, lesson, worker, example, scores, lengths, truncated, duplicates,
         excerpt, prompt, words, score_mean, longest_tokens, has_gradient)
    SELECT r.id, %(run)s, r.lesson, r.worker, r.example, r.scores, r.lengths, r.truncated,
        r.duplicates, r.excerpt, r.prompt,
        to_tsvector('simple', r.text) || array_to_tsvector(ARRAY[%(word)s]),
        r.score_mean, r.longest_tokens, r.has_gradient
    FROM json_to_recordset(%(rows)s) AS r(
        id bigint, lesson text, worker text, example text, scores float8[], lengths int[],
        truncated int, duplicates int, excerpt text, prompt uuid, text text,
        score_mean float8, longest_tokens int, has_gradient boolean)
    ON CONFLICT (group_id) DO NOTHING"""


@dataclass(frozen=True, slots=True)
class _Row:
    written_in: str
    group_id: int
    env_id: int | None
    score_mean: float
    longest_tokens: int


def digest_groups(*, now: datetime, seconds: float = PASS_SECONDS) -> int:
    """Digest new groups of each run in turn, for about `seconds`; return the number digested."""
    ends_at = time.monotonic() + seconds
    digested = 0
    for run_id, accepted in _due():
        while time.monotonic() < ends_at:
            count = digest_run(run_id=run_id, accepted=accepted, now=now)
            digested += count
            if count < GROUPS_AT_ONCE:
                break
    return digested


def _due() -> list[tuple[int, int]]:
    with connection.cursor() as cursor:
        cursor.execute(_DUE)
        return list(cursor.fetchall())


@transaction.atomic
def digest_run(*, run_id: int, accepted: int, now: datetime) -> int:
    """Digest the next groups of a run; return the number read.

    Args:
        run_id: The run.
        accepted: Number of groups that it had accepted before this call.
        now: Time of the pass.
    """
    DigestCursor.objects.get_or_create(run_id=run_id, defaults={"written_in": "0", "item_id": 0})
    # Skipped if another process digests this run.
    cursor = DigestCursor.objects.select_for_update(skip_locked=True).filter(run_id=run_id).first()
    if cursor is None:
        return 0
    rows = _next(cursor)
    if rows:
        _store(run_id, _digests(Run.objects.get(pk=run_id), rows))
        cursor.written_in, cursor.item_id = rows[-1].written_in, rows[-1].group_id
    if not _is_more(cursor):
        cursor.accepted = accepted
    cursor.digested_at = now
    cursor.save()
    return len(rows)


def _next(cursor: DigestCursor) -> list[_Row]:
    with connection.cursor() as sql:
        sql.execute(_NEXT, _position(cursor) | {"limit": GROUPS_AT_ONCE})
        return [_Row(*row) for row in sql.fetchall()]


def _is_more(cursor: DigestCursor) -> bool:
    with connection.cursor() as sql:
        sql.execute(_IS_MORE, _position(cursor))
        (is_more,) = sql.fetchone()
    return bool(is_more)


def _position(cursor: DigestCursor) -> dict[str, Any]:
    return {"run": cursor.run_id, "written_in": str(cursor.written_in), "item": cursor.item_id}


def _digests(run: Run, rows: list[_Row]) -> Iterator[tuple[_Row, GroupDigest]]:
    pieces = pieces_of(run)
    text_of: TextOf | None = None if pieces is None else lambda tokens: "".join(pieces(tokens))
    limits = dict(Environment.objects.filter(run=run).values_list("env_id", "max_token_length"))
    found = readable_contents(ItemKind.GROUPS, [row.group_id for row in rows])
    for row in rows:
        stored = found.get(row.group_id)
        if stored is None or not stored.is_intact():
            continue
        own = 0 if row.env_id is None else limits.get(row.env_id, 0)
        try:
            group = read(stored.content, stored.codec)
        except InvalidGroup:  # lenient runs accept groups that fit no arrays
            continue
        yield row, digest(group, text_of=text_of, limits=(own, run.max_token_len or 0))


def _store(run_id: int, digests: Iterator[tuple[_Row, GroupDigest]]) -> None:
    rows = [
        {
            "id": row.group_id,
            "lesson": found.lesson,
            "worker": found.worker,
            "example": found.example,
            "scores": [_number(score) for score in found.scores],
            "lengths": found.lengths,
            "truncated": found.truncated,
            "duplicates": found.duplicates,
            "excerpt": found.excerpt,
            "prompt": None if found.prompt is None else str(found.prompt),
            "text": found.text,
            "score_mean": _number(row.score_mean),
            "longest_tokens": row.longest_tokens,
            "has_gradient": found.has_gradient,
        }
        for row, found in digests
    ]
    params: dict[str, Any] = {
        "run": run_id,
        "word": run_term(run_id),
        "rows": msgspec.json.encode(rows).decode(),
    }
    with connection.cursor() as sql:
        sql.execute(_STORE, params)


def _number(value: float) -> float | str:
    """Return a number for JSON to PostgreSQL; NaN and infinities become text."""
    return value if math.isfinite(value) else str(value)
