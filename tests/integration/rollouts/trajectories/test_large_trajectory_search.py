"""Durations of searches over 100,000 groups and 100,000 episodes of 50 runs.

Not part of the usual run: ``make test-full`` writes the measured durations.
"""

import os
import sys
import time
from typing import Any, Final

import pytest
from django.db import connection

from buffer.inspect.queries.samples import SampledRun
from buffer.inspect.rules.sample_filter import Position, SampleKind, parse_samples
from rollouts.trajectories.queries import SampledRuns, samples
from runs.lifecycle.models import Run
from tests.factories import NOON
from web.rules.pages import PageRequest

GROUPS: Final = int(os.environ.get("TEST_GROUPS", "100000"))
RUNS: Final = 50
REPEATS: Final = 20
P95_SECONDS: Final = 1.0
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.alone("measures a search over 100,000 groups"),
]
_GROUPS: Final = """
    INSERT INTO buffer_trajectorygroup
        (run_id, state, drop_reason, epoch, policy_step, env_id, received_at, size_bytes, codec,
         segment, sequences, tokens, longest_tokens, score_mean, score_min, score_max, score_std,
         producer)
    SELECT (%(runs)s::bigint[])[1 + i %% %(count)s], 'queued', '', 1, i / 1000, 0,
        now() - make_interval(secs => (%(groups)s - i) / 10.0), 20000, 'json', i / 10000, 8, 8000,
        500, ((i::bigint * 104729) %% 1000) / 1000.0, 0, 1, 0.3, 'worker:w' || i %% 16
    FROM generate_series(1, %(groups)s) AS i"""
_DIGESTS: Final = """
    INSERT INTO buffer_groupdigest
        (group_id, run_id, lesson, worker, example, scores, lengths, truncated, duplicates,
         excerpt, answer, words, score_mean, longest_tokens, facts, advantages)
    SELECT g.id, g.run_id, 'lesson-' || g.id %% 12, 'w' || g.id %% 16, '', ARRAY[0, 1, 0.5],
        ARRAY[400, 500, 600], 0, 0, 'What is ' || g.id || ' plus one?', '',
        to_tsvector('simple', 'what is ' || g.id || ' plus one of ' || g.id %% 1000)
            || array_to_tsvector(ARRAY['run:' || g.run_id]),
        g.score_mean, g.longest_tokens,
        jsonb_build_object('meta.difficulty', g.id %% 9), '{}'
    FROM buffer_trajectorygroup g"""
_REPORTS: Final = """
    INSERT INTO rollouts_episodewindow
        (run_id, at, environment, worker, mode, seconds, count, return_sum, return_mean,
         return_min, return_max, return_p10, return_p50, return_p90, discounted_return_mean,
         length_mean, length_max, terminated, truncated, aborted, returns, lengths, incarnation,
         slots, numbers, policy_step, env_steps_total, served_steps)
    SELECT (%(runs)s::bigint[])[1 + i %% %(count)s], now(), 'env-' || i %% 20, i %% 8, 'train', 5,
        10, 0, 0, i %% 997, i %% 997 + 9, 0, 0, 0, 0, 0, 9, 0, 0, 0,
        ARRAY(SELECT i %% 997 + n FROM generate_series(0, 9) n), array_fill(9, ARRAY[10]), 'a',
        array_fill(0, ARRAY[13]), ARRAY(SELECT i * 10 + n FROM generate_series(0, 12) n), 1, 0, 0
    FROM generate_series(1, %(groups)s / 10) AS i"""
EPISODE: Final = SampleKind.EPISODE
QUESTIONS: Final[dict[str, dict[str, Any]]] = {
    "groups": {},
    "lowest score": {"sort": "score"},
    "a lesson": {"text": "env:lesson-4"},
    "a lesson, lowest score": {"text": "env:lesson-4", "sort": "score"},
    "no such environment": {"text": "env:absent"},
    "a range": {"text": "score>=0.2 score<=0.3"},
    "by version": {"sort": "-version"},
    "rare words": {"text": "4711 plus"},
    "common words": {"text": "plus one"},
    "common words, lowest score": {"text": "plus one", "sort": "score"},
    "the last hour": {"text": "arrived>=2000-01-01"},
    "episodes": {"kind": EPISODE},
    "lowest return": {"kind": EPISODE, "sort": "score"},
    "lowest return of an environment": {"kind": EPISODE, "text": "env:env-3", "sort": "score"},
    "a range of returns": {"kind": EPISODE, "text": "score<=500", "sort": "-score"},
}


def test_searches_over_many_rows_are_fast() -> None:
    rows = [
        Run(name=f"run-{n}", kind="outside", status_changed_at=NOON, created_at=NOON)
        for n in range(RUNS)
    ]
    created = Run.objects.bulk_create(rows)
    runs = [run.pk for run in created]
    covered = SampledRuns(runs={run.pk: SampledRun.of(run) for run in created})
    params = {"runs": runs, "count": RUNS, "groups": GROUPS}
    with connection.cursor() as cursor:
        for statement in (_GROUPS, _DIGESTS, _REPORTS):
            cursor.execute(statement, params)
        cursor.execute("ANALYZE")
    slow = {}
    for name, query in QUESTIONS.items():
        wanted = parse_samples(**query)
        page: PageRequest[Position] = PageRequest(limit=50)
        taken = []
        for _ in range(REPEATS):
            begin = time.perf_counter()
            found = samples(covered, wanted, page, now=NOON)
            taken.append(time.perf_counter() - begin)
        taken.sort()
        p95 = taken[int(REPEATS * 0.95) - 1]
        sys.stderr.write(
            f"{name}: median {taken[REPEATS // 2] * 1000:.1f} ms, p95 {p95 * 1000:.1f} ms,"
            f" {len(found.results)} rows{', partial' if found.is_partial else ''}\n"
        )
        if p95 > P95_SECONDS:
            slow[name] = p95

    assert slow == {}
