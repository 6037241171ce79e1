"""Runs without a batch size, and environments that are silent."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rolldeck.errors import ConflictError
from rolldeck.trainer import Trainer
from rollouts.diagnosis.queries.pipelines import diagnosis_of
from runs.events.models import RunEvent
from runs.lifecycle.models import Environment, Run
from runs.lifecycle.rules import SEEN_EVERY, SILENT_AFTER
from tests.api.buffer.outside_run import OutsideRun, make_mixed_run
from tests.api.buffer.stock_server import Server
from tests.buffer_factories import ENVIRONMENT, REGISTRATION, group
from tests.factories import bearer, make_run, make_token
from tests.integration.buffer import archive_files
from tests.live_server import serving

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def url() -> Iterator[str]:
    with serving() as base:
        yield base
    connection.close()


@pytest.fixture
def trainer(url: str) -> Iterator[Trainer]:
    run = make_run(name="words", kind="outside")
    with Trainer(url, "words", make_token("trainer", run=run)[1]) as client:
        yield client


def push(url: str, *marks: int) -> None:
    groups = [group(mark=mark) for mark in marks]
    answer = requests.post(f"{url}/atropos/words/scored_data_list", json=groups, timeout=60)
    assert answer.status_code == 200, answer.text


def test_a_stock_registration_after_a_native_one_configures_the_run(
    url: str, trainer: Trainer
) -> None:
    assert trainer.register().batch_size is None
    assert Run.objects.get().registered_at is None

    with pytest.raises(ConflictError, match="words has no batch size: register a trainer"):
        trainer.next_batch(wait_seconds=0)
    stock = requests.post(f"{url}/atropos/words/register", json=REGISTRATION, timeout=60)
    assert stock.status_code == 200
    info = requests.get(f"{url}/atropos/words/info", timeout=60).json()
    assert info == {name: REGISTRATION[name] for name in ("batch_size", "max_token_len")}
    assert Run.objects.get().registered_at is not None

    push(url, 1, 2)
    batch = trainer.next_batch(wait_seconds=10)
    assert batch is not None
    assert batch.head.count == 2


def test_the_first_native_registration_sets_the_batch_size(url: str, trainer: Trainer) -> None:
    assert trainer.register(batch_size=4).batch_size == 4
    assert trainer.register(batch_size=8).batch_size == 4
    requests.post(
        f"{url}/atropos/words/register", json=REGISTRATION | {"batch_size": 6}, timeout=10
    )

    info = requests.get(f"{url}/atropos/words/info", timeout=60).json()
    assert info == {"batch_size": 4, "max_token_len": REGISTRATION["max_token_len"]}
    push(url, 1, 2)
    assert trainer.next_batch(wait_seconds=10) is not None


def test_the_settings_of_a_run_set_the_batch_size(url: str, trainer: Trainer) -> None:
    trainer.register()
    headers = bearer("admin")
    address = f"{url}/api/v1/runs/words"

    changed = requests.patch(address, json={"batch_size": 2}, headers=headers, timeout=60)

    assert (changed.status_code, changed.json()["batch_size"]) == (200, 2)
    push(url, 1)
    assert trainer.next_batch(wait_seconds=10) is not None


def test_the_batch_size_of_a_fleet_is_part_of_its_configuration(url: str) -> None:
    make_run(name="pole")
    answer = requests.patch(
        f"{url}/api/v1/runs/pole", json={"batch_size": 2}, headers=bearer("admin"), timeout=10
    )
    assert (answer.status_code, answer.json()["code"]) == (409, "batch_size_configured")


def test_a_restored_run_is_served_after_a_native_registration(url: str, tmp_path: Path) -> None:
    source = archive_files.make_words()
    archive_files.push_groups(source, 2)
    archive_files.train(source, steps=2)
    archive_files.export(source, tmp_path / "words.parquet")
    archive_files.restore(tmp_path / "words.parquet", "replayed")
    token = make_token("trainer", run=Run.objects.get(name="replayed"))[1]

    with Trainer(url, "replayed", token) as trainer:
        assert trainer.register(batch_size=4).batch_size == 4
        batch = trainer.next_batch(wait_seconds=10)
    assert batch is not None
    assert batch.head.count == 2


def test_a_run_can_be_created_lenient(url: str) -> None:
    def created(**fields: Any) -> Any:
        body = {"kind": "outside", "start": True} | fields
        answer = requests.post(f"{url}/api/v1/runs", json=body, headers=bearer("admin"), timeout=60)
        assert answer.status_code == 201, answer.text
        return answer.json()

    assert created(name="strict")["lenient"] is False
    assert created(name="words", lenient=True)["lenient"] is True
    shown = requests.get(f"{url}/api/v1/runs/words", headers=bearer("admin"), timeout=60).json()
    assert shown["lenient"] is True
    ragged = group() | {"masks": [[1]]}
    for name, status in (("strict", 422), ("words", 200)):
        answer = requests.post(f"{url}/atropos/{name}/scored_data", json=ragged, timeout=60)
        assert answer.status_code == status


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
