"""Ledgers by environment, and background audits against the rows."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.test import Client

from buffer import jobs
from buffer.batches.services.leases import lease_batch
from buffer.batches.services.settlement import acknowledge_batch
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.schemas.pushes_msgpack import decode_fragments
from buffer.ingest.services.pushes import accept_fragments, accept_groups
from buffer.items import queries
from buffer.items.models import LedgerAudit, Tally, TrajectoryGroup
from buffer.items.queries import ledger_part
from buffer.items.rules.ledger import Ledger, discrepancies
from buffer.items.services import audit_ledgers
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from tests.buffer_factories import body, fragment, group
from tests.buffer_factories import push as push_body
from tests.factories import NOON, bearer, make_outside_run, make_run
from tests.integration.buffer.ingest.test_queue_under_load import in_threads
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    return make_outside_run(lenient=True)


def push(run: Run, *, count: int = 1, **fields: Any) -> None:
    content = decode_group(body(group(**fields)))
    accept_groups(run=run, groups=[content] * count, producer="tests", now=NOON)


def alarms(run: Run) -> list[tuple[str, str]]:
    events = RunEvent.objects.filter(run=run, kind__startswith="ledger_").order_by("id")
    return list(events.values_list("kind", "level"))


def test_the_ledger_separates_environments_and_they_add_up(run: Run) -> None:
    push(run, count=3, env_id=0)
    push(run, count=2, env_id=1)
    push(run)
    lease = lease_batch(run_id=run.pk, identity="alice")
    assert lease is not None
    acknowledge_batch(run_id=run.pk, batch_id=lease.batch.pk, fence=lease.batch.fence)

    answer = Client(headers=bearer("read")).get("/api/v1/runs/words/ledger").json()

    parts = answer["environments"]
    assert [(part["env_id"], part["accepted"]) for part in parts] == [(None, 1), (0, 3), (1, 2)]
    assert all(part["balanced"] for part in parts)
    for place in ("accepted", "queued", "served"):
        assert sum(part[place] for part in parts) == answer["groups"][place]
    assert (answer["audited_at"], answer["problem"]) == (None, "")


def test_the_ledger_separates_environments_of_fragments() -> None:
    run = make_run(name="poles", epoch=1, policy_step=0)
    sent = [
        fragment(number=0),
        fragment(slot="other", number=0, environment="gymnasium:Acrobot-v1"),
        fragment(slot="late", number=0, epoch=0),
    ]
    encoded = decode_fragments(push_body(*sent))
    accept_fragments(run=run, fragments=encoded, now=NOON)

    ledger = queries.ledgers_by_environment(run.pk)

    assert [(part.environment, part.accepted, part.dropped) for part in ledger] == [
        ("gymnasium:Acrobot-v1", 1, {}),
        ("gymnasium:CartPole-v1", 2, {"stale_epoch": 1}),
    ]


def test_a_balanced_run_is_audited_once_until_something_moves(run: Run) -> None:
    push(run)

    assert jobs.audit_ledgers() == 0
    first = LedgerAudit.objects.get()
    jobs.audit_ledgers()
    assert LedgerAudit.objects.get().audited_at == first.audited_at

    push(run)
    audit_ledgers(now=first.audited_at + timedelta(minutes=1))
    assert LedgerAudit.objects.get().audited_at > first.audited_at
    assert alarms(run) == []


def test_a_slow_audit_runs_less_often(run: Run) -> None:
    push(run)
    jobs.audit_ledgers()
    LedgerAudit.objects.update(audited_at=NOON, took_seconds=10)
    push(run)

    assert queries.audits_due(now=NOON + timedelta(minutes=20)) == []
    assert len(queries.audits_due(now=NOON + timedelta(minutes=40))) == 1


def test_an_uncounted_row_raises_one_alert_until_it_is_repaired(run: Run) -> None:
    push(run, count=2)
    TrajectoryGroup.objects.filter(pk=TrajectoryGroup.objects.latest("id").pk).update(
        state="dropped", drop_reason="killed"
    )

    for minutes in range(3):
        assert audit_ledgers(now=NOON + timedelta(minutes=minutes)) == 1

    assert alarms(run) == [("ledger_unbalanced", "error")]
    run.refresh_from_db()
    assert "queued: 2 counted, 1 rows found" in run.ledger_problem
    assert "dropped (killed): 0 counted, 1 rows found" in run.ledger_problem
    client = Client(headers=bearer("read"))
    assert client.get("/api/v1/runs/words").json()["ledger_problem"] == run.ledger_problem
    assert ledger_part(run.pk).problem == run.ledger_problem
    scraped = Client(headers=bearer("metrics")).get("/metrics").content.decode()
    assert 'rolldeck_ledger_balanced{run="words"} 0.0' in scraped

    TrajectoryGroup.objects.filter(state="dropped").update(state="queued", drop_reason="")
    assert audit_ledgers(now=NOON + timedelta(minutes=9)) == 0
    assert alarms(run)[1:] == [("ledger_balanced", "info")]


def test_counts_that_do_not_add_up_raise_an_alert(run: Run) -> None:
    push(run)
    Tally.objects.filter(state="accepted").update(items=5)

    assert audit_ledgers(now=NOON) == 1

    run.refresh_from_db()
    assert "the counts by state do not sum" in run.ledger_problem


def test_ledgers_that_agree_have_no_discrepancies() -> None:
    ledger = Ledger(accepted=3, queued=1, dropped={"killed": 2})
    assert discrepancies(counted=ledger, found=ledger) == []


def test_audits_find_no_error_under_load(run: Run) -> None:
    wrong: list[str] = []

    def push_some(mark: int) -> None:
        for number in range(12):
            push(run, mark=mark, sequences=number % 3 + 1, env_id=number % 2)

    def train() -> None:
        for _ in range(30):
            lease = lease_batch(run_id=run.pk, identity="alice")
            if lease is not None:
                acknowledge_batch(run_id=run.pk, batch_id=lease.batch.pk, fence=lease.batch.fence)

    def audit() -> None:
        for _ in range(30):
            wrong.extend(queries.ledger_problems(run.pk))

    in_threads(*(partial(push_some, mark) for mark in range(3)), train, audit)

    assert wrong == []
    assert miscounts(run.pk) == []
    parts = queries.ledgers_by_environment(run.pk)
    assert all(part.balanced for part in parts)
    assert sum(part.accepted for part in parts) == 36


def test_metrics_describe_a_run(run: Run) -> None:
    push(run, count=5)
    lease_batch(run_id=run.pk, identity="alice")

    text = Client(headers=bearer("metrics")).get("/metrics").content.decode()

    size = TrajectoryGroup.objects.values_list("size_bytes", flat=True)[0]
    for line in (
        'rolldeck_queued_items{run="words"} 3.0',
        'rolldeck_leased_items{run="words"} 2.0',
        f'rolldeck_held_bytes{{run="words"}} {5.0 * size}',
        'rolldeck_admission_capacity{run="words"} 6.0',
        'rolldeck_ledger_balanced{run="words"} 1.0',
        'rolldeck_batch_staleness_versions{run="words"} 0.0',
        'rolldeck_producers_paused{run="words"} 0.0',
    ):
        assert line in text
    assert 'rolldeck_batch_wait_seconds{run="words"}' in text


def test_metrics_count_dropped_items_by_reason(run: Run) -> None:
    push(run, count=2, policy_step=9)

    text = Client(headers=bearer("metrics")).get("/metrics").content.decode()

    assert 'rolldeck_dropped_items{reason="future",run="words"} 2.0' in text
