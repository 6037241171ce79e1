"""Durations of lists in a run of many groups; not part of the usual run.

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

from buffer.inspect.queries.group_lists import group_page
from buffer.inspect.queries.sample_lists import bounded_cursor
from buffer.inspect.rules.sample_filter import parse_samples
from runs.lifecycle.models import Run
from tests.factories import NOON, make_run

GROUPS: Final = int(os.environ.get("TEST_GROUPS", "10000000"))
REPEATS: Final = 20
P95_SECONDS: Final = 0.3
OF_TWO: Final = ", of two runs"
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
         excerpt, answer, words, score_mean, longest_tokens, facts, advantages, correct)
    SELECT g.id, g.run_id, 'lesson-' || g.id %% 12, 'w' || g.id %% 16, '', ARRAY[0, 1, 0.5],
        ARRAY[400, 500, 600], CASE WHEN g.id %% 25 = 0 THEN 1 ELSE 0 END,
        CASE WHEN g.id %% 40 = 0 THEN 2 ELSE 0 END, 'What is ' || g.id || ' plus one?', '',
        to_tsvector('simple', 'what is ' || g.id || ' plus one of ' || g.id %% 1000)
            || array_to_tsvector(ARRAY[%(word)s]),
        g.score_mean, g.longest_tokens,
        jsonb_build_object('meta.difficulty', g.id %% 9, 'meta.topic', 'topic ' || g.id %% 50,
            'override.level', (ARRAY['easy','hard'])[1 + g.id %% 2], 'meta.long', repeat('x', 200)),
        '{-1, 1}', g.id %% 9
    FROM buffer_trajectorygroup g WHERE g.segment IS NOT NULL"""
# One in 200 is marked: tagged or noted.
_MARKS: Final = """
    INSERT INTO buffer_groupmark
        (group_id, run_id, tags, note, changed_by, changed_at)
    SELECT g.id, g.run_id,
        CASE WHEN g.id %% 3 > 0 THEN ARRAY['tag-' || 1 + g.id %% 9] ELSE '{}' END,
        CASE WHEN g.id %% 3 = 0 THEN 'odd' ELSE '' END, 'ada', now()
    FROM buffer_trajectorygroup g WHERE g.id %% 200 = 0"""
_INDEXES: Final = """
    SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i
    WHERE i.indrelid IN ('buffer_trajectorygroup'::regclass, 'buffer_groupdigest'::regclass)
    AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid)"""
QUESTIONS: Final[dict[str, dict[str, str]]] = {
    "everything": {},
    "one state": {"text": "state:queued"},
    "dropped": {"text": "state:dropped"},
    "an environment and flags": {"text": "env:lesson-4 is:truncated is:duplicate"},
    "a range": {"text": "score>=0.5 length<=900 version>=100"},
    "highest score": {"sort": "-score", "text": "version>2"},
    "shortest": {"sort": "length", "text": "worker:w3"},
    "by version": {"sort": "-version"},
    "rare words": {"text": "plus 4711"},
    "common words": {"text": "plus one"},
    "what nothing meets": {"text": "version>=1000000000"},
    "a fact": {"text": "meta.difficulty:>3 override.level:easy"},
    "a fact in part": {"text": "meta.topic~7"},
    "a fact that nothing meets": {"text": "meta.difficulty:99"},
    "a key that is unknown": {"text": "meta.other:1"},
    "by a fact": {"sort": "-meta.difficulty", "text": "override.level:hard"},
    "by the share solved": {"sort": "solved"},
    "a tag": {"text": "tag:tag-4"},
    "a tag in part": {"text": "tag~TAG-5"},
    "noted": {"text": "is:noted"},
    "a tag, best first": {"text": "tag:tag-2", "sort": "-score"},
    "a batch, best first": {
        "text": "batch:00000000-0000-0000-0000-000000000001",
        "sort": "-score",
    },
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
    with bounded_cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, SUMMARY) {sql}", params)
        return "\n".join(line for (line,) in cursor.fetchall())


def test_lists_of_a_large_run_are_fast(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    beside = make_run(name="small", kind="outside", status="running")

    def ask(name: str) -> Callable[[], Any]:
        question = name.removesuffix(OF_TWO)
        runs = [run.pk] if name == question else [run.pk, beside.pk]
        wanted = parse_samples(**QUESTIONS[question])
        return lambda: group_page(runs, wanted, limit=50, now=NOON)

    names = [*QUESTIONS, *(f"{name}{OF_TWO}" for name in ("everything", "rare words"))]
    pages = {name: p95_seconds(ask(name)) for name in names}

    slow = max(pages, key=lambda name: pages[name])
    with capsys.disabled():
        sys.stdout.write("\n".join(f"{name:26} {1000 * pages[name]:7.1f} ms" for name in pages))
        sys.stdout.write(f"\n{slow}: {explained(ask(slow))}\n")
    ordered = sorted(pages.values())
    assert ordered[int(0.95 * len(ordered))] <= P95_SECONDS
