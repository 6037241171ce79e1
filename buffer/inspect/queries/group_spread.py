"""Scores and lengths of a bounded sample of groups over the whole life of a run."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import connection

from buffer.inspect.queries.group_provenance import environment_names
from buffer.inspect.rules.id_ranges import id_ranges

GROUPS_EACH: Final = 40
# Ids rise with time and are indexed by run, so each id range costs a few index steps.
_ENDS: Final = """
    SELECT (SELECT id FROM buffer_trajectorygroup
            WHERE run_id = %(run)s AND segment IS NOT NULL ORDER BY id LIMIT 1),
        (SELECT id FROM buffer_trajectorygroup
            WHERE run_id = %(run)s AND segment IS NOT NULL ORDER BY id DESC LIMIT 1)"""
_GROUPS: Final = """
    SELECT s.low, g.received_at, g.env_id, COALESCE(d.lesson, ''), g.score_mean, g.longest_tokens
    FROM generate_series(%(first)s::bigint, %(last)s::bigint, %(step)s::bigint) AS s(low)
    CROSS JOIN LATERAL (
        SELECT id, received_at, env_id, score_mean, longest_tokens FROM buffer_trajectorygroup
        WHERE run_id = %(run)s AND segment IS NOT NULL
        AND id >= s.low AND id < s.low + %(step)s::bigint
        ORDER BY id DESC LIMIT %(each)s
    ) g LEFT JOIN buffer_groupdigest d ON d.group_id = g.id"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGroup:
    """Score and length of a group."""

    received_at: datetime
    task: str
    """Name of its lesson, else of its environment."""
    score_mean: float
    longest_tokens: int


def sampled_groups(run_id: int) -> tuple[list[SampledGroup], bool]:
    """Return groups from the whole life of a run, and whether they are complete.

    Only groups with stored bytes: groups dropped on arrival do not describe the policy.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ENDS, {"run": run_id})
        first, last = cursor.fetchone()
        if first is None:
            return [], True
        bounds, is_whole = id_ranges(first, last, each=GROUPS_EACH)
        cursor.execute(_GROUPS, bounds | {"run": run_id})
        rows = cursor.fetchall()
    names = environment_names(run_id)
    groups = [
        SampledGroup(
            received_at=at,
            task=lesson or ("" if env_id is None else names.get(env_id, f"environment {env_id}")),
            score_mean=score,
            longest_tokens=tokens,
        )
        for _, at, env_id, lesson, score, tokens in rows
    ]
    return groups, is_whole
