"""Scores of groups: over the life of a run, and among the newest."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.db import connection

from buffer.inspect.queries.group_contents import environment_names
from web.sql import statements_of

SQL: Final = statements_of("buffer")


RANGES_AT_MOST: Final = 240


def id_ranges(first: int, last: int, *, each: int) -> tuple[dict[str, int], bool]:
    """Return the parameters of a statement that reads at most `each` rows of every id range.

    Args:
        first: The smallest id.
        last: The largest id, at least `first`.
        each: Maximum number of rows read per id range.

    Returns:
        ``first``, ``last``, ``step`` (ids per range) and ``each``; and whether this reads all
        rows, because no range holds more than `each` ids.
    """
    step = (last - first) // RANGES_AT_MOST + 1
    return {"first": first, "last": last, "step": max(step, each), "each": each}, step <= each


GROUPS_EACH: Final = 40


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
        cursor.execute(SQL["ends_of_groups"], {"run": run_id})
        first, last = cursor.fetchone()
        if first is None:
            return [], True
        bounds, is_whole = id_ranges(first, last, each=GROUPS_EACH)
        cursor.execute(SQL["spread_groups"], bounds | {"run": run_id})
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


RECENT: Final = timedelta(minutes=10)
NEWEST: Final = 64
"""Newest groups of a run that are examined."""
FEWEST: Final = 20
"""Minimum number of groups without a gradient."""


class NoGradients(NamedTuple):
    """Newest groups of a run, all without a gradient."""

    groups: int
    equal: int
    """Of these, the groups whose scores are all equal."""
    lowest: float
    """Lowest mean score."""
    highest: float
    """Highest mean score."""


def groups_without_gradient(run_id: int, *, now: datetime) -> NoGradients | None:
    """Return the newest groups of a run if none of at least :data:`FEWEST` has a gradient."""
    params: dict[str, Any] = {
        "run": run_id,
        "since": now - RECENT,
        "newest": NEWEST,
        "fewest": FEWEST,
    }
    with connection.cursor() as cursor:
        cursor.execute(SQL["newest_gradients"], params)
        row = cursor.fetchone()
    return None if row is None else NoGradients(*row)
