"""Durations of lists and facets in a run of many groups; not part of the usual run.

    make test-full

writes what it measured and the plan of the slowest question.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from django.db import connection

from buffer.inspect.queries import group_lists
from buffer.inspect.rules.group_filter import GroupFilter, parse_filter
from runs.lifecycle.models import Run
from tests.factories import make_run

GROUPS: Final = int(os.environ.get("TEST_GROUPS", "10000000"))
REPEATS: Final = 20
FACETS_P95_SECONDS: Final = 0.3
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.alone("measures lists over ten million groups"),
]
# Nine in ten were served, the newest are queued, one in fifty was dropped.
_GROUPS: Final = """
    INSERT INTO buffer_trajectorygroup
        (run_id, state, drop_reason, epoch, policy_step, env_id, received_at, size_bytes, codec,
         segment, sequences, tokens, longest_tokens, score_mean, score_min, score_max, score_std,
         producer, batch_id, position)
    SELECT %(run)s,
        CASE WHEN i %% 50 = 0 THEN 'dropped' WHEN i > %(groups)s * 0.9 THEN 'queued'
            ELSE 'served' END,
        CASE WHEN i %% 50 = 0 THEN (ARRAY['stale_version','zero_variance','capacity'])[1 + i %% 3]
            ELSE '' END,
        1, i / 1000, i %% 7, now() - make_interval(secs => (%(groups)s - i) / 100.0), 20000,
        'json', CASE WHEN i %% 100 = 0 THEN NULL ELSE i / 100000 END, 8, 8000,
        500 + (i::bigint * 7919) %% 1500, ((i::bigint * 104729) %% 1000) / 1000.0, 0, 1, 0.3,
        'worker:w' || i %% 16,
        CASE WHEN i %% 50 <> 0 AND i <= %(groups)s * 0.9 THEN %(batch)s::uuid END,
        CASE WHEN i %% 50 <> 0 AND i <= %(groups)s * 0.9 THEN i END
    FROM generate_series(1, %(groups)s) AS i"""
_DIGESTS: Final = """
    INSERT INTO buffer_groupdigest
        (group_id, run_id, lesson, worker, example, scores, lengths, truncated, duplicates,
         excerpt, answer, words, score_mean, longest_tokens)
    SELECT g.id, g.run_id, 'lesson-' || g.id %% 12, 'w' || g.id %% 16, '', ARRAY[0, 1, 0.5],
        ARRAY[400, 500, 600], CASE WHEN g.id %% 25 = 0 THEN 1 ELSE 0 END,
        CASE WHEN g.id %% 40 = 0 THEN 2 ELSE 0 END, 'What is ' || g.id || ' plus one?', '',
        to_tsvector('simple', 'what is ' || g.id || ' plus one of ' || g.id %% 1000)
            || array_to_tsvector(ARRAY[%(word)s]),
        g.score_mean, g.longest_tokens
    FROM buffer_trajectorygroup g WHERE g.segment IS NOT NULL"""
# One in 200 is marked: labelled or noted.
_MARKS: Final = """
    INSERT INTO buffer_groupmark
        (group_id, run_id, label, note, changed_by, changed_at)
    SELECT g.id, g.run_id, CASE WHEN g.id %% 3 > 0 THEN 1 + g.id %% 9 END,
        CASE WHEN g.id %% 3 = 0 THEN 'odd' ELSE '' END, 'ada', now()
    FROM buffer_trajectorygroup g WHERE g.id %% 200 = 0"""
_INDEXES: Final = """
    SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i
    WHERE i.indrelid IN ('buffer_trajectorygroup'::regclass, 'buffer_groupdigest'::regclass)
    AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid)"""
QUESTIONS: Final[dict[str, dict[str, list[str]]]] = {
    "everything": {},
    "one state": {"state": ["queued"]},
    "dropped": {"state": ["dropped"]},
    "two facets": {"env": ["3"], "lesson": ["lesson-4"]},
    "flags": {"flag": ["truncated", "duplicate"]},
    "a range": {"score_min": ["0.5"], "length_max": ["900"], "version_min": ["100"]},
    "highest score": {"sort": ["-score"], "env": ["2"]},
    "shortest": {"sort": ["length"], "worker": ["w3"]},
    "rare words": {"q": ["plus 4711"]},
    "common words": {"q": ["plus one"]},
    "what nothing meets": {"version_min": ["1000000000"]},
    "a label": {"label": ["4"]},
    "noted": {"mark": ["noted"], "env": ["3"]},
    "a label, best first": {"label": ["2"], "sort": ["-score"]},
    "a batch, best first": {"batch": ["00000000-0000-0000-0000-000000000001"], "sort": ["-score"]},
}


@contextmanager
def without_indexes() -> Iterator[None]:
    """Write rows without indexes and make these at the end: that is several times as fast."""
    with connection.cursor() as cursor:
        cursor.execute(_INDEXES)
        indexes = cursor.fetchall()
        for name, _ in indexes:
            cursor.execute(f"DROP INDEX {name}")
        yield
        cursor.execute("SET maintenance_work_mem = '512MB'")
        for _, definition in indexes:
            cursor.execute(definition)


@pytest.fixture
def run() -> Run:
    run = make_run(name="large", kind="outside", status="running")
    batch = "00000000-0000-0000-0000-000000000001"
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO buffer_batch (id, run_id, kind, ordinal, state, epoch, policy_step,
                fence, sender, leased_at, lease_expires_at, lease_expiries, items, sequences,
                size_bytes, tokens, longest_tokens, composition, shares, staleness)
            VALUES (%s, %s, 'groups', 1, 'confirmed', 1, 0, 1, '', now(), now(), 0, 1, 8, 1, 1, 1,
                '{}', '{}', '{}')""",
            [batch, run.pk],
        )
        values = {"run": run.pk, "groups": GROUPS, "batch": batch, "word": f"run:{run.pk}"}
        with without_indexes():
            cursor.execute(_GROUPS, values)
            cursor.execute(_DIGESTS, values)
        cursor.execute(_MARKS, {})
        for table in ("trajectorygroup", "groupdigest", "groupmark"):
            cursor.execute(f"VACUUM (ANALYZE) buffer_{table}")
    return run


def p95_seconds(ask: Callable[[], Any]) -> float:
    ask()
    took = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        ask()
        took.append(time.perf_counter() - began)
    return sorted(took)[int(0.95 * REPEATS)]


def explained(ask: Callable[[], Any]) -> str:
    """Return the plan of the last long statement of a question, run once more."""
    statements: list[tuple[str, Any]] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        statements.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        ask()
    sql, params = max(statements, key=lambda one: len(one[0]))
    with group_lists.bounded_cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, SUMMARY) {sql}", params)
        return "\n".join(line for (line,) in cursor.fetchall())


def _summary(name: str, facets: float, page: float) -> str:
    return f"{name:20} facets {1000 * facets:7.1f} ms  page {1000 * page:7.1f} ms"


def test_facets_and_lists_of_a_large_run_are_fast(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    filters: dict[str, GroupFilter] = {
        name: parse_filter(query) for name, query in QUESTIONS.items()
    }

    facets = {
        name: p95_seconds(
            lambda group_filter=group_filter: group_lists.facets(run.pk, group_filter)
        )
        for name, group_filter in filters.items()
    }
    pages = {
        name: p95_seconds(
            lambda group_filter=group_filter: group_lists.group_page(run.pk, group_filter, limit=50)
        )
        for name, group_filter in filters.items()
    }

    worst = max(facets, key=lambda name: facets[name])
    slow = max(pages, key=lambda name: pages[name])
    with capsys.disabled():
        sys.stdout.write("\n".join(_summary(name, facets[name], pages[name]) for name in filters))
        sys.stdout.write(
            f"\n{worst}: {explained(lambda: group_lists.facets(run.pk, filters[worst]))}"
        )
        page = explained(lambda: group_lists.group_page(run.pk, filters[slow], limit=50))
        sys.stdout.write(f"\n{slow}: {page}\n")
    ordered = sorted(facets.values())
    assert ordered[int(0.95 * len(ordered))] <= FACETS_P95_SECONDS
