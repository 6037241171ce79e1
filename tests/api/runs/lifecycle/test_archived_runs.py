"""Archived runs over HTTP: readable at their own address, and read-only."""

from datetime import timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.services.lifecycle import archive, unarchive
from tests.factories import NOON, bearer, make_run

READS = [
    "",
    *("/events", "/environments", "/trainers", "/notes", "/weights", "/weights/commands"),
    *("/batches", "/ledger", "/queue", "/environments/push-rates", "/followers", "/archives"),
    *("/fleet", "/pipeline", "/episodes", "/episodes/distribution", "/evaluations"),
    *("/metrics", "/metrics/keys", "/metrics/lines?names=a", "/annotations"),
    "/recordings",
]
WRITES: list[tuple[str, str, dict[str, Any]]] = [
    ("patch", "", {"num_workers": 2}),
    ("post", "/start", {}),
    ("post", "/kill", {}),
    ("put", "/tags", {"tags": ["night"]}),
    ("put", "/notes", {"text": "x", "revision": 0}),
    ("post", "/weights/sync", {}),
    ("post", "/annotations", {"text": "x", "step": 1}),
    ("post", "/archives", {}),
    ("post", "/recordings", {"episodes": 1}),
    ("post", "/fleet/workers/0/uncordon", {"reason": ""}),
]


def archived_run(*, name: str = "cart", minutes: int = 0) -> Run:
    run = make_run(name=name, status=RunStatus.STOPPED)
    now = NOON + timedelta(minutes=minutes)
    return archive(run_id=run.pk, actor="user:olga", reason="old", now=now)


@pytest.mark.parametrize("path", READS)
def test_an_archived_run_and_its_data_can_be_read(operator: APIClient, path: str) -> None:
    run = archived_run()

    for address in ("cart", f"cart--{run.pk}"):
        answer = operator.get(f"/api/v1/runs/{address}{path}")
        assert answer.status_code == 200, answer.content


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_an_archived_run_is_read_only(
    operator: APIClient, method: str, path: str, body: dict[str, Any]
) -> None:
    run = archived_run()
    before = Run.objects.values().get(pk=run.pk)

    for address in ("cart", f"cart--{run.pk}"):
        answer = getattr(operator, method)(f"/api/v1/runs/{address}{path}", body, format="json")
        assert (answer.status_code, answer.json()["code"]) == (409, "run_archived")
        assert answer.json()["detail"] == (
            "run 'cart' was archived on 2026-03-01 at 12:00 UTC and is read-only;"
            f" unarchive it (id {run.pk}) to change it"
        )
    assert Run.objects.values().get(pk=run.pk) == before


def test_a_name_selects_the_current_run_or_the_last_archived_one(operator: APIClient) -> None:
    first, second = archived_run(), archived_run(minutes=1)

    def at(address: str) -> int:
        return int(operator.get(f"/api/v1/runs/{address}").json()["id"])

    assert (at("cart"), at(f"cart--{first.pk}")) == (second.pk, first.pk)
    third = make_run(name="cart")
    assert (at("cart"), at(f"cart--{second.pk}")) == (third.pk, second.pk)
    namesake = make_run(name=f"cart--{first.pk}")
    assert at(f"cart--{first.pk}") == namesake.pk


def test_an_unknown_run_address_is_not_found(operator: APIClient) -> None:
    run = archived_run()

    for address in (
        "cars",
        f"cars--{run.pk}",
        f"cart--{run.pk + 1}",
        "cart--",
        "cart--" + 19 * "9",
    ):
        answer = operator.get(f"/api/v1/runs/{address}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), address


def test_an_unarchived_run_can_be_changed_again(operator: APIClient) -> None:
    run = archived_run()
    unarchive(run_id=run.pk, actor="user:olga", now=NOON)

    answer = operator.put("/api/v1/runs/cart/tags", {"tags": ["night"]}, format="json")

    assert answer.status_code == 200


@pytest.mark.parametrize("suffix", ["", "--{id}"])
def test_a_token_of_the_next_run_of_the_name_cannot_read_the_archived_one(
    client: Any, db: None, suffix: str
) -> None:
    old = archived_run()
    headers = bearer("trainer", run=make_run(name="cart"))

    answer = client.get(f"/api/v1/runs/cart{suffix.format(id=old.pk)}", headers=headers)

    assert answer.status_code == (403 if suffix else 200)
    assert not suffix or "config" not in answer.json()


def test_atropos_routes_of_an_archived_run_have_a_reason(client: Any, db: None) -> None:
    run = make_run(name="cart", kind="outside", status=RunStatus.STOPPED)
    archive(run_id=run.pk, actor="user:olga", now=NOON)

    answer = client.get("/atropos/cart/status", headers=bearer("env"))

    assert answer.status_code == 409
    assert "was archived on" in answer.json()["detail"]
