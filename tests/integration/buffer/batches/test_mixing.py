"""Batches shared among environments, formed from the database."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from buffer.batches.services import forming, leases
from buffer.batches.services.settlement import acknowledge_batch
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from buffer.items.models import Batch, MixingShare, TrajectoryGroup
from runs.lifecycle.models import Run
from runs.lifecycle.services.registry import disconnect_environment, register_environment
from tests.buffer_factories import body, group
from tests.factories import NOON, make_outside_run
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    return make_outside_run()


def environment(
    run: Run, *, weight: float = 1.0, minimum: float | None = None, group_size: int = 1
) -> int:
    return register_environment(
        run_id=run.pk,
        desired_name="math",
        weight=weight,
        max_token_length=64,
        group_size=group_size,
        min_batch_allocation=minimum,
        now=datetime.now(UTC),
    ).env_id


def push(run: Run, env_id: int | None, *, count: int = 1, sequences: int = 1) -> None:
    fields: dict[str, Any] = {} if env_id is None else {"env_id": env_id}
    content = decode_group(body(group(sequences=sequences, **fields)))
    accept_groups(run=run, groups=[content] * count, producer="tests", now=NOON)


def leased_batch(run: Run) -> Batch | None:
    """Lease a batch and acknowledge it."""
    lease = leases.lease_batch(run_id=run.pk, identity="alice")
    if lease is None:
        return None
    return acknowledge_batch(run_id=run.pk, batch_id=lease.batch.pk, fence=lease.batch.fence)


def test_batches_are_shared_by_weight_and_debts_carry_over(run: Run) -> None:
    heavy, light = environment(run, weight=3.0), environment(run, weight=1.0)
    push(run, light, count=8)
    push(run, heavy, count=8, sequences=2)

    batches = [leased_batch(run) for _ in range(4)]

    served: Counter[str] = Counter()
    for batch in batches:
        assert batch is not None
        assert batch.sequences == 4
        assert batch.shares == {str(heavy): 0.75, str(light): 0.25}
        served.update(batch.composition)
    assert served == {str(heavy): 12, str(light): 4}
    rows = MixingShare.objects.filter(run=run).values_list("env_id", "sequences", "debt")
    assert set(rows) == {(heavy, 12, 0.0), (light, 4, 0.0)}
    assert miscounts(run.pk) == []


def test_a_batch_is_oldest_first_and_has_its_padding(run: Run) -> None:
    push(run, None, count=2)
    accept_groups(
        run=run,
        groups=[decode_group(body(group(sequences=2, tokens=9)))],
        producer="tests",
        now=NOON,
    )

    batch = leased_batch(run)

    assert batch is not None
    members = TrajectoryGroup.objects.filter(batch=batch).order_by("position")
    assert list(members.values_list("id", flat=True)) == sorted(m.pk for m in members)
    stored = Batch.objects.get(pk=batch.pk)
    assert (stored.tokens, stored.longest_tokens) == (2 * 3 + 2 * 9, 9)
    assert stored.padding == pytest.approx(1 - 24 / 36)
    assert stored.composition == {"": 4}


def test_a_batch_waits_for_a_dry_minimum_and_is_served_without_it_after_the_deadline(
    run: Run,
) -> None:
    busy, dry = environment(run), environment(run, minimum=0.5)
    push(run, busy, count=12)

    assert leased_batch(run) is None

    waits = MixingShare.objects.get(run=run, env_id=dry)
    assert waits.blocks_since is not None
    assert leased_batch(run) is None
    assert MixingShare.objects.get(pk=waits.pk).blocks_since == waits.blocks_since
    MixingShare.objects.filter(pk=waits.pk).update(
        blocks_since=waits.blocks_since - timedelta(seconds=31)
    )
    batch = leased_batch(run)
    assert batch is not None
    assert batch.composition == {str(busy): 4}
    assert MixingShare.objects.filter(pk=waits.pk, blocks_since=None, debt=4.0).exists()
    # The next batch waits again, and the groups that arrive then are served first.
    assert leased_batch(run) is None
    push(run, dry, count=4)
    batch = leased_batch(run)
    assert batch is not None
    assert batch.composition == {str(dry): 4}


def test_without_a_deadline_a_minimum_holds_batches_until_its_environment_leaves(run: Run) -> None:
    busy, dry = environment(run), environment(run, minimum=0.25)
    Run.objects.filter(pk=run.pk).update(dry_deadline_seconds=None)
    push(run, busy, count=4)
    assert leased_batch(run) is None
    MixingShare.objects.update(blocks_since=NOON)
    assert leased_batch(run) is None

    disconnect_environment(run_id=run.pk, env_id=dry, now=NOON)

    assert leased_batch(run) is not None
    assert not MixingShare.objects.exclude(blocks_since=None).exists()


def test_a_draining_run_waits_for_no_minimum(run: Run) -> None:
    busy = environment(run)
    environment(run, minimum=0.25)
    push(run, busy, count=4)
    Run.objects.filter(pk=run.pk).update(status="draining", drain_target="completed")

    assert leased_batch(run) is not None


def test_an_odd_group_behind_the_window_completes_a_batch(run: Run) -> None:
    """All windows hold threes; only the single sequences far behind them make fours."""
    push(run, None, count=2 * forming.SPARE_GROUPS, sequences=3)
    push(run, None, count=3, sequences=1)

    batches = [leased_batch(run) for _ in range(4)]

    assert [batch is not None for batch in batches] == [True, True, True, False]
    assert miscounts(run.pk) == []


def queue_many(run: Run, count: int, *, environments: int) -> None:
    """Queue `count` groups of two sequences without payloads, as fast as PostgreSQL can."""
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO buffer_trajectorygroup (run_id, state, drop_reason, epoch, received_at,
                size_bytes, env_id, sequences, tokens, longest_tokens, score_mean, score_min,
                score_max, score_std, producer, codec, object, crc32, "offset", segment)
            SELECT %s, 'queued', '', 0, now(), 10, n %% %s, 2, 6, 3, 0, 0, 0, 0, '', 'json', '',
                0, 0, 0
            FROM generate_series(1, %s) AS n""",
            [run.pk, environments, count],
        )
        cursor.execute(
            """INSERT INTO buffer_tally
                (run_id, kind, state, reason, epoch, env_id, size, shard, items, sequences)
            SELECT %(run)s, 'groups', tally_state, '', 0, env_id,
                CASE tally_state WHEN 'queued' THEN 2 ELSE 0 END, 0, COUNT(*), SUM(sequences)
            FROM buffer_trajectorygroup, (VALUES ('queued'), ('accepted')) AS f(tally_state)
            WHERE run_id = %(run)s GROUP BY tally_state, env_id""",
            {"run": run.pk},
        )
        cursor.execute("ANALYZE buffer_trajectorygroup")


def blocks_read(sql: str, values: list[Any]) -> tuple[int, str]:
    """Return how many blocks a statement touches, and its plan as text."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", values)
        (plan,) = cursor.fetchone()
    explained = plan if isinstance(plan, list) else json.loads(plan)
    top = explained[0]["Plan"]
    return top["Shared Hit Blocks"] + top["Shared Read Blocks"], json.dumps(top)


def test_the_oldest_groups_are_found_by_index_in_queues_of_any_length(run: Run) -> None:
    for _ in range(4):
        environment(run)
    windows = json.dumps([{"env_id": env_id, "length": 20} for env_id in range(4)])
    lengths: list[Any] = [windows, run.pk]
    touched = {}
    for count in (1_000, 39_000):
        queue_many(run, count, environments=4)
        connection.cursor().execute("DELETE FROM buffer_tally")
        touched[count], plan = blocks_read(forming.SQL["oldest_groups"], lengths)
        assert "group_queue_fifo" in plan
        assert "Seq Scan" not in plan
        assert "Sort" not in plan

    # The index has grown by a level or two, for each of the four environments.
    assert touched[39_000] <= touched[1_000] + 4 * 4


def test_a_batch_takes_as_many_statements_from_a_long_queue_as_from_a_short_one(run: Run) -> None:
    statements = {}
    for count in (40, 4_000):
        other = make_outside_run(name=f"queue-{count}", batch_size=8)
        for _ in range(4):
            environment(other)
        queue_many(other, count, environments=4)
        leased_batch(other)
        with CaptureQueriesContext(connection) as queries:
            lease = leases.lease_batch(run_id=other.pk, identity="alice")
        assert lease is not None
        statements[count] = [query["sql"].split()[0] for query in queries.captured_queries]

    assert statements[40] == statements[4_000]
