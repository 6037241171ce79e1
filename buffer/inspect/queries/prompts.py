"""Prompts that several runs share, with the scores of each run."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from buffer.inspect.queries.group_lists import bounded_cursor
from buffer.inspect.schemas import PromptInRun, PromptRow
from web.rules.amounts import finite_or_none

ROWS_EXAMINED: Final = 1000
"""Number of newest groups of each run that are searched for prompts."""
MOST_PROMPTS: Final = 30
NEWEST: Final = 16
"""Number of newest groups per prompt and run whose scores are summarised."""
_CANDIDATES: Final = """
    SELECT d.prompt::text, max(d.group_id)
    FROM (
        SELECT id FROM buffer_trajectorygroup
        WHERE run_id = %(run)s AND segment IS NOT NULL ORDER BY id DESC LIMIT %(limit)s
    ) newest JOIN buffer_groupdigest d ON d.group_id = newest.id
    WHERE d.prompt IS NOT NULL GROUP BY 1"""
_OF_RUNS: Final = """
    SELECT p.prompt::text, r.run, found.*
    FROM unnest(%(prompts)s::uuid[]) AS p(prompt)
    CROSS JOIN unnest(%(runs)s::bigint[]) AS r(run)
    CROSS JOIN LATERAL (
        SELECT count(*) AS groups, max(id), avg(score_mean::numeric)::float8,
            min(score_min), max(score_max),
            (array_agg(excerpt ORDER BY id DESC))[1], (array_agg(lesson ORDER BY id DESC))[1],
            (array_agg(example ORDER BY id DESC))[1], (array_agg(policy_step ORDER BY id DESC))[1]
        FROM (
            SELECT g.id, g.score_mean, g.score_min, g.score_max, g.policy_step, d.excerpt,
                d.lesson, d.example
            FROM buffer_groupdigest d JOIN buffer_trajectorygroup g ON g.id = d.group_id
            WHERE d.prompt = p.prompt AND d.run_id = r.run
            ORDER BY d.group_id DESC LIMIT %(newest)s
        ) few
    ) AS found
    WHERE found.groups > 0"""


def shared_prompts(names: Mapping[int, str]) -> list[PromptRow]:
    """Return recent prompts of runs, most widely shared first, then newest first.

    Args:
        names: Names of the runs, by id.

    Raises:
        SearchTooSlow: If the database takes too long.
    """
    with bounded_cursor() as cursor:
        by_prompt: dict[str, list[int]] = defaultdict(list)
        for run_id in names:
            cursor.execute(_CANDIDATES, {"run": run_id, "limit": ROWS_EXAMINED})
            for prompt, newest in cursor.fetchall():
                by_prompt[prompt].append(newest)
        chosen = sorted(by_prompt, key=lambda one: (-len(by_prompt[one]), -max(by_prompt[one])))
        cursor.execute(
            _OF_RUNS,
            {"prompts": chosen[:MOST_PROMPTS], "runs": list(names), "newest": NEWEST},
        )
        found = cursor.fetchall()
    rows: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for prompt, *rest in found:
        rows[prompt].append(tuple(rest))
    shared = [_prompt(prompt, rows[prompt], names) for prompt in chosen if prompt in rows]
    # Sort again: a run may have older groups of a prompt than those searched above.
    return sorted(shared, key=lambda one: -len(one.runs))


def _prompt(prompt: str, rows: list[tuple[Any, ...]], names: Mapping[int, str]) -> PromptRow:
    excerpt, lesson, example = (str(part or "") for part in rows[0][6:9])
    return PromptRow(
        prompt=prompt.replace("-", ""),
        excerpt=excerpt,
        lesson=lesson,
        example=example,
        runs=[
            PromptInRun(
                run=names[run],
                groups=groups,
                newest=newest,
                policy_step=policy_step,
                score_mean=finite_or_none(mean),
                score_min=finite_or_none(least),
                score_max=finite_or_none(most),
            )
            for run, groups, newest, mean, least, most, *_, policy_step in rows
        ],
    )
