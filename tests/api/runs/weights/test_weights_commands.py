"""Operators pin and unpin a version, and make workers reload weights."""

from typing import Any

import pytest
from django.core.files.base import ContentFile
from rest_framework.test import APIClient

from rollouts.control.queries.fleets import control_of
from runs.events.models import RunEvent
from runs.lifecycle.models import PolicyVersion, Run
from runs.lifecycle.rules import RunStatus
from runs.weights.models import WeightsCommand
from runs.weights.services import _delete_old_files
from tests.factories import bearer, make_run, make_user
from tests.lesson_factories import language, lesson

pytestmark = pytest.mark.django_db
URL = "/api/v1/runs/alpha/weights"


def published(run: Run, *steps: int, epoch: int = 1) -> None:
    """Create policy versions of the run, the last one as its newest."""
    for step in steps:
        digest = f"{step + 1:064x}"
        manifest = {
            "epoch": epoch,
            "step": step,
            "sha256": digest,
            "size_bytes": 8,
            "tensors": [{"name": "w", "dtype": "F32", "shape": [1]}],
        }
        version = PolicyVersion(
            run=run, epoch=epoch, step=step, manifest=manifest, sha256=digest, size_bytes=8
        )
        version.published_at = run.created_at
        version.file.save(f"{run.pk}-{epoch}-{step}", ContentFile(b"weights!"), save=True)
        Run.objects.filter(pk=run.pk).update(epoch=epoch, policy_step=step)
        _delete_old_files(run.pk)
    run.refresh_from_db()


@pytest.fixture
def run() -> Run:
    created = make_run(kind="fleet", config={"environment": {"spec": "gymnasium:CartPole-v1"}})
    published(created, 0, 1)
    return created


@pytest.fixture
def alice() -> APIClient:
    client = APIClient()
    client.force_login(make_user(username="alice", role="operator"))
    return client


def order(alice: APIClient, verb: str, **fields: Any) -> Any:
    return alice.post(f"{URL}/{verb}", fields, format="json")


def test_fleets_receive_a_pinned_version_although_newer_ones_are_published(
    run: Run, alice: APIClient
) -> None:
    before = control_of(run.pk)

    pinned = order(alice, "pin", step=1, reason="the next ones collapse")
    published(run, 2, 3)

    assert pinned.status_code == 200, pinned.content
    control = control_of(run.pk)
    assert (control.policy_step, control.weights_command) == (1, 1)
    assert control.fingerprint != before.fingerprint
    worker = APIClient(headers=bearer("worker", run=run))
    assert worker.get(f"{URL}/current", {"acting": 1}).json()["step"] == 1
    assert worker.get(f"{URL}/current").json()["step"] == 3
    commands = alice.get(f"{URL}/commands").json()
    assert (commands["pinned_step"], commands["acting_step"], commands["newest_step"]) == (1, 1, 3)
    assert (commands["results"][0]["actor"], commands["results"][0]["reason"]) == (
        "user:alice",
        "the next ones collapse",
    )
    event = RunEvent.objects.get(run=run, kind="weights_pinned")
    assert (event.actor, event.message) == ("user:alice", "workers keep version 1")


def test_the_file_of_a_pinned_version_is_not_deleted(run: Run, alice: APIClient) -> None:
    order(alice, "pin", step=1)

    published(run, *range(2, 9))

    stored = PolicyVersion.objects.exclude(file="").order_by("step").values_list("step", flat=True)
    assert list(stored) == [1, 5, 6, 7, 8]


def test_workers_load_new_versions_after_an_unpin(run: Run, alice: APIClient) -> None:
    order(alice, "pin", step=0)
    published(run, 2)

    order(alice, "unpin", reason="fixed")

    control = control_of(run.pk)
    assert (control.policy_step, control.weights_command) == (2, 2)
    assert order(alice, "unpin").json()["code"] == "not_pinned"


def test_a_sync_request_keeps_the_pinned_version(run: Run, alice: APIClient) -> None:
    first = order(alice, "sync", reason="w3 lags").json()
    order(alice, "pin", step=0)
    second = order(alice, "sync").json()

    assert (first["number"], first["pinned_step"]) == (1, None)
    assert (second["number"], second["pinned_step"], second["acting_step"]) == (3, 0, 0)
    assert control_of(run.pk).weights_command == 3


def test_a_repeated_pin_is_one_request(run: Run, alice: APIClient) -> None:
    for _ in range(2):
        assert order(alice, "pin", step=0).status_code == 200

    assert WeightsCommand.objects.count() == 1


def test_a_pin_ends_with_its_epoch(run: Run, alice: APIClient) -> None:
    order(alice, "pin", step=0)

    published(run, 0, epoch=2)

    control = control_of(run.pk)
    assert (control.epoch, control.policy_step) == (2, 0)
    assert alice.get(f"{URL}/commands").json()["pinned_step"] is None


def test_unpublished_and_evicted_versions_are_not_pinned(run: Run, alice: APIClient) -> None:
    published(run, *range(2, 7))

    never, evicted = order(alice, "pin", step=99), order(alice, "pin", step=0)

    assert (never.status_code, never.json()["code"]) == (404, "no_weights")
    assert (evicted.status_code, evicted.json()["code"]) == (409, "version_evicted")
    assert not WeightsCommand.objects.exists()


def test_a_language_run_pins_only_its_newest_version(alice: APIClient) -> None:
    words = make_run(kind="language", config=language({"a": lesson()}))
    published(words, 0, 1, 2)

    back, newest = order(alice, "pin", step=1), order(alice, "pin", step=2)

    assert (back.status_code, back.json()["code"]) == (409, "cannot_go_back")
    assert newest.status_code == 200


@pytest.mark.parametrize("verb", ["pin", "unpin", "sync"])
def test_only_a_run_with_workers_accepts_pins_and_syncs(
    run: Run, alice: APIClient, verb: str
) -> None:
    Run.objects.filter(pk=run.pk).update(status=RunStatus.COMPLETED)
    assert order(alice, verb, **({"step": 0} if verb == "pin" else {})).json()["code"] == "run_over"
    Run.objects.filter(pk=run.pk).update(status=RunStatus.RUNNING, kind="outside")
    assert order(alice, verb, **({"step": 0} if verb == "pin" else {})).json()["code"] == "no_fleet"


def test_an_invalid_pin_is_refused_with_its_field(run: Run, alice: APIClient) -> None:
    refusal = order(alice, "pin", step=-5)

    assert refusal.status_code == 400
    assert "step" in refusal.content.decode()
    assert order(alice, "pin", version=1).status_code == 400
