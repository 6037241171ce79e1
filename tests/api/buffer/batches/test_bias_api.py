"""The API reports the selection bias of a run."""

from datetime import UTC, datetime

import pytest
from django.test import Client

from buffer.batches.services.leases import lease_batch
from buffer.batches.services.settlement import acknowledge_batch
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from runs.lifecycle.models import Run
from runs.lifecycle.services.registry import register_environment
from tests.buffer_factories import ENVIRONMENT, body, group
from tests.factories import NOON, bearer, make_outside_run, make_run

pytestmark = pytest.mark.django_db

LATELY = datetime(2101, 1, 1, tzinfo=UTC)


@pytest.fixture
def run() -> Run:
    run = make_outside_run()
    register_environment(
        run_id=run.pk, **{**ENVIRONMENT, "group_size": 2}, min_batch_allocation=None, now=NOON
    )
    return Run.objects.get(pk=run.pk)


def push(run: Run, count: int, *, tokens: int, at: datetime = LATELY, **fields: int) -> None:
    content = decode_group(body(group(tokens=tokens, **fields)))
    accept_groups(run=run, groups=[content] * count, producer="tests", now=at)


def test_dropped_long_groups_appear_as_a_bias(run: Run) -> None:
    push(run, 24, tokens=10, env_id=0)
    push(run, 24, tokens=40, policy_step=99)
    push(run, 5, tokens=1000, policy_step=99, at=NOON)
    while lease := lease_batch(run_id=run.pk, identity="alice"):
        acknowledge_batch(run_id=run.pk, batch_id=lease.batch.pk, fence=lease.batch.fence)

    answer = Client(headers=bearer("read")).get("/api/v1/runs/words/bias?window=3600").json()

    assert (answer["admitted"]["items"], answer["dropped"]["items"]) == (48, 24)
    assert answer["served"]["length"] == {"mean": 10.0, "p10": 10.0, "p50": 10.0, "p90": 10.0}
    assert answer["served"]["environments"] == {"math_0": 24}
    assert answer["dropped_against_served"] == {"length": 1.0, "score": 0.0, "environment": 1.0}
    assert answer["served_against_admitted"]["length"] == 0.5
    assert "dropped groups are 4.0× longer than served ones" in answer["summary"]


def test_fragments_are_compared_too_and_small_samples_are_inconclusive() -> None:
    make_run(name="poles")

    answer = Client(headers=bearer("read")).get("/api/v1/runs/poles/bias").json()

    assert answer["summary"] == "too few fragments to compare: 0 dropped, 0 served"
    assert answer["dropped"]["length"]["mean"] is None


def test_a_non_numeric_window_is_refused(run: Run) -> None:
    answer = Client(headers=bearer("read")).get("/api/v1/runs/words/bias?window=week")

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "window")
