"""Workers by node, and the notice to all users."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from django.test import Client
from rest_framework.test import APIClient

from rollouts.control.models import Fleet, FleetWorker
from runs.deployment import queries as deployment
from runs.deployment.models import ServerNotice
from runs.events.models import RunEvent
from tests.factories import NOON, bearer, make_run, make_user

pytestmark = pytest.mark.django_db


def cluster(client: Client) -> dict[str, Any]:
    client.force_login(make_user(username="vera", role="viewer"))
    cluster_state: dict[str, Any] = client.get("/api/v1/cluster").json()
    return cluster_state


def test_nodes_list_their_workers_by_run(client: Client) -> None:
    run = make_run(name="pole", kind="fleet")
    fleet = Fleet.objects.create(run=run, incarnation="m", actor_name="m")
    for index, state in enumerate(("running", "running", "stopped")):
        FleetWorker.objects.create(
            fleet=fleet,
            index=index,
            incarnation="a",
            state=state,
            node="gpu-1",
            heartbeat_at=NOON,
        )

    assert cluster(client)["placements"] == [
        {"node": "gpu-1", "node_id": "", "run": "pole", "run_uid": run.uid, "workers": 2}
    ]


def notice(method: str, *, role: str = "admin", path: str = "", **body: Any) -> Any:
    return APIClient().generic(
        method,
        f"/api/v1/server/notice{path}",
        msgspec.json.encode(body) if body else b"",
        content_type="application/json",
        headers=bearer(role),
    )


def test_a_notice_has_an_author_and_expires() -> None:
    until = datetime(2999, 1, 1, tzinfo=UTC)
    answer = notice("PUT", text="The disk is changed at noon.", until=until, reason="it is old")

    assert answer.status_code == 200, answer.content
    assert answer.json()["notice"]["text"] == "The disk is changed at noon."
    assert deployment.notice(now=until - timedelta(seconds=1))
    assert deployment.notice(now=until) is None
    [event] = RunEvent.objects.filter(kind="notice_set")
    assert (event.reason, event.run_id, bool(event.actor)) == ("it is old", None, True)


def test_a_notice_is_replaced_and_removed_once() -> None:
    notice("PUT", text="one")
    notice("PUT", text="two")
    assert ServerNotice.objects.get().text == "two"

    for _ in range(2):
        assert notice("DELETE", path="?reason=done").json() == {"notice": None}

    [event] = RunEvent.objects.filter(kind="notice_cleared")
    assert event.reason == "done"


def test_an_expired_or_empty_notice_is_refused() -> None:
    over = notice("PUT", text="late", until=datetime(2020, 1, 1, tzinfo=UTC))
    empty = notice("PUT", text="")

    for answer, field in ((over, "until"), (empty, "text")):
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["field"] == field
    assert not ServerNotice.objects.exists()
