"""Lists of the admin respond within half a second with ten million rows."""

import os
import time
from statistics import median
from typing import Final

import pytest
from django.db import connection
from django.test import Client

from benchmarks.processes import cpu_seconds
from runs.access.models import User
from runs.lifecycle.models import Environment, Run
from tests.factories import NOON, make_run

pytestmark = [pytest.mark.django_db, pytest.mark.alone("measures pages over ten million rows")]

ROWS: Final = int(os.environ.get("ROLLDECK_TEST_ROWS", "10_000_000"))
RUNS: Final = 20
AT_MOST_SECONDS: Final = 0.5
# Like rows of the services: one in a hundred queued, the others dropped with a reason; nine of ten
# consecutive rows belong to one run. Foreign keys are not checked row by row.
FILL: Final = """
    INSERT INTO buffer_trajectorygroup
        (run_id, state, drop_reason, epoch, policy_step, env_id, received_at, size_bytes,
         codec, crc32, segment, object, "offset", origin, sequences, tokens, longest_tokens,
         score_mean, score_min, score_max, score_std, producer)
    SELECT CASE WHEN n %% 10 = 0 THEN %(first)s + n %% %(runs)s ELSE %(last)s END,
           CASE WHEN n %% 100 = 0 THEN 'queued' ELSE 'dropped' END,
           CASE WHEN n %% 100 = 0 THEN '' ELSE 'stale_version' END,
           1, n / 1000, n %% 4, %(now)s + n * interval '1 ms', 4096,
           'json', 0, 1, 'objects/1', n, '', 8, 4096, 512, 0.5, 0, 1, 0.5, 'env:math_0'
    FROM generate_series(1, %(rows)s) AS n"""
# The newest groups only: no filter reads the digests of others.
DIGEST: Final = """
    INSERT INTO buffer_groupdigest
        (group_id, run_id, lesson, worker, example, scores, lengths, truncated, duplicates, excerpt,
         answer, score_mean, longest_tokens, facts, advantages)
    SELECT id, run_id, 'sums-' || id %% 9, 'w' || id %% 4, '', '{}', '{}', 0, 0, '', '', 0.5, 512,
        '{}', '{}'
    FROM buffer_trajectorygroup ORDER BY id DESC LIMIT 300000"""
LISTS: Final = {
    "list": "",
    "list, page 100": "?p=100",
    "search by id": "?q=123456",
    "search by run": "?q=many-0",
    "filter by run, the rarest": "?run__id__exact={first}",
    "filter by run, the largest": "?run__id__exact={last}",
    "filter by state, common": "?state__exact=dropped",
    "filter by state, none there": "?state__exact=waiting",
    "filter by run and state": "?run__id__exact={last}&state__exact=queued",
    "filter by environment": "?environment=math",
    "filter by lesson, none there": "?lesson=products",
    "filter by run and environment": "?run__id__exact={last}&environment=math_0",
    "filter by run and lesson": "?run__id__exact={last}&lesson=sums-1",
    "filter by run and worker, none there": "?run__id__exact={last}&worker=x",
    "filter by run and score, none there": "?run__id__exact={last}&score_mean_from=0.9",
}


@pytest.fixture
def runs() -> list[Run]:
    runs = [make_run(name=f"many-{number}", kind="outside") for number in range(RUNS)]
    parameters = {
        "first": runs[0].pk, "last": runs[-1].pk, "runs": RUNS, "now": NOON, "rows": ROWS
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(FILL, parameters)
        cursor.execute(DIGEST, {})
        cursor.execute("SET LOCAL session_replication_role = DEFAULT")
        cursor.execute("ANALYZE buffer_trajectorygroup, buffer_groupdigest")
    Environment.objects.create(
        run=runs[-1], env_id=0, wandb_name="math_0", registered_at=NOON, last_seen_at=NOON
    )
    return runs


def test_a_list_of_ten_million_groups_answers_at_once(runs: list[Run]) -> None:
    ada = Client()
    ada.force_login(User.objects.create_superuser("ada"))
    ada.get("/admin/buffer/trajectorygroup/")  # templates are compiled once

    taken = {
        name: seconds(ada, query.format(first=runs[0].pk, last=runs[-1].pk))
        for name, query in LISTS.items()
    }

    print({name: f"{1000 * duration:.0f} ms" for name, duration in taken.items()})  # noqa: T201 figures
    assert {name: duration for name, duration in taken.items() if duration > AT_MOST_SECONDS} == {}


def seconds(ada: Client, query: str) -> float:
    """Return the median processor time of five responses, ours and the database's.

    On an idle machine it equals the time that a person waits.
    """

    def once() -> float:
        began = used()
        assert ada.get(f"/admin/buffer/trajectorygroup/{query}").status_code == 200
        return used() - began

    return median(once() for _ in range(5))


def used() -> float:
    """Return the processor time so far of this process and of its database connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [pid] = cursor.fetchone()
    return time.process_time() + cpu_seconds([pid])
