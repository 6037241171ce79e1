"""An environment that makes no calls counts as disconnected until its next call."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rollouts.diagnosis.queries.pipelines import diagnosis_of
from runs.events.models import RunEvent
from runs.lifecycle.models import Environment, Run
from runs.lifecycle.rules import SEEN_EVERY, SILENT_AFTER
from tests.api.buffer.outside_run import OutsideRun, make_mixed_run
from tests.api.buffer.stock_server import Server
from tests.buffer_factories import ENVIRONMENT, REGISTRATION, group

pytestmark = pytest.mark.django_db(transaction=True)
BASE = "/atropos/words"


@pytest.fixture
def outside() -> OutsideRun:
    """A run with two environments."""
    return make_mixed_run()


def silence(env_id: int, seconds: float) -> datetime:
    at = datetime.now(UTC) - timedelta(seconds=seconds)
    Environment.objects.filter(env_id=env_id).update(last_seen_at=at)
    return at


def connected(outside: OutsideRun) -> list[bool]:
    return [row["connected"] for row in outside.get("environments")["results"]]


def seen_at(env_id: int) -> datetime:
    return Environment.objects.get(env_id=env_id).last_seen_at


def request_status(outside: OutsideRun, env_id: int) -> Any:
    answer = outside.client.get(f"{BASE}/status-env?env_id={env_id}")
    assert answer.status_code == 200
    return answer.json()


LONG = SILENT_AFTER.total_seconds() + 1


@pytest.mark.parametrize("call", ["status", "push", "list"])
def test_a_silent_environment_is_disconnected_until_its_next_call(
    outside: OutsideRun, call: str
) -> None:
    silence(1, LONG)
    assert connected(outside) == [True, False]

    if call == "status":
        request_status(outside, 1)
    elif call == "push":
        outside.push(env_id=1)
    else:
        outside.post(f"{BASE}/scored_data_list", [group(env_id=1), group(env_id=1)])

    assert connected(outside) == [True, True]
    assert datetime.now(UTC) - seen_at(1) < timedelta(seconds=60)


def test_no_batch_waits_for_the_minimum_of_a_silent_environment(outside: OutsideRun) -> None:
    Environment.objects.filter(env_id=1).update(min_batch_allocation=0.5)
    outside.push(mark=1, env_id=0)
    outside.push(mark=2, env_id=0)
    assert outside.next() is None

    silence(1, LONG)
    assert outside.next() is not None


def test_a_silent_environment_has_no_weight_in_the_shares_of_others(outside: OutsideRun) -> None:
    before = request_status(outside, 0)["env_weight"]
    silence(1, LONG)

    assert request_status(outside, 0)["env_weight"] == 1.0 > before


def test_last_seen_at_is_updated_at_most_every_15_seconds(outside: OutsideRun) -> None:
    recent = silence(0, SEEN_EVERY.total_seconds() - 5)
    with CaptureQueriesContext(connection) as queries:
        outside.push(env_id=0)
        request_status(outside, 0)

    assert seen_at(0) == recent
    assert not [query for query in queries if 'UPDATE "runs_environment"' in query["sql"]]


def test_an_environment_without_a_trainer_appears_in_diagnosis_and_events() -> None:
    server = Server()
    server.register()
    run = Run.objects.get()
    for _ in range(3):
        assert server.post("/register-env", ENVIRONMENT).json() == {
            "status": "wait for trainer to start"
        }

    name = ENVIRONMENT["desired_name"]
    event = RunEvent.objects.get(run=run, kind="environment_waits")
    assert (
        event.message == f"environment {name} waits for a trainer to register and ask for a batch"
    )
    diagnosis = diagnosis_of(run.pk, now=datetime.now(UTC))
    assert diagnosis.summary.startswith("Environments wait for a trainer")
    assert diagnosis.evidence == [f"{name} waits"]
    assert server.post("/register", REGISTRATION).status_code == 200
